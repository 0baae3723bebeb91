"""The ``{name}`` of commands, and their substitution.

A placeholder is a name in single braces. ``{{name}}`` stands for the text ``{name}``, and braces around
anything else (``awk '{print $1}'``) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FOLDERS = ("scratch", "data", "python")
"""Placeholders that every plan has."""

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_][A-Za-z_0-9]*)\}\}|\{([A-Za-z_][A-Za-z_0-9]*)\}")


def placeholders_in(text: str) -> tuple[str, ...]:
    """Names of the placeholders in `text`, in order of appearance."""
    return tuple(match[2] for match in _PLACEHOLDER.finditer(text) if match[2] is not None)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Put the values in place of the placeholders, in one pass: a value is never searched again.

    Raises
    ------
    KeyError
        If a placeholder has no value.
    """
    return _PLACEHOLDER.sub(lambda match: f"{{{match[1]}}}" if match[2] is None else values[match[2]], text)


def spell_level(level: float, unit: str) -> str:
    """Write a parameter's level as an argument: bytes and other whole numbers without a decimal point.

    Parameters
    ----------
    level
        Base units.
    unit
        The variable's unit; a level in bytes is rounded to a whole number.
    """
    from insitu.orchestrator.units import dimension_of

    if dimension_of(unit) == (("B", 1.0),) or level.is_integer():
        return str(round(level))
    return repr(level)
