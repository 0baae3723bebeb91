"""What one anomaly asks for: data, from the injector to the processes that do it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from insitu.injectors.contract import Part
from insitu.injectors.errors import NotSettable
from insitu.injectors.options import Window

BIGROOTS = "bigroots"
DEFAULT = "default"

_TAKEN_PER_S = 1e9
"""Bytes of memory that can be had per second, at worst: each page is cleared first."""


class Kind(StrEnum):
    """The resource that is used."""

    CPU = "cpu"
    DISK = "disk"
    NET = "net"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    CACHE = "cache"
    MEMORY = "memory"


def period_of(kind: Kind) -> float:
    """Period of a duty cycle in seconds.

    A step of 5 % must be long against a wake-up (some 50 microseconds), and against a step of the work: a write
    cannot be cut short.
    """
    return 0.5 if kind is Kind.DISK else 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """One anomaly.

    Attributes
    ----------
    variable
        Of the injector that asks for it.
    workers
        Processes that do it.
    duty
        Part of the time in which each worker is at work.
    rate
        Bytes per second of all workers together; 0 for as fast as it goes.
    levels_per_unit
        Factor from what all workers asked for (seconds of work; with a rate, bytes) to level times seconds.
    held_bytes
        Memory to hold, of `Kind.MEMORY`.
    preset
        What the work is like.
    target
        Host and port of an echo server on another machine; empty for one of ours.
    windows
        When it is there; ``None`` for as long as the subject is.
    """

    variable: str
    kind: Kind
    workers: int = 1
    duty: float = 1.0
    rate: float = 0.0
    levels_per_unit: float = 1.0
    held_bytes: float = 0.0
    preset: str = DEFAULT
    target: str = ""
    windows: tuple[Window, ...] | None = None

    @property
    def taking_s(self) -> float:
        """How long its memory takes to be had, at worst; no less than it takes to be given back."""
        return self.held_bytes / _TAKEN_PER_S

    def __str__(self) -> str:
        what = f"{self.workers} processes of {self.preset} {self.kind} load"
        how = f" at {self.duty:.0%} of the time" if self.duty < 1 else ""
        how += f" at {self.rate:g} B/s" if self.rate else ""
        how += f" of {self.held_bytes:g} B" if self.held_bytes else ""
        how += f" with {self.target}" if self.target else ""
        when = "" if self.windows is None else f", {'; '.join(map(str, self.windows)) or 'never'}"
        return what + how + when


@dataclass(frozen=True, slots=True)
class Loads(Part):
    """All anomalies of a trial, one of each kind."""

    loads: tuple[Load, ...]

    def joined(self, other: Part) -> Loads:
        if not isinstance(other, Loads):
            raise TypeError(f"{type(other).__name__} is no load")
        both = (*self.loads, *other.loads)
        by_kind: dict[Kind, str] = {}
        for load in both:
            if load.kind in by_kind:
                raise NotSettable(
                    f"{by_kind[load.kind]} and {load.variable} both ask for load of the {load.kind}",
                    "set one of them, and leave the other at 0",
                )
            by_kind[load.kind] = load.variable
        return Loads(both)
