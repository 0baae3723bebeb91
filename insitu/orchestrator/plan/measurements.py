"""What can be read off a finished trial, and in which unit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MEASUREMENTS: Mapping[str, str] = MappingProxyType(
    {
        "wall_time": "s",
        "cpu_time": "s",
        "user_time": "s",
        "system_time": "s",
        "read_bytes": "B",
        "write_bytes": "B",
        "voluntary_switches": "",
        "involuntary_switches": "",
        "minor_faults": "",
        "major_faults": "",
        "peak_memory": "B",
        "throttled_time": "s",
        "cpu_pressure": "fraction",
        "io_pressure": "fraction",
        "memory_pressure": "fraction",
    }
)
"""Measurement to base unit; ``""`` is a count. A pressure is the share of the trial's time spent stalled."""

NODE = "node"
"""What gives a variable with categories the name of the node on which the trial was executed."""
