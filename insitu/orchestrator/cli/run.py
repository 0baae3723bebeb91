"""``insitu run``: execute a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import machine
from insitu.orchestrator.cli.saying import say


def run(
    plan: Annotated[Path, typer.Argument(help="The plan (YAML).", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run directory: new or empty.", show_default="runs/NAME-DATE"),
    ] = None,
    inventory: machine.Inventoried = None,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Print every write and command instead; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print one JSON document.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
) -> None:
    """Execute a plan: every trial under its levels, verified; then refit the law and report."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.cli import dry_run, execution
    from insitu.orchestrator.doubts import doubts_of
    from insitu.orchestrator.errors import InputError
    from insitu.orchestrator.store.refusals import refuse_occupied

    if as_json and not dry:
        raise InputError("--json is for --dry-run; of a run, insitu show --json tells")
    loaded, blueprint = experiment.read(plan)
    directory = out or machine.new_directory(Path("runs"), loaded.name)
    inventoried = machine.inventory(inventory)
    refuse_occupied(directory)
    machine.require_state_folder(dry=dry)
    if dry:
        existing = machine.look_at_parent(directory)
        rehearsed = experiment.prepare(loaded, blueprint, existing, inventoried, dry=True)
        dry_run.show(rehearsed, directory, existing, inventoried, as_json=as_json)
        return
    with machine.probe_folder(directory) as folder:
        prepared = experiment.prepare(loaded, blueprint, folder, inventoried)
        doubts = doubts_of(prepared, inventoried)
        machine.try_sandbox(folder)
    for doubt in doubts:
        say(f"warning: {doubt}", err=True)
    execution.begin(prepared, directory, quiet=quiet)
