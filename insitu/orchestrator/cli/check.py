"""``insitu check``: everything that ``run`` would refuse, found without running."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Probe


def check(
    plan: Annotated[Path, typer.Argument(help="The plan (YAML).", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where the run directory would be: its disk matters.")] = Path(
        "runs"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check a plan and its model against this machine, and show the trials; executes no subject."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.cli import machine
    from insitu.orchestrator.execution.conditions.probing import command_of
    from insitu.orchestrator.execution.conditions.watch import how_they_stand
    from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
    from insitu.orchestrator.report.wording import count
    from insitu.orchestrator.units import format_quantity

    loaded, blueprint = experiment.read(plan)
    with machine.probe_folder(out) as folder:
        prepared = experiment.prepare(loaded, blueprint, folder)
        standings = how_they_stand(prepared.plan.guards, folder)
        machine.try_sandbox(folder)
    trials = experiment.design_trials(prepared.plan)
    expected = machine.expected_duration(prepared, out, len(trials))
    units = {name: variable.unit for name, variable in blueprint.variables.items()}
    if as_json:
        document = {
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
            "abort_when": [
                {"condition": str(one.condition), "now": one.value, "true_now": one.true} for one in standings
            ],
            "probe": _probe(prepared.plan.guards.probe),
            "expected_s": expected.seconds,
            "at_most_s": expected.at_most_s,
        }
        typer.echo(json.dumps(document, allow_nan=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    console.print(f"[bold]{prepared.plan.name}[/]: {len(trials)} trials, {expected.text}", highlight=False)
    for capability in prepared.capabilities:
        weak = f" [yellow](weaker: {capability.reason}; {capability.remedy})[/]" if capability.weaker else ""
        console.print(f"  {capability.variable} by {capability.mechanism}{weak}", highlight=False)
    for left in prepared.left_unset:
        console.print(
            f"  [yellow]{left.variable} is left as it is: {left.reason}[/]\n    to set it: {left.remedy}",
            highlight=False,
        )
    for one in standings:
        quantity = HOST_QUANTITIES[one.condition.quantity]
        now = "" if one.value is None else f" (now {quantity.spell(one.value)})"
        late = " [yellow]: no trial would start now[/]" if one.true else ""
        console.print(f"  ends when {one.condition}{now}{late}", highlight=False)
    if (probe := prepared.plan.guards.probe) is not None:
        command = escape(shlex.join(command_of(probe)))
        console.print(
            f"  ends when this fails, every {probe.every_s:g} s, or takes {probe.timeout_s:g} s: {command}",
            highlight=False,
        )
    table = Table(box=None, header_style="bold")
    table.add_column("trial", justify="right")
    table.add_column("block", justify="right")
    names = [name for name, _ in trials[0].assignment.levels]
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("")
    for trial in trials:
        levels = trial.assignment.as_dict()
        shown = [format_quantity(levels[name], units[name]) for name in names]
        table.add_row(str(trial.trial), str(trial.block), *shown, "baseline" if trial.baseline else "")
    console.print(table)
    console.print(f"nothing wrong found; {count(len(trials), 'trial')} would run with: insitu run {plan}")


def _probe(probe: Probe | None) -> dict[str, object] | None:
    from insitu.orchestrator.execution.conditions.probing import command_of

    if probe is None:
        return None
    return {"command": list(command_of(probe)), "every_s": probe.every_s, "timeout_s": probe.timeout_s}
