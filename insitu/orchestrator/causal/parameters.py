"""What a model says of parameters, in the units that their laws give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from insitu.orchestrator.plan.law_kinds import Bounds
from insitu.orchestrator.plan.types import Given, ParameterText
from insitu.orchestrator.plan.values import is_bare, quantity_of
from insitu.orchestrator.units import NUMBER, Dimension, UnitError, dimension_of, parse_quantity, spell_dimension

Add = Callable[[int, int, str, str | None], None]
"""Takes a fault: line, column, message and hint."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A parameter, or a family of them, with its unit.

    Attributes
    ----------
    unit
        To report estimates in: the model's, else base units.
    scale
        What an estimate in base units is multiplied by to be in it.
    bounds, start
        In base units; ``None`` where the model gives none.
    """

    unit: str
    scale: float = 1.0
    bounds: Bounds | None = None
    start: float | None = None


def settle(name: str, dimension: Dimension, declared: ParameterText | None, add: Add) -> Settled:
    """Put together what the law and the model say of a parameter; contradictions are faults."""
    base = "" if dimension == NUMBER else spell_dimension(dimension)
    if declared is None:
        return Settled(base)
    if declared.unit is not None and dimension_of(declared.unit) != dimension:
        given = spell_dimension(dimension_of(declared.unit))
        message = f"'{name}' is {spell_dimension(dimension)} in its law, but its unit here is {given}"
        add(declared.line, declared.column, message, _fitting(dimension))
        return Settled(declared.unit)
    unit = base if declared.unit is None else declared.unit
    low, high, start = (
        _value(one, declared.unit, base, add) for one in (declared.low, declared.high, declared.start)
    )
    bounds = Bounds(-math.inf if low is None else low, math.inf if high is None else high)
    _check_bounds(name, declared, bounds, start, add)
    scale = 1.0 if declared.unit is None else _reciprocal(parse_quantity(1.0, unit))
    return Settled(unit, scale, None if bounds == Bounds() else bounds, start)


def _value(given: Given | None, unit: str | None, base: str, add: Add) -> float | None:
    """A bound in base units, as a bare number in the parameter's own unit."""
    if given is None:
        return None
    if unit is None:  # a bare number is in base units already, which may be ones that nobody can write: s^0.5
        unit = "" if is_bare(given.text) else base
    try:
        return quantity_of(given.text, unit)
    except UnitError as error:
        hint = f"write it in {unit}, or as a bare number" if unit else "write a plain number"
        add(given.line, given.column, str(error), hint)
        return None


def _check_bounds(name: str, declared: ParameterText, bounds: Bounds, start: float | None, add: Add) -> None:
    low, high, begin = declared.low, declared.high, declared.start
    if low is not None and bounds.low == math.inf:
        add(low.line, low.column, f"'{name}' cannot be unlimited", "write a number, or leave the bound out")
    elif low is not None and high is not None and bounds.low > bounds.high:
        message = f"'{name}' cannot be at least {low.text} and at most {high.text}"
        add(high.line, high.column, message, "the lower bound is the smaller one")
    elif low is not None and high is not None and bounds.low == bounds.high:
        message = f"'{name}' can only be {low.text}, so there is nothing to estimate"
        add(high.line, high.column, message, "list it under constants, in the place of parameters")
    elif begin is not None and start is not None and not (bounds.low <= start <= bounds.high and start < math.inf):
        message = f"the search for '{name}' cannot start at {begin.text}, which is outside its bounds"
        add(begin.line, begin.column, message, "start between low and high, or leave it out")


def _reciprocal(scale: float) -> float:
    """One over a unit's size, without the last bits that a division adds to a power of ten."""
    return float(f"{1 / scale:.15g}")


def _fitting(dimension: Dimension) -> str:
    return "leave the unit out" if dimension == NUMBER else f"write a unit like {spell_dimension(dimension)}"
