"""Numbers and states as a reader sees them; shared by the terminal and the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.units import FRACTION, format_quantity, percent

_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=[A-Za-zµ%])|(?<=±) (?=\d)|(?<= =) | (?== )|(?<=\d,) (?=-?[\d.]+\])")


def together(text: str) -> str:
    """Keep a number, its unit and its sign, and an interval, on one line, by no-break spaces."""
    return _NUMBER_AND_UNIT.sub("\u00a0", text)


def signed_percent(share: float) -> str:
    """A deviation as a percentage with its sign: ``"+2.1 %"``."""
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


def p_text(p_value: float) -> str:
    """A p value, never rounded to zero."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def number(value: float, half_width: float) -> str:
    """A number to two significant digits of its own uncertainty, and never more than six in all."""
    if not math.isfinite(value):
        return str(value)
    if not math.isfinite(half_width) or half_width <= 0:
        return f"{value:.4g}"
    size = max(abs(value), half_width)
    if not 1e-3 <= size < 1e6:
        return f"{value:.3g}"
    decimals = max(0, 1 - math.floor(math.log10(half_width)))
    text = f"{value:.{min(decimals, 6)}f}"
    return text.lstrip("-") if float(text) == 0 else text


def interval(value: float, low: float, high: float, unit: str) -> str:
    """A value with its interval in one unit: ``"1.43 s [1.38, 1.49]"``; values already in `unit`."""
    half = (high - low) / 2
    return f"{number(value, half)} {unit}".rstrip() + f" [{number(low, half)}, {number(high, half)}]"


def scaled_interval(value: float, low: float, high: float, unit: str) -> str:
    """The same for base units, with the prefix that suits the value."""
    scale = axis_scale(max(abs(value), (high - low) / 2), unit)
    return interval(value * scale.factor, low * scale.factor, high * scale.factor, scale.unit)


class Scale:
    """How an axis shows base-unit values: times ``factor``, in ``unit``."""

    __slots__ = ("factor", "unit")

    def __init__(self, factor: float, unit: str) -> None:
        self.factor = factor
        self.unit = unit


_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)


def axis_scale(largest: float, unit: str) -> Scale:
    """Choose a prefix by the largest value there; cores and plain numbers take none, fractions are in percent."""
    if unit == FRACTION:
        return Scale(100.0, "%")
    if unit not in ("B", "B/s", "s") or not math.isfinite(largest) or largest <= 0:
        return Scale(1.0, unit)
    for size, prefix in _PREFIXES:
        if largest >= size * 0.9995 and not (unit == "s" and size > 1):
            return Scale(1 / size, prefix + unit)
    return Scale(1e9, "n" + unit)


def level_list(
    levels: Mapping[str, float], units: Mapping[str, str], words: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Levels in a sentence: ``"input_size = 4 MB and disk_kind = ssd"``.

    Parameters
    ----------
    words
        Of variables with categories: what their numbers stand for.
    """
    known = words or {}
    return join(
        [
            f"{name} = {level_text(level, units.get(name, ''), known.get(name, ()))}"
            for name, level in levels.items()
        ]
    )


def spell_levels(levels: Mapping[str, float], variables: Mapping[str, Variable]) -> str:
    """As `level_list`, with what the model says of its variables."""
    return join([f"{name} = {variables[name].spell(level)}" for name, level in levels.items()])


def level_text(level: float, unit: str, words: Sequence[str] = ()) -> str:
    """One level: a quantity, or the word of a category."""
    if not words:
        return format_quantity(level, unit)
    known = math.isfinite(level) and level == int(level) and 0 <= level < len(words)
    return words[int(level)] if known else "no category"


def join(parts: list[str]) -> str:
    """``"a"``, ``"a and b"``, ``"a, b and c"``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def count(amount: int, one: str, many: str | None = None) -> str:
    """``"1 trial"``, ``"2 trials"``."""
    return f"{amount} {one if amount == 1 else many or one + 's'}"
