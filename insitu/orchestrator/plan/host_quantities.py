"""What abort conditions can be about: quantities of the whole node, each with its unit and its range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from insitu.orchestrator.units import format_quantity


@dataclass(frozen=True, slots=True)
class HostQuantity:
    """One quantity.

    Attributes
    ----------
    unit
        Base unit.
    meaning
        For the documentation.
    highest
        It lies between 0 and this, base units.
    """

    unit: str
    meaning: str
    highest: float = math.inf

    def spell(self, value: float, digits: int = 3) -> str:
        """Write a value for a user."""
        return format_quantity(value, self.unit, digits)


def _shares(name: str, who: str) -> dict[str, HostQuantity]:
    quantities = {name: HostQuantity("fraction", f"share of the last second in which {who}", 1.0)}
    for span, words in (("10", "10 s"), ("60", "60 s"), ("300", "5 min")):
        meaning = f"the kernel's running mean of it over {words}"
        quantities[f"{name}_avg{span}"] = HostQuantity("fraction", meaning, 1.0)
    return quantities


HOST_QUANTITIES: Mapping[str, HostQuantity] = MappingProxyType(
    {
        **_shares("host.cpu.pressure", "some process waited for a processor"),
        **_shares("host.io.pressure", "some process waited for a disk"),
        **_shares("host.io.full_pressure", "every busy process waited for a disk"),
        **_shares("host.memory.pressure", "some process waited for memory"),
        **_shares("host.memory.full_pressure", "every busy process waited for memory"),
        "host.memory.available": HostQuantity("B", "memory that can be had without swapping"),
        "host.memory.available_share": HostQuantity("fraction", "the same, of all memory", 1.0),
        "host.disk.free": HostQuantity("B", "free space on the disk of the run directory"),
        "host.disk.free_share": HostQuantity("fraction", "the same, of the whole disk", 1.0),
        "host.load1": HostQuantity("", "load average over 1 min"),
        "host.load5": HostQuantity("", "load average over 5 min"),
        "host.load15": HostQuantity("", "load average over 15 min"),
    }
)
"""Name to quantity, in the order of the documentation."""
