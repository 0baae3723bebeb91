"""Value and exact derivatives of an expression: automatic differentiation, forwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import (
    Array,
    Call,
    Expression,
    Index,
    Is,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    is_code,
    which_choice,
)

Slopes = dict[str, Array]
"""Name to the derivative by it; a name that is not there has no influence."""


@dataclass(frozen=True, slots=True)
class Derivatives:
    """An expression at n points.

    Attributes
    ----------
    value
        Shape (n,).
    slopes
        Derivative by each name, shape (n, names); ``nan`` where the value is.
    """

    value: Array
    slopes: Array


def differentiate(
    node: Expression, by: Sequence[str], values: Mapping[str, Array | float], points: int = 1
) -> Derivatives:
    """Evaluate an expression and its derivatives by some of its names.

    Parameters
    ----------
    by
        Names, in the order of the columns.
    values
        Name to a number, or to an array of shape (n,); infinity is unlimited, and divides to 0.
    points
        Number n of points where no value is an array.

    Raises
    ------
    KeyError
        If a name has no value.

    Notes
    -----
    Where two arguments of ``min`` or ``max`` are equal, the derivative is that of the first: one-sided, as every
    slope at a knot is. A derivative at infinity is its limit for what grows no faster than a power.
    """
    count = max([points, *(np.size(value) for value in values.values())])
    with np.errstate(all="ignore"):
        here = _differentiate(node, frozenset(by), values)
        value = np.broadcast_to(here.value, (count,)).copy()
        slopes = np.zeros((count, len(by)))
        for column, name in enumerate(by):
            if name in here.slopes:
                slopes[:, column] = here.slopes[name]
    slopes[np.isnan(value)] = np.nan
    return Derivatives(value, slopes)


@dataclass(frozen=True, slots=True)
class _Dual:
    """A value with its derivatives (Clifford's dual numbers), of shapes that broadcast."""

    value: Array
    slopes: Slopes


def _differentiate(node: Expression, by: frozenset[str], values: Mapping[str, Array | float]) -> _Dual:
    match node:
        case Number(value=number):
            return _Dual(np.asarray(number, dtype=np.float64), {})
        case Name(name=name):
            slopes = {name: np.asarray(1.0)} if name in by else {}
            return _Dual(np.asarray(values[name], dtype=np.float64), slopes)
        case Index():
            return _index(node, by, values)
        case Is():
            return _Dual(is_code(node, values), {})
        case Negative(operand=operand):
            inner = _differentiate(operand, by, values)
            return _Dual(-inner.value, _scaled(inner.slopes, np.asarray(-1.0)))
        case Sum(terms=terms, signs=signs):
            parts = [_differentiate(term, by, values) for term in terms]
            value = sum((s * part.value for s, part in zip(signs, parts, strict=True)), start=np.asarray(0.0))
            return _Dual(
                np.asarray(value),
                _added(
                    _scaled(part.slopes, np.asarray(float(sign))) for sign, part in zip(signs, parts, strict=True)
                ),
            )
        case Product(factors=factors, inverted=inverted):
            result = _Dual(np.asarray(1.0), {})
            for factor, below in zip(factors, inverted, strict=True):
                other = _differentiate(factor, by, values)
                result = _quotient(result, other) if below else _product(result, other)
            return result
        case Power(base=base, exponent=exponent):
            return _power(_differentiate(base, by, values), _differentiate(exponent, by, values))
        case Call(function=function, arguments=arguments):
            duals = [_differentiate(argument, by, values) for argument in arguments]
            return _call(function, duals)


def _times(slope: Array, factor: Array) -> Array:
    """A derivative times what the chain rule multiplies it by; no influence stays none at infinity."""
    return np.where((slope == 0) | (factor == 0), 0.0, slope * factor)


def _scaled(slopes: Slopes, factor: Array) -> Slopes:
    return {name: _times(slope, factor) for name, slope in slopes.items()}


def _added(parts: Iterable[Slopes]) -> Slopes:
    total: Slopes = {}
    for part in parts:
        for name, slope in part.items():
            total[name] = total[name] + slope if name in total else slope
    return total


def _product(left: _Dual, right: _Dual) -> _Dual:
    value = left.value * right.value
    return _Dual(value, _added([_scaled(left.slopes, right.value), _scaled(right.slopes, left.value)]))


def _quotient(above: _Dual, below: _Dual) -> _Dual:
    value = above.value / below.value
    by_below = _scaled(below.slopes, -value / below.value)
    # a denominator that grows beyond all bounds takes the quotient's dependence on itself with it
    endless = np.isinf(below.value) & np.isfinite(above.value)
    by_below = {name: np.where(endless, 0.0, slope) for name, slope in by_below.items()}
    return _Dual(value, _added([_scaled(above.slopes, 1.0 / below.value), by_below]))


def _power(base: _Dual, exponent: _Dual) -> _Dual:
    value = np.power(base.value, exponent.value)
    by_base = _scaled(base.slopes, exponent.value * np.power(base.value, exponent.value - 1.0))
    vanishing = np.isinf(base.value) & (value == 0)
    by_base = {name: np.where(vanishing, 0.0, slope) for name, slope in by_base.items()}
    by_exponent = _scaled(exponent.slopes, np.where(value == 0, 0.0, value * np.log(base.value)))
    return _Dual(np.asarray(value), _added([by_base, by_exponent]))


def _index(node: Index, by: frozenset[str], values: Mapping[str, Array | float]) -> _Dual:
    which = which_choice(node, values)
    result = _Dual(np.where(np.isnan(which), np.nan, 0.0), {})
    for number, choice in enumerate(node.choices):
        here, other = which == number, _differentiate(choice, by, values)
        result = _Dual(np.where(here, other.value, result.value), _chosen(here, other.slopes, result.slopes))
    return result


def _call(function: str, arguments: Sequence[_Dual]) -> _Dual:
    first = arguments[0]
    match function:
        case "exp":
            value = np.exp(first.value)
            return _Dual(value, _scaled(first.slopes, value))
        case "log":
            return _Dual(np.log(first.value), _scaled(first.slopes, 1.0 / first.value))
        case "sqrt":
            value = np.sqrt(first.value)
            return _Dual(value, _scaled(first.slopes, 0.5 / value))
    result = first
    for other in arguments[1:]:
        chosen = result.value >= other.value if function == "max" else result.value <= other.value
        fold = np.maximum if function == "max" else np.minimum
        value = fold(result.value, other.value)
        result = _Dual(value, _chosen(chosen, result.slopes, other.slopes))
    return result


def _chosen(first: NDArray[np.bool_], left: Slopes, right: Slopes) -> Slopes:
    none = np.asarray(0.0)
    return {name: np.where(first, left.get(name, none), right.get(name, none)) for name in {**left, **right}}
