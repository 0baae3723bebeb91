"""``insitu run --dry-run``: every write and command of a run, in its order, without doing any of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from insitu.orchestrator.cli import limits
from insitu.orchestrator.cli.saying import say

if TYPE_CHECKING:
    from insitu.orchestrator.doubts import Doubt
    from insitu.orchestrator.execution.rehearsal import Rehearsal, TrialSteps
    from insitu.orchestrator.execution.sandbox.protocol import Launch
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.inventory import Inventory

_NOT_TRIED = (
    "not tried: a sandbox, ray, a folder whose writes are synchronous, a journal; insitu check tries all of these "
    "but ray. Nor is anything undone that a dead run left"
)


def show(
    prepared: Experiment, directory: Path, existing: Path, inventory: Inventory | None, *, as_json: bool
) -> None:
    """Print what executing a plan would do.

    Parameters
    ----------
    directory
        The run directory that would be made.
    existing
        The folder that it would be made in, as far as it exists.
    """
    from insitu.injectors import neighbours, recovery
    from insitu.orchestrator import experiment
    from insitu.orchestrator.doubts import doubts_of
    from insitu.orchestrator.errors import NodeDirty
    from insitu.orchestrator.execution.rehearsal import rehearse
    from insitu.orchestrator.radius import refuse_crowd

    if refusals := recovery.refusals():
        raise NodeDirty("\n".join(refusals), hint="insitu recover")
    refuse_crowd(prepared.radius.allowed, neighbours.other_runs(""))
    limited = limits.limits_of(prepared, existing)
    doubts = (*doubts_of(prepared, inventory), *limits.doubts(limited))
    trials = experiment.design_trials(prepared.plan, prepared.blueprint)
    rehearsal = rehearse(prepared.plan, trials, prepared.radius.caps, prepared.here, directory)
    if as_json:
        typer.echo(json.dumps(_document(prepared, rehearsal, limited, doubts), allow_nan=False))
        return
    for line in _lines(prepared, rehearsal, limited):
        say(line)
    for doubt in doubts:
        say(f"warning: {doubt}")


def _document(
    prepared: Experiment, rehearsal: Rehearsal, limited: limits.Limits, doubts: Sequence[Doubt]
) -> dict[str, object]:
    """What `rehearse` gives, with the node's limits; levels that ask for nothing are null."""
    document = asdict(rehearsal)
    for trial in document["trials"]:
        trial["assignment"] = {
            name: None if level == float("inf") else level for name, level in trial["assignment"]
        }
    return {
        "format": "insitu-dry-run",
        "version": 1,
        "plan": prepared.plan.name,
        "left_unset": {left.variable: left.reason for left in prepared.left_unset},
        **document,
        **limits.document(limited),
        "warnings": [str(doubt) for doubt in doubts],
        "not_tried": _NOT_TRIED,
    }


def _lines(prepared: Experiment, rehearsal: Rehearsal, limited: limits.Limits) -> Iterator[str]:
    from insitu.orchestrator.report.wording import count

    total = sum(len(trial.trials) for trial in rehearsal.trials)
    yield f"{prepared.plan.name}: {count(total, 'trial')} on {rehearsal.node}; nothing of this is done now"
    yield "RUN is the run's id, and PID a process's; both are known when it begins"
    if rehearsal.undone_first:
        yield from _section("first undone, since its run is dead", rehearsal.undone_first)
    yield from _section("what ends or limits the run", limits.plain_lines(limited))
    yield from _section("folders and files", (*rehearsal.folders, *rehearsal.journals))
    yield from _section("processes", rehearsal.processes)
    if rehearsal.confinement:
        yield from _section("around the whole run", rehearsal.confinement)
    shown = f"the host's files, through overlays or read-only: {', '.join(rehearsal.view)}"
    environment = f"environment: {' '.join(rehearsal.environment)}"
    yield from _section(f"each sandbox: new namespaces {', '.join(rehearsal.namespaces)}", (shown, environment))
    for data in rehearsal.data:
        made = (*data.group, *data.scratch, *_launch(data.program, rehearsal))
        yield from _section(f"once, to make {data.file}", (*made, f"mv {data.program.stdout} {data.file}"))
    for steps in rehearsal.trials:
        yield from _trial(prepared, rehearsal, steps)
    yield ""
    yield "after each trial, and after each file of data: what it made is undone, and seen to be gone"
    yield "at the end: what was made for the run"
    yield _NOT_TRIED


def _trial(prepared: Experiment, rehearsal: Rehearsal, steps: TrialSteps) -> Iterator[str]:
    variables = prepared.blueprint.variables
    levels = ", ".join(f"{name} {variables[name].spell(level)}" for name, level in steps.assignment)
    which = ("trial " if len(steps.trials) == 1 else "trials ") + ", ".join(map(str, steps.trials))
    yield ""
    yield f"{which}: {levels}"
    yield "  made (of later trials ahead of them, as insitu-RUN-g1, insitu-RUN-g2, ...)"
    yield from (f"    {line}" for line in (*steps.group, *steps.scratch))
    if steps.preparation is not None:
        yield "  the input"
        yield from (f"    {line}" for line in _launch(steps.preparation, rehearsal))
        yield f"    {steps.input_in_memory:.0%} of it in memory when the subject starts"
    yield "  the levels"
    yield from (f"    {line}" for line in steps.levels or ("none: every variable is left as it is",))
    yield "  the subject"
    yield from (f"    {line}" for line in _launch(steps.subject, rehearsal))


def _launch(launch: Launch, rehearsal: Rehearsal) -> Iterator[str]:
    own = [
        f"{name}={shlex.quote(text)}"
        for name, text in launch.environment.items()
        if f"{name}={text}" not in rehearsal.environment
    ]
    into = f" > {launch.stdout}" if launch.stdout else ""
    yield " ".join([*own, shlex.join(launch.command)]) + into
    if (cycle := launch.duty_cycle) is not None:
        yield (f"SIGSTOP and SIGCONT: {cycle.share:.1%} of every {cycle.period_s:g} s, on {cycle.cpus} processors")


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"  {line}" for line in lines)
