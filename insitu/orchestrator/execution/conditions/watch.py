"""Compares the node with a plan's abort conditions while a trial runs, and right before one starts."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors.journal import Journal
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind
from insitu.orchestrator.execution.conditions.host_state import HostState
from insitu.orchestrator.execution.conditions.probing import Prober
from insitu.orchestrator.plan.types import Condition, Guards, Probe, Relation

WATCH_INTERVAL_S = 0.2
"""Between two looks at the node; a probe's answer is heard when it comes."""
_FREE_MEMORY_BYTES, _FREE_MEMORY_SHARE = 256e6, 0.05
"""What a node keeps where the plan does not say: the smaller of the two."""
_PAUSE_S = 0.005


class NotWell(Exception):
    """A condition of the plan is true; the message says which."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the node showed.

    Attributes
    ----------
    problem
        The condition that is true; empty if none is.
    complete
        Whether every condition could be told: a pressure over the last second needs a second, and a probe its
        answer.
    """

    problem: str
    complete: bool


class HostWatch:
    """Watches one node for as long as an agent lives; a context manager.

    Parameters
    ----------
    folder
        On the disk of the run directory.
    journal
        Takes the end of the prober: stopped by a signal, it would not notice that the agent has ended.
    """

    def __init__(self, folder: Path, journal: Journal) -> None:
        self._state = HostState(folder)
        self._journal = journal
        self._prober: Prober | None = None
        self._intent = 0

    def look(self, guards: Guards) -> Look:
        """Compare the node with every condition, now."""
        complete = True
        for condition in conditions_of(guards, self._state):
            try:
                value = self._state.read(condition.quantity)
            except OSError as exc:  # it was there when the plan was checked
                return Look(f"{condition.quantity} cannot be read any more: {exc}", True)
            if value is None:
                complete = False
            elif condition.holds_for(value):
                return Look(condition.why(value), True)
        if guards.probe is None or self._prober is None:
            return Look("", complete)
        heard = self._prober.hear()
        return Look(heard.problem, complete and heard.recent)

    def insisting(self, guards: Guards) -> Callable[[], None]:
        """What whoever is busy calls as often as it likes: looks when it is time to, and raises `NotWell`."""
        next_look = -math.inf

        def look_if_due() -> None:
            nonlocal next_look
            if time.monotonic() < next_look and not self.has_news():
                return
            if problem := self.look(guards).problem:
                raise NotWell(problem)
            next_look = time.monotonic() + WATCH_INTERVAL_S

        return look_if_due

    @contextmanager
    def probing(self, guards: Guards) -> Iterator[None]:
        """Execute the probe, if there is one, inside this context only."""
        if guards.probe is None:
            yield
            return
        prober = self._prober_for(guards.probe)
        prober.go()
        try:
            yield
        finally:
            prober.rest()

    def _prober_for(self, probe: Probe) -> Prober:
        if self._prober is not None and (self._prober.probe != probe or self._prober.ended):
            self.close()
        if self._prober is None:
            self._prober = Prober(probe)
            pid = self._prober.pid
            self._intent = self._journal.intend([Undo(UndoKind.PROCESS, f"/proc/{pid}", start_time(pid))])
        return self._prober

    def wait_until_well(self, guards: Guards, within_s: float) -> str:
        """Wait until no condition is true and all are known; gives one that stayed true for so long."""
        deadline = time.monotonic() + within_s
        while (look := self.look(guards)).problem or not look.complete:
            if look.problem and time.monotonic() >= deadline:
                return look.problem
            time.sleep(_PAUSE_S)
        return ""

    def news(self) -> tuple[int, ...]:
        """Descriptors that are readable when there is a reason to look before the interval is over."""
        return () if self._prober is None or self._prober.ended else (self._prober.descriptor,)

    def has_news(self) -> bool:
        """Whether one of them is readable now."""
        return bool((descriptors := self.news()) and select.select(descriptors, [], [], 0)[0])

    def close(self) -> None:
        """End the probe's process."""
        if self._prober is not None:
            self._prober.close()
            self._prober = None
            self._journal.done(self._intent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a condition stands on this node at the moment; `value` is ``None`` where that takes a second to tell."""

    condition: Condition
    value: float | None

    @property
    def true(self) -> bool:
        """Whether no trial would start now."""
        return self.value is not None and self.condition.holds_for(self.value)


def how_they_stand(guards: Guards, folder: Path) -> tuple[Standing, ...]:
    """Read the quantity of every condition once."""
    state = HostState(folder)
    return tuple(Standing(one, state.read(one.quantity)) for one in conditions_of(guards, state))


def conditions_of(guards: Guards, state: HostState) -> tuple[Condition, ...]:
    """All conditions of a plan: the two that every plan has, then its own."""
    least_bytes = guards.free_memory_bytes
    if least_bytes is None:
        least_bytes = min(_FREE_MEMORY_BYTES, _FREE_MEMORY_SHARE * state.total_memory_bytes)
    return (
        Condition("host.disk.free", Relation.BELOW, guards.free_disk_bytes),
        Condition("host.memory.available", Relation.BELOW, least_bytes),
        *guards.abort_when,
    )
