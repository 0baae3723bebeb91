"""What a plan may say about how a variable is brought about, beside its level.

An injector declares its options as data; whoever reads the plan resolves what is written there to these values,
with units and with a place for every fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class OptionKind(StrEnum):
    """What an option's value is."""

    WORD = "word"
    """One of a few words."""
    COUNT = "count"
    """A whole number from 1 up."""
    ADDRESS = "address"
    """Host and port of a TCP server, as in ``10.0.0.7:9000``."""
    SCHEDULE = "schedule"
    """Windows of time: one list for every node, or node to list."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an injector.

    Attributes
    ----------
    words
        That a `OptionKind.WORD` may be.
    highest
        That a `OptionKind.COUNT` may be.
    """

    name: str
    kind: OptionKind
    summary: str
    words: tuple[str, ...] = ()
    highest: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A stretch of time, in seconds after the subject's start."""

    begin_s: float
    end_s: float

    def __str__(self) -> str:
        return f"{self.begin_s:g} to {self.end_s:g} s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something is to be there, per node; in order, without overlap.

    Attributes
    ----------
    everywhere
        On every node, if `by_node` is empty.
    by_node
        Node to windows; a node that is not named has none.
    """

    everywhere: tuple[Window, ...] = ()
    by_node: tuple[tuple[str, tuple[Window, ...]], ...] = ()

    def on(self, node: str) -> tuple[Window, ...]:
        return dict(self.by_node).get(node, ()) if self.by_node else self.everywhere


OptionValue: TypeAlias = "str | int | Schedule"
Options: TypeAlias = tuple[tuple[str, OptionValue], ...]
"""Name to value, each name once: what a plan says for one factor."""
