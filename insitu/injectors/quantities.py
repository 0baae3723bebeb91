"""Levels as text, for the messages of this room."""

from __future__ import annotations

import math

_PREFIXED = ("B", "B/s", "bit/s", "Hz")
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def spelled(level: float, unit: str) -> str:
    """Write a level in base units: ``10 MB/s``, ``0.5 core``, ``500/s``."""
    if unit == "bit/s":
        level *= 8  # the base unit is B/s
    if unit in _PREFIXED and math.isfinite(level):
        for scale, prefix in _PREFIXES:
            if abs(level) >= scale:
                return f"{level / scale:.6g} {prefix}{unit}"
    if unit.startswith("1/"):
        return f"{level:g}{unit[1:]}"
    return f"{level:g} {unit}".rstrip()
