"""What levels take of a node at most: what a plan may ask for is capped by its blast radius."""

from __future__ import annotations

from dataclasses import dataclass


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
