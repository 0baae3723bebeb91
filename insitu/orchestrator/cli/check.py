"""``insitu check``: everything that ``run`` would refuse, found without running."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from insitu.orchestrator.cli import limits, machine, previews
from insitu.orchestrator.cli.saying import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from insitu.orchestrator.cli.machine import Expected
    from insitu.orchestrator.doubts import Doubt
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import PlannedTrial


def check(
    plan: Annotated[Path, typer.Argument(help="The plan (YAML).", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Where the run directory would be: its disk matters.", show_default="a new one in runs"
        ),
    ] = None,
    inventory: machine.Inventoried = None,
    like: Annotated[
        Path | None,
        typer.Option("--like", help="An earlier run: its noise and durations.", show_default="none"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a plan and its model against this machine, and show the trials; executes no subject."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.doubts import doubts_of
    from insitu.orchestrator.plan.types import SEQUENTIAL
    from insitu.orchestrator.reasoning import reason_about
    from insitu.orchestrator.report.wording import count

    loaded, blueprint = experiment.read(plan)
    inventoried = machine.inventory(inventory)
    runs = out or Path("runs")
    machine.require_state_folder()
    with machine.probe_folder(runs) as folder:
        prepared = experiment.prepare(loaded, blueprint, folder, inventoried)
        limited = limits.limits_of(prepared, folder)
        machine.try_sandbox(folder)
    doubts = (*doubts_of(prepared, inventoried), *limits.doubts(limited))
    design = experiment.design_of(prepared.plan, blueprint)
    trials = design.trials
    reasoning = reason_about(prepared.plan, blueprint)
    sentences = reasoning.sentences if reasoning is not None else ()
    alike = previews.trials_like(like)
    foreseen = previews.preview(prepared, trials, alike)
    fixed = loaded.design.kind != SEQUENTIAL
    most = len(trials) if fixed else prepared.most_trials
    expected = machine.expected_duration(prepared, runs, most, previews.seconds_of(foreseen, alike, most))
    if as_json:
        document = _document(prepared, trials, limited, expected, doubts)
        document["reasoning"] = list(sentences)
        document["design"] = list(design.told)
        document["preview"] = previews.document(foreseen)
        typer.echo(json.dumps(document, allow_nan=False))
        return
    ahead = (*design.told, *previews.lines(foreseen, prepared.plan))
    more = "" if fixed else " before the first look"
    _show(prepared, trials, more, limited, expected, (*sentences, *ahead))
    for doubt in doubts:
        say(f"warning: {doubt}")
    found = count(len(doubts), "warning") if doubts else "nothing wrong found"
    command = shlex.join(["insitu", "run", str(plan), *_options(out, inventory, loaded.name)])
    trials_text = count(len(trials), "trial") if fixed else f"at most {count(most, 'trial')}"
    say(f"{found}; {trials_text} would run with: {command}")


def _options(out: Path | None, inventory: Path | None, name: str) -> Iterator[str]:
    """What the command that executes the plan needs, to mean the same as this one."""
    if out is not None:
        is_run = (out / "run.db").exists()
        taken = is_run or (out.is_dir() and any(out.iterdir()))
        yield from ("--out", str(machine.new_directory(out.parent if is_run else out, name) if taken else out))
    if inventory is not None:
        yield from ("--inventory", str(inventory))


def _document(
    prepared: Experiment,
    trials: Sequence[PlannedTrial],
    limited: limits.Limits,
    expected: Expected,
    doubts: Sequence[Doubt],
) -> dict[str, object]:
    return {
        "plan": prepared.plan.name,
        "trials": [
            {
                "trial": trial.trial,
                "block": trial.block,
                "baseline": trial.baseline,
                "levels": {
                    name: None if level == float("inf") else level for name, level in trial.assignment.levels
                },
            }
            for trial in trials
        ],
        "mechanisms": {c.variable: c.mechanism for c in prepared.capabilities},
        "left_unset": {left.variable: left.reason for left in prepared.left_unset},
        **limits.document(limited),
        "expected_s": expected.seconds,
        "at_most_s": expected.at_most_s,
        "warnings": [str(doubt) for doubt in doubts],
    }


def _show(
    prepared: Experiment,
    trials: Sequence[PlannedTrial],
    more: str,
    limited: limits.Limits,
    expected: Expected,
    told: Sequence[str],
) -> None:
    from rich.table import Table
    from rich.text import Text

    from insitu.orchestrator.report.console import PlainConsole

    variables = prepared.blueprint.variables
    console = PlainConsole(highlight=False)
    console.print(f"[bold]{prepared.plan.name}[/]: {len(trials)} trials{more}, {expected.text}")
    for line in told:
        console.print(Text.assemble("  ", line), soft_wrap=True)
    for capability in prepared.capabilities:
        weak = f" (weaker: {capability.reason}; {capability.remedy})" if capability.weaker else ""
        console.print(Text.assemble(f"  {capability.variable} by {capability.mechanism}", (weak, "yellow")))
    for left in prepared.left_unset:
        what = (f"{left.variable} is left as it is: {left.reason}", "yellow")
        console.print(Text.assemble("  ", what, f"\n    to set it: {left.remedy}"))
    for limit in limits.lines(limited):
        console.print(Text.assemble("  ", limit), soft_wrap=True)
    table = Table(box=None, header_style="bold")
    table.add_column("trial", justify="right")
    table.add_column("block", justify="right")
    names = [name for name, _ in trials[0].assignment.levels]
    for name in names:
        table.add_column(Text(name), justify="right")
    table.add_column("")
    for trial in trials:
        levels = trial.assignment.as_dict()
        shown = [variables[name].spell(levels[name]) for name in names]
        table.add_row(str(trial.trial), str(trial.block), *shown, "baseline" if trial.baseline else "")
    console.print(table)
