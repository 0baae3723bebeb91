"""How much of a node a run may take: as a plan states it, as a node's inventory caps it, and both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

UNITS: Mapping[str, str] = MappingProxyType(
    {"cores": "core", "memory": "B", "disk_rate": "B/s", "interfaces": "", "trials": ""}
)
"""What is counted or measured, with its base unit; `host_wide` is a list."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written; the plan's own file, or an inventory."""

    path: Path
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    inventory: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else str(self.path)


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit in base units, and where it is written; ``None`` for a default."""

    value: float
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class HostWide:
    """Variables of the whole host that may be set, and where that is written."""

    variables: frozenset[str] = frozenset()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What may be taken, as one file states it.

    Attributes
    ----------
    caps
        By the keys of `UNITS`; what is left out is not capped.
    host_wide
        ``None``: nothing is said.
    """

    caps: Mapping[str, Cap] = field(default_factory=dict)
    host_wide: HostWide | None = None


DEFAULT_TRIALS = 1
"""Trials on one node at the same time, where the plan does not say: they would disturb each other."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a run may take on one node: the smaller of what its plan and the node's inventory say.

    Attributes
    ----------
    host_wide
        Who has a say on variables of the whole host; each must allow one.
    """

    caps: Mapping[str, Cap]
    host_wide: tuple[HostWide, ...]

    def cap(self, key: str) -> Cap | None:
        return self.caps.get(key)


def allowed(plan: BlastRadius, inventory: BlastRadius | None) -> Allowed:
    """The smaller of both, key by key; of two that are equal the plan's."""
    caps: dict[str, Cap] = {"trials": Cap(DEFAULT_TRIALS)}
    caps.update(plan.caps)
    host_wide = [plan.host_wide or HostWide()]
    if inventory is not None:
        for key, cap in inventory.caps.items():
            if key not in caps or cap.value < caps[key].value:
                caps[key] = cap
        if inventory.host_wide is not None:
            host_wide.append(inventory.host_wide)
    return Allowed(caps, tuple(host_wide))
