"""The processors that a subject's threads may run on: seen while it runs, and set where no cpuset does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from insitu.injectors.actuator import Host, Moment
from insitu.injectors.contract import Part
from insitu.injectors.errors import InjectorError, NotSettable
from insitu.injectors.processes import members
from insitu.injectors.processors import spell_list
from insitu.injectors.undo import Undo

COLUMN = "processors_allowed"
_MOST_THREADS = 64
"""Looked at in one sample: enough to find one that has left, cheap enough for 40 samples a second."""


@dataclass(frozen=True, slots=True)
class Placement(Part):
    """A subject that may run on some processors only.

    Attributes
    ----------
    pinned
        Whether its affinity must be set; else a cpuset holds it, and it is only watched.
    """

    processors: tuple[int, ...]
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class _Watched:
    host: Host

    def columns(self) -> Mapping[str, Callable[[], float]]:
        return {COLUMN: self._allowed}

    def started(self, at: float) -> None:
        """Nothing follows a schedule."""

    def ended(self) -> tuple[Moment, ...]:
        return ()

    def _allowed(self) -> float:
        """How many processors any of the threads may use."""
        union: set[int] = set()
        for thread in _threads(self.host):
            try:
                union |= os.sched_getaffinity(thread)
            except OSError:  # ended meanwhile
                continue
        return float(len(union)) if union else float("nan")


class Placements:
    """The actuator: pins process 1 of the sandbox, from which everything inside inherits."""

    part: type[Part] = Placement

    def describe(self, part: Part, name: str) -> tuple[str, ...]:
        placement = _placement(part)
        return (f"sched_setaffinity = {spell_list(placement.processors)}",) if placement.pinned else ()

    def undos(self, part: Part, name: str) -> tuple[Undo, ...]:
        return ()  # it ends with the processes

    def close(self) -> None:
        """Nothing is kept."""

    @contextmanager
    def hold(self, part: Part, name: str, host: Host) -> Iterator[_Watched]:
        placement = _placement(part)
        if placement.pinned:
            wanted = set(placement.processors)
            try:
                os.sched_setaffinity(host.init, wanted)
            except OSError as exc:
                raise NotSettable(
                    f"cannot pin the subject to processors {sorted(wanted)}: {exc.strerror}"
                ) from exc
            if (seen := os.sched_getaffinity(host.init)) != wanted:
                raise InjectorError(f"the subject may run on processors {sorted(seen)}, not {sorted(wanted)}")
        yield _Watched(host)


def _placement(part: Part) -> Placement:
    if not isinstance(part, Placement):
        raise TypeError(f"not a placement: {part}")
    return part


def _threads(host: Host) -> Iterator[int]:
    left = _MOST_THREADS
    lists = [str(directory / "cgroup.procs") for directory in host.group.values()]
    for pid in members(lists, host.init):
        try:
            names = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for name in names[:left]:
            yield int(name)
        left -= len(names)
        if left <= 0:
            return
