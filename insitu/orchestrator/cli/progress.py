"""What is seen while a plan executes: a live line on a terminal, one line per trial elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text

    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.loop import Watcher
    from insitu.orchestrator.plan.types import Variable
    from insitu.orchestrator.store.ledger import Ledger
    from insitu.orchestrator.store.records import PlannedTrial, TrialRecord


@contextmanager
def progress(prepared: Experiment, *, quiet: bool) -> Iterator[Watcher]:
    """A watcher for the loop, fit for where stderr goes."""
    from rich.text import Text

    from insitu.orchestrator.plan.types import SEQUENTIAL
    from insitu.orchestrator.report.console import PlainConsole

    console = PlainConsole(stderr=True, highlight=False, quiet=quiet, soft_wrap=True)
    for left in prepared.left_unset:
        what = (f"{left.variable} is left as it is:", "yellow")
        console.print(Text.assemble(what, f" {left.reason}\n  to set it: {left.remedy}"))
    for capability in prepared.capabilities:
        if capability.weaker:
            what = (f"{capability.variable} by {capability.mechanism} only:", "yellow")
            console.print(Text.assemble(what, f" {capability.reason}\n  {capability.remedy}"))
    if quiet or not console.is_terminal:
        yield _Lines(console, prepared.blueprint.variables)
        return
    with _bar(console) as bar:
        until = "to next look" if prepared.plan.design.kind == SEQUENTIAL else "left"
        yield _Live(console, prepared.blueprint.variables, bar, until)


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("[dim]elapsed,[/] {task.fields[remaining]}"),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
    )


class _Lines:
    """One line per finished trial."""

    def __init__(self, console: Console, variables: Mapping[str, Variable]) -> None:
        self._console = console
        self._variables = variables
        self._levels = ""

    def stage(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text, "dim"))

    def looked(self, text: str) -> None:
        self.stage(text)

    def started(self, planned: PlannedTrial, ledger: Ledger) -> None:
        del ledger
        self._levels = _levels(planned, self._variables)

    def ended(self, record: TrialRecord, ledger: Ledger) -> None:
        from rich.text import Text

        done = f"{ledger.valid:>4}/{ledger.total}  "
        self._console.print(Text.assemble(done, _result(record), f"  {self._levels}"))


class _Live:
    """A bar with elapsed and remaining time and the trial at hand; bad trials and looks stay above it.

    Parameters
    ----------
    until
        What the remaining time is until.
    """

    def __init__(self, console: Console, variables: Mapping[str, Variable], bar: Progress, until: str) -> None:
        self._until = until
        self._console = console
        self._variables = variables
        self._bar = bar
        self._task: TaskID = bar.add_task("", total=None, remaining="")
        self._begin: float | None = None
        self._executed = 0

    def stage(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def looked(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text, "dim"))

    def started(self, planned: PlannedTrial, ledger: Ledger) -> None:
        self._begin = self._begin or time.monotonic()
        text = f"trial {planned.trial}: {_levels(planned, self._variables)}"
        self._bar.update(self._task, completed=ledger.valid, total=ledger.total, description=text)

    def ended(self, record: TrialRecord, ledger: Ledger) -> None:
        from rich.text import Text

        from insitu.orchestrator.store.records import TrialState

        self._executed += 1
        left_s = (ledger.total - ledger.valid) * (time.monotonic() - (self._begin or 0.0)) / self._executed
        self._bar.update(self._task, completed=ledger.valid, remaining=f"{left_s:.0f} s {self._until}")
        if record.state is not TrialState.VALID:
            self._console.print(Text.assemble(f"trial {record.trial}: ", _result(record)))


def _levels(planned: PlannedTrial, variables: Mapping[str, Variable]) -> str:
    if planned.baseline:
        return "baseline"
    from insitu.orchestrator.store.records import Purpose

    levels = ", ".join(
        f"{name} {variables[name].spell(level)}"
        for name, level in planned.assignment.levels
        if math.isfinite(level)
    )
    checks = planned.purpose is not None and planned.purpose is not Purpose.INFORMING
    return f"{levels} ({planned.purpose})" if checks else levels


def _result(record: TrialRecord) -> Text:
    from rich.text import Text

    from insitu.orchestrator.store.records import TrialState

    wall_s = record.measurements.get("wall_time")
    took = f"{wall_s:7.3f} s" if wall_s is not None else "         "
    if record.state is TrialState.VALID:
        return Text.assemble(f"{took} ", ("valid", "green"))
    colour = "yellow" if record.state is TrialState.INVALID else "red"
    return Text.assemble(f"{took} ", (record.state.value, colour), f" {'; '.join(record.reasons)}")
