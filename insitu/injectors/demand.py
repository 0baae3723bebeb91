"""What levels take of a node at most: what a plan may ask for is capped by its blast radius.

An injector that loads the node, or lets the subject load it, says how much by a method ``demand(level)``; one
that only holds the subject back has none. It is asked before anything runs, so it must not look at the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol, runtime_checkable

from insitu.injectors.treatment import Intervention


@dataclass(frozen=True, slots=True)
class Demand:
    """An upper bound of what is taken; the default takes nothing.

    Attributes
    ----------
    interfaces
        Network interfaces that stand on the host meanwhile.
    """

    cores: float = 0.0
    memory_bytes: float = 0.0
    disk_bytes_per_s: float = 0.0
    interfaces: int = 0

    def __add__(self, other: Demand) -> Demand:
        """Both at the same time."""
        return Demand(
            self.cores + other.cores,
            self.memory_bytes + other.memory_bytes,
            self.disk_bytes_per_s + other.disk_bytes_per_s,
            self.interfaces + other.interfaces,
        )

    def maximum(self, other: Demand) -> Demand:
        """One after the other: the larger of each."""
        return Demand(
            max(self.cores, other.cores),
            max(self.memory_bytes, other.memory_bytes),
            max(self.disk_bytes_per_s, other.disk_bytes_per_s),
            max(self.interfaces, other.interfaces),
        )


@runtime_checkable
class Demanding(Protocol):
    """An injector that takes something of the node."""

    def demand(self, level: float) -> Demand:
        """The most that `level` takes; pure."""
        ...


def demand_of(intervention: Intervention) -> Demand:
    """What one intervention takes; nothing at rest, or if its injector does not say."""
    if intervention.at_rest or not isinstance(intervention.injector, Demanding):
        return Demand()
    return intervention.injector.demand(intervention.level)


def demand_of_trial(interventions: Iterable[Intervention]) -> Demand:
    """What all interventions of a trial take together."""
    return reduce(add, map(demand_of, interventions), Demand())
