"""Expressions made ready for many draws: numpy's operations in their order, in place, without walking the tree.

A name is *wide* where each draw has its own value. What has no wide name in it is worked out once per call,
however large the arrays are; what has one takes one pass over memory per operation, and no new memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import (
    Array,
    Call,
    Expression,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    evaluate,
    has_any,
)

Values = Mapping[str, Array | float]


class Buffers:
    """Arrays of one shape that are taken, written over and given back."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._free: list[Array] = []

    def take(self) -> Array:
        """An array with anything in it."""
        return self._free.pop() if self._free else np.empty(self.shape)

    def give(self, array: Array) -> None:
        """Put back what was taken; nobody may use it any longer."""
        self._free.append(array)


@dataclass(frozen=True, slots=True)
class _Step:
    """Gives the value of a node.

    Attributes
    ----------
    owned
        Whether the array was taken from the buffers, and may be written over.
    """

    run: Callable[[Values, Buffers], Array]
    owned: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression, ready to be evaluated; made by `compile_expression`."""

    _step: _Step

    def __call__(self, values: Values, buffers: Buffers) -> Array:
        """Evaluate, into an array of the buffers.

        Parameters
        ----------
        values
            Name to its value: of the buffers' shape for a wide one, else of a shape that broadcasts to it.

        Returns
        -------
        numpy.ndarray
            Of the buffers' shape, to be given back; ``nan`` where the expression is not defined.

        Raises
        ------
        KeyError
            If a name has no value.
        """
        with np.errstate(all="ignore"):
            found = self._step.run(values, buffers)
            if self._step.owned:
                return found
            target = buffers.take()
            np.copyto(target, found)
            return target


def compile_expression(node: Expression, wide: Collection[str]) -> Compiled:
    """Make an expression ready, for values in which the names in `wide` are arrays of one value per draw.

    Notes
    -----
    What is not wide is added and multiplied first, so results may differ from `evaluate` in the last bits.
    """
    return Compiled(_compile(node, frozenset(wide)))


def _compile(node: Expression, wide: frozenset[str]) -> _Step:
    if not has_any(node, wide):
        return _Step(lambda values, _: evaluate(node, values), owned=False)
    match node:
        case Name(name=name):
            return _Step(lambda values, _: np.asarray(values[name], dtype=np.float64), owned=False)
        case Negative(operand=operand):
            return _unary(np.negative, _compile(operand, wide))
        case Sum():
            return _sum(node, wide)
        case Product():
            return _product(node, wide)
        case Power():
            return _power(node, wide)
        case Call(function=function, arguments=arguments):
            steps = [_compile(argument, wide) for argument in arguments]
            if function in _PLAIN:
                return _unary(_PLAIN[function], steps[0])
            result = steps[0]
            for step in steps[1:]:
                result = _binary(_FOLDED[function], result, step)
            return result
        case _:  # a measured category is rare, and chooses between parameters
            return _Step(lambda values, _: evaluate(node, values), owned=False)


_PLAIN: Mapping[str, np.ufunc] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_FOLDED: Mapping[str, np.ufunc] = {"min": np.minimum, "max": np.maximum}
_QUICK: Mapping[float, np.ufunc] = {2.0: np.square, 0.5: np.sqrt, -1.0: np.reciprocal}
"""Powers that need no logarithm."""


def _sum(node: Sum, wide: frozenset[str]) -> _Step:
    pairs = list(zip(node.terms, node.signs, strict=True))
    narrow = [pair for pair in pairs if not has_any(pair[0], wide)]
    added = sorted((pair for pair in pairs if has_any(pair[0], wide)), key=lambda pair: -pair[1])
    steps = [(_compile(term, wide), sign) for term, sign in added]
    if narrow:
        constant = replace(node, terms=tuple(term for term, _ in narrow), signs=tuple(sign for _, sign in narrow))
        result = _compile(constant, wide)
    else:
        first, sign = steps.pop(0)
        result = first if sign > 0 else _unary(np.negative, first)
    for step, sign in steps:
        result = _binary(np.add if sign > 0 else np.subtract, result, step)
    return result


def _product(node: Product, wide: frozenset[str]) -> _Step:
    pairs = list(zip(node.factors, node.inverted, strict=True))
    narrow = [pair for pair in pairs if not has_any(pair[0], wide)]
    multiplied = sorted((pair for pair in pairs if has_any(pair[0], wide)), key=lambda pair: pair[1])
    steps = [(_compile(factor, wide), below) for factor, below in multiplied]
    if narrow or steps[0][1]:
        constant = replace(
            node, factors=tuple(factor for factor, _ in narrow), inverted=tuple(below for _, below in narrow)
        )
        result = _compile(constant, wide)
    else:
        result = steps.pop(0)[0]
    for step, below in steps:
        result = _binary(np.divide if below else np.multiply, result, step)
    return result


def _power(node: Power, wide: frozenset[str]) -> _Step:
    base = _compile(node.base, wide)
    if isinstance(node.exponent, Number) and (quick := _QUICK.get(node.exponent.value)) is not None:
        return _unary(quick, base)
    return _binary(np.power, base, _compile(node.exponent, wide))


def _unary(function: np.ufunc, operand: _Step) -> _Step:
    def run(values: Values, buffers: Buffers) -> Array:
        value = operand.run(values, buffers)
        target = value if operand.owned else buffers.take()
        function(value, out=target)
        return target

    return _Step(run, owned=True)


def _binary(function: np.ufunc, left: _Step, right: _Step) -> _Step:
    def run(values: Values, buffers: Buffers) -> Array:
        first, second = left.run(values, buffers), right.run(values, buffers)
        target = first if left.owned else second if right.owned else buffers.take()
        function(first, second, out=target)
        if left.owned and right.owned:
            buffers.give(second)
        return target

    return _Step(run, owned=True)
