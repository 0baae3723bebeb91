"""``insitu run``: execute a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import machine


def run(
    plan: Annotated[Path, typer.Argument(help="The plan (YAML).", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run directory: new or empty.", show_default="runs/NAME-DATE"),
    ] = None,
    inventory: machine.Inventoried = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
) -> None:
    """Execute a plan: every trial under its levels, verified; then refit the law and report."""
    import time

    from insitu.orchestrator import experiment
    from insitu.orchestrator.cli import execution

    loaded, blueprint = experiment.read(plan)
    directory = out or Path("runs") / f"{loaded.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with machine.probe_folder(directory) as folder:
        prepared = experiment.prepare(loaded, blueprint, folder, machine.inventory(inventory))
        machine.try_sandbox(folder)
    execution.begin(prepared, directory, quiet=quiet)
