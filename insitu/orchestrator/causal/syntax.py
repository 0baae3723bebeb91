"""Frozen syntax trees of laws, and what can be asked of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FUNCTIONS: Mapping[str, int] = {"log": 1, "exp": 1, "sqrt": 1, "min": 2, "max": 2}
"""Function to its least number of arguments; ``min`` and ``max`` take more, the others exactly one."""


class LawError(ValueError):
    """A law that cannot be read, at an offset of its text.

    Attributes
    ----------
    offset
        Index of the character at fault, from 0.
    """

    def __init__(self, message: str, offset: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Number:
    """A number; `called` is the name that it is written with, for a constant of the model."""

    value: float
    start: int = 0
    end: int = 0
    called: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Index:
    """``rate[disk_kind]``: a parameter for each category, or for each combination of those of several variables.

    Attributes
    ----------
    family
        The name before the bracket.
    by
        The variables in it.
    categories
        The categories of each of them; empty until they have been looked up in the model.
    choices
        What stands for each combination, the last variable running fastest; in a law as written, the names
        ``rate[ssd]`` and so on.
    """

    family: str
    by: tuple[Name, ...]
    start: int = 0
    end: int = 0
    categories: tuple[tuple[str, ...], ...] = ()
    choices: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Is:
    """``is(disk_kind, ssd)``: 1 where a variable has a category, else 0.

    Attributes
    ----------
    code, size
        The category's number, and how many there are; 0 of 0 until they have been looked up.
    """

    variable: Name
    category: str
    start: int = 0
    end: int = 0
    code: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expression
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms added (sign 1) or subtracted (sign -1); `operators` are the offsets of the signs between them."""

    terms: tuple[Expression, ...]
    signs: tuple[int, ...]
    operators: tuple[int, ...] = ()
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """Factors multiplied, or divided by where `inverted`."""

    factors: tuple[Expression, ...]
    inverted: tuple[bool, ...]
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Power:
    """A base to the power of a number, or of a name that stands for one."""

    base: Expression
    exponent: Number | Name
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]
    start: int = 0
    end: int = 0


Expression = Number | Name | Index | Is | Negative | Sum | Product | Power | Call


def negate(node: Expression, start: int) -> Expression:
    """The negative of an expression; two signs cancel, so that negatives never nest."""
    return node.operand if isinstance(node, Negative) else Negative(node, start, node.end)


def children(node: Expression) -> tuple[Expression, ...]:
    """The parts of a node, from left to right."""
    match node:
        case Index(choices=choices, by=by):
            return (*choices, *by)
        case Is(variable=variable):
            return (variable,)
        case Negative(operand=operand):
            return (operand,)
        case Sum(terms=terms):
            return terms
        case Product(factors=factors):
            return factors
        case Power(base=base, exponent=exponent):
            return (base, exponent)
        case Call(arguments=arguments):
            return arguments
        case _:
            return ()


def names(node: Expression) -> Iterator[Name]:
    """Every name in an expression, from left to right."""
    if isinstance(node, Name):
        yield node
    for child in children(node):
        yield from names(child)


def walk(node: Expression) -> Iterator[Expression]:
    """A node and all its parts, from left to right, each before its own parts."""
    yield node
    for child in children(node):
        yield from walk(child)


def addends_of(node: Expression) -> tuple[Expression, ...]:
    """What is added up at the top, with its sign."""
    match node:
        case Sum(terms=terms, signs=signs):
            return tuple(
                addend if sign > 0 else negate(addend, addend.start)
                for term, sign in zip(terms, signs, strict=True)
                for addend in addends_of(term)
            )
        case Negative(operand=operand):
            return tuple(negate(addend, addend.start) for addend in addends_of(operand))
        case _:
            return (node,)


def has_any(node: Expression, wanted: frozenset[str]) -> bool:
    """Whether any of some names stands in an expression."""
    return any(name.name in wanted for name in names(node))


def rebuilt(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with some of its nodes replaced, from the top.

    Parameters
    ----------
    change
        Gives what stands in for a node, or ``None`` to look at its parts.

    Raises
    ------
    ValueError
        If what stands in for an exponent is neither a number nor a name.
    """

    def all_of(nodes: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(rebuilt(one, change) for one in nodes)

    stands_in = change(node)
    if stands_in is not None:
        return stands_in
    match node:
        case Index(choices=choices):
            return replace(node, choices=all_of(choices))
        case Negative(operand=operand):
            return replace(node, operand=rebuilt(operand, change))
        case Sum(terms=terms):
            return replace(node, terms=all_of(terms))
        case Product(factors=factors):
            return replace(node, factors=all_of(factors))
        case Power(base=base, exponent=exponent):
            power = rebuilt(exponent, change)
            if not isinstance(power, Number | Name):
                raise ValueError("an exponent is a number or a name")
            return replace(node, base=rebuilt(base, change), exponent=power)
        case Call(arguments=arguments):
            return replace(node, arguments=all_of(arguments))
        case _:
            return node


def substitute(node: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """The expression with some names replaced; what stands in keeps its own offsets.

    Raises
    ------
    ValueError
        If what stands in for an exponent is neither a number nor a name.
    """
    return rebuilt(node, lambda one: replacements.get(one.name) if isinstance(one, Name) else None)
