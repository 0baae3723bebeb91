"""What brings about the parts of a treatment that are more than a value in a file: links, loads.

An actuator is kept ready by the agent from trial to trial, and serves one at a time. `lifecycle` drives it: what
it would undo is journalled before it makes anything, and whatever it made dies with an object that carries
the run's mark, so that the guard can undo it without the actuator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from insitu.injectors.contract import Part
from insitu.injectors.undo import Undo


@dataclass(frozen=True, slots=True)
class Host:
    """Where a part is brought about.

    Attributes
    ----------
    init
        Process 1 of the subject's sandbox, as the host counts; it waits, and its namespaces stand.
    group
        The trial's own control groups, controller to directory.
    scratch
        The subject's scratch folder.
    longest_s
        After which the trial is over, whatever happens.
    meanwhile
        To be called several times per second by whoever waits for long; what it raises ends the wait.
    """

    init: int
    group: Mapping[str, Path]
    scratch: Path
    longest_s: float
    meanwhile: Callable[[], None] = lambda: None


class MomentKind(StrEnum):
    """What happened to something that is added for a part of the trial."""

    ONSET = "onset"
    """It began."""
    OFFSET = "offset"
    """It ended."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened, in seconds after the subject's start.

    Attributes
    ----------
    variable
        Of the injector.
    planned_s
        ``None`` for what lasts as long as the subject does.
    actual_s
        As measured by what began or ended.
    """

    kind: MomentKind
    variable: str
    planned_s: float | None
    actual_s: float


class InForce(Protocol):
    """A part that holds."""

    def columns(self) -> Mapping[str, Callable[[], float]]:
        """What to sample while it holds: column to a reading in base units, cheap enough for 40 a second."""
        ...

    def started(self, at: float) -> None:
        """The subject has been executed, at a time of the monotonic clock."""
        ...

    def ended(self) -> tuple[Moment, ...]:
        """The subject has ended, so whatever was added beside it ends now; gives when it was there.

        Columns stay as they then are.
        """
        ...


class Actuator(Protocol):
    """Brings about parts of one type."""

    @property
    def part(self) -> type[Part]:
        """The type."""
        ...

    def describe(self, part: Part, name: str) -> tuple[str, ...]:
        """The exact commands and writes, for the journal and for dry runs; `name` carries the run's mark."""
        ...

    def undos(self, part: Part, name: str) -> tuple[Undo, ...]:
        """What puts everything back without this actuator; asked before anything is made."""
        ...

    def close(self) -> None:
        """End whatever was kept ready for the next trial."""
        ...

    def hold(self, part: Part, name: str, host: Host) -> AbstractContextManager[InForce]:
        """Bring it about and read it back on entry; undo and verify on exit.

        Raises
        ------
        InjectorError
            If it cannot be brought about, or does not read back.
        """
        ...
