"""Quantities with units; the one door to pint.

Inside the project a quantity is a float in base units (B, s, core and their quotients). Text with a unit
exists only at the edges: in YAML, on the command line and on the screen.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pint

UNLIMITED = math.inf
"""The level of a throttle that is not applied."""

Dimension = tuple[tuple[str, float], ...]
"""Sorted (base unit, exponent) pairs, e.g. ``(("B", 1.0), ("s", -1.0))``; ``()`` is a plain number."""

NUMBER: Dimension = ()

FRACTION = "fraction"
"""The unit of shares; users read them in percent."""

_DEFINITIONS = """
nano- = 1e-9 = n-
micro- = 1e-6 = u- = µ-
milli- = 1e-3 = m-
kilo- = 1e3 = k- = K-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
kibi- = 2**10 = Ki-
mebi- = 2**20 = Mi-
gibi- = 2**30 = Gi-
tebi- = 2**40 = Ti-
byte = [information] = B
bit = byte / 8 = b
second = [time] = s = sec
minute = 60 * second = min
hour = 60 * minute = h
core = [cpu] = _ = cores
hertz = 1 / second = Hz
fraction = [] = _
percent = 0.01 = % = percents
""".strip().splitlines()


class UnitError(ValueError):
    """Text that is not a quantity, or one of another dimension."""


@cache
def _registry() -> pint.UnitRegistry:
    import pint

    registry = pint.UnitRegistry(None, preprocessors=[lambda text: text.replace("%", "percent")])
    registry.load_definitions(_DEFINITIONS)
    return registry


def dimension_of(unit: str) -> Dimension:
    """Dimension of a unit written as text, e.g. ``"B/s"``.

    Raises
    ------
    UnitError
        If the text is not a unit.
    """
    return _dimension(_parse(_one(unit), unit))


def dimension_of_quantity(text: str) -> Dimension:
    """Dimension of a quantity written as text, e.g. ``"-3 MB/s"``.

    Raises
    ------
    UnitError
        If the text is not a quantity.
    """
    return _dimension(_parse(text, text))


def parse_quantity(text: str | float | int, unit: str) -> float:
    """Read a quantity such as ``10 MB/s`` and return it in base units.

    Parameters
    ----------
    text
        A number with a unit; a bare number is taken in `unit`; ``unlimited`` gives infinity.
    unit
        The unit whose dimension the quantity must have.

    Raises
    ------
    UnitError
        If the text does not parse, has another dimension, or is not a finite number.
    """
    if isinstance(text, bool):
        raise UnitError(f"{text!r} is not a quantity")
    scale = _parse(_one(unit), unit)
    if isinstance(text, (int, float)):
        value = float(scale.to_base_units().magnitude) * text
    else:
        if text.strip() == "unlimited":
            return UNLIMITED
        quantity = _parse(text, text)
        if quantity.unitless and not scale.unitless and _dimension(scale) != NUMBER:
            raise UnitError(f"{text!r} has no unit; write it with one, such as {unit}")
        if _dimension(quantity) != _dimension(scale):
            raise UnitError(f"{text!r} is {_spell(_dimension(quantity))}, not {_spell(_dimension(scale))}")
        value = float(quantity.to_base_units().magnitude)
    if not math.isfinite(value):
        raise UnitError(f"{text!r} is not a finite quantity")
    return value


_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_TAKES_PREFIX = re.compile(r"(B|byte|b|bit|s|sec|Hz)(?![A-Za-z])")
"""Units that begin so: prefixes to others, or before another prefix, would not be read, or not as meant."""


def format_quantity(value: float, unit: str, digits: int = 3) -> str:
    """Write a value, given in base units, in `unit`, with a prefix that keeps the number readable.

    ``format_quantity(1e7, "B/s")`` is ``"10 MB/s"`` and ``format_quantity(1.25e6, "bit/s")`` is ``"10 Mbit/s"``;
    cores, plain numbers and units that have a prefix already take none. A fraction is written in percent.
    """
    if math.isinf(value) and value > 0:
        return "unlimited"
    unit = "%" if unit == FRACTION else unit
    value /= _size(unit)
    if not _TAKES_PREFIX.match(unit) or not math.isfinite(value) or value == 0:
        number = _figures(value, digits)
        return number + unit[1:] if unit.startswith("1/") else f"{number} {unit}".strip()
    for scale, prefix in _SCALES:
        if abs(value) >= scale * 0.9995 or scale == 1e-9:
            if unit == "s" and scale > 1:
                continue
            return f"{_figures(value / scale, digits)} {prefix}{unit}"
    raise AssertionError("unreachable: the last scale takes every value")


def percent(share: float, digits: int = 2) -> str:
    """A share as a percentage, with every digit before the point: ``0.0213`` is ``"2.1 %"``."""
    return f"{_figures(100 * share, digits)} %" if math.isfinite(share) else "unknown"


def percent_beside(share: float, other: float) -> str:
    """A share as a percentage, with as many digits as tell it from another one."""
    digits = 2
    while digits < 6 and share != other and percent(share, digits) == percent(other, digits):
        digits += 1
    return percent(share, digits)


def _figures(value: float, digits: int) -> str:
    """So many significant digits, and every one before the point of a number below a million."""
    whole = len(str(round(abs(value)))) if abs(value) < 1e6 else 0
    return f"{value:.{max(digits, whole)}g}"


@cache
def _size(unit: str) -> float:
    """How many base units one `unit` is."""
    return float(_parse(_one(unit), unit).to_base_units().magnitude) if unit else 1.0


_NAME = r"(?:[A-Za-zµ]+|%)(?:\^-?\d)?"
_QUANTITY = re.compile(
    rf"(\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{{1,3}})?)(?:\s+1(?=\s*/))?"
    rf"(\s*(?:/?\s*{_NAME}(?:\s*[*/]\s*{_NAME}|\s+{_NAME})*)?\s*)"
)
"""What reaches pint at all: one number and a product of units, since its parser also computes powers. The 1 of
``500 1/s`` is part of the unit as models write it, and left out."""


def _one(unit: str) -> str:
    return unit if unit[:1].isdigit() else f"1 {unit}"


def _parse(text: str, shown: str) -> pint.Quantity:
    import pint

    match = _QUANTITY.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        raise UnitError(f"{shown!r} is not a quantity with a known unit")
    registry = _registry()
    try:
        quantity = registry.Quantity(match[1] + match[2])
        quantity.to_base_units()
    except (pint.PintError, ValueError, TypeError, AttributeError, SyntaxError, ArithmeticError) as exc:
        raise UnitError(f"{shown!r} is not a quantity with a known unit") from exc
    if not isinstance(quantity.magnitude, (int, float)):
        raise UnitError(f"{shown!r} is not a number with a unit")
    return quantity


_BASE_NAMES = {"[information]": "B", "[time]": "s", "[cpu]": "core"}


def _dimension(quantity: pint.Quantity) -> Dimension:
    return tuple(sorted((_BASE_NAMES[name], float(power)) for name, power in quantity.dimensionality.items()))


def spell_dimension(dimension: Dimension) -> str:
    """Write a dimension as a unit: ``"B/s"``, ``"core s/B"``, ``"a plain number"``."""
    return _spell(dimension)


def _spell(dimension: Dimension) -> str:
    if not dimension:
        return "a plain number"
    above = " ".join(_power(name, exp) for name, exp in dimension if exp > 0)
    below = "/".join(_power(name, -exp) for name, exp in dimension if exp < 0)
    return f"{above or '1'}/{below}" if below else above


def _power(name: str, exponent: float) -> str:
    return name if exponent == 1 else f"{name}^{exponent:g}"
