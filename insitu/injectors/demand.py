"""What an intervention takes from its node, for whoever limits that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """Most that is taken at one time, base units; `interfaces` by name."""

    cores: float = 0.0
    memory_bytes: float = 0.0
    disk_bytes_per_s: float = 0.0
    interfaces: tuple[str, ...] = ()
