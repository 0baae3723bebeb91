"""A law split into its terms: what multiplies each parameter, and what stands alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from insitu.orchestrator.causal.expression import (
    Expression,
    LawError,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    names,
    negate,
    shown,
)

_ONE = Number(1.0)


@dataclass(frozen=True, slots=True)
class Term:
    """One addend of a law.

    Attributes
    ----------
    parameter
        The parameter, or ``None`` for an addend without any.
    coefficient
        What the parameter is multiplied by, free of parameters; for an addend without any, all of it.
    start
        Offset of the addend in the law's text.
    """

    parameter: str | None
    coefficient: Expression
    start: int


def split(node: Expression, parameters: Collection[str]) -> tuple[Term, ...]:
    """Split an expression that is linear in `parameters`.

    Raises
    ------
    LawError
        If it is not: at the first place that makes it so.
    """
    if not any(name.name in parameters for name in names(node)):
        return (Term(None, node, node.start),)
    match node:
        case Name(name=name):
            return (Term(name, _ONE, node.start),)
        case Negative(operand=operand):
            return tuple(_negative(term) for term in split(operand, parameters))
        case Sum(terms=addends, signs=signs):
            return tuple(
                term if sign > 0 else _negative(term)
                for addend, sign in zip(addends, signs, strict=True)
                for term in split(addend, parameters)
            )
        case Product():
            return _split_product(node, parameters)
        case Power(base=base, exponent=exponent):
            if exponent == 1:
                return split(base, parameters)
            raise _not_linear(base, parameters, f"'{{}}' is raised to the power {exponent:g}")
    raise _not_linear(node, parameters, f"'{{}}' is inside {shown(node)}")


def split_if_linear(node: Expression, parameters: Collection[str]) -> tuple[Term, ...]:
    """As `split`, but empty for an expression that is not linear."""
    try:
        return split(node, parameters)
    except LawError:
        return ()


def _negative(term: Term) -> Term:
    return Term(term.parameter, negate(term.coefficient, term.start), term.start)


def _split_product(node: Product, parameters: Collection[str]) -> tuple[Term, ...]:
    holders = [
        index
        for index, factor in enumerate(node.factors)
        if any(name.name in parameters for name in names(factor))
    ]
    for index in holders:
        if node.inverted[index]:
            raise _not_linear(node.factors[index], parameters, "a term is divided by '{}'")
    if len(holders) > 1:
        first = next(name.name for name in names(node.factors[holders[0]]) if name.name in parameters)
        raise _not_linear(node.factors[holders[1]], parameters, f"'{first}' is multiplied by '{{}}'")
    at = holders[0]
    return tuple(
        Term(term.parameter, _replaced(node, at, term.coefficient), _start(node, term, at))
        for term in split(node.factors[at], parameters)
    )


def _start(node: Product, term: Term, at: int) -> int:
    """An addend starts with its product, unless it stands in a sum that the product multiplies."""
    return node.start if not isinstance(node.factors[at], Sum) else term.start


def _replaced(node: Product, at: int, coefficient: Expression) -> Expression:
    """The product with one factor exchanged; factors of 1 go, but a quotient keeps a numerator."""
    kept = [
        (coefficient if index == at else factor, inverted)
        for index, (factor, inverted) in enumerate(zip(node.factors, node.inverted, strict=True))
        if not (index == at and coefficient == _ONE)
    ]
    if not kept or kept[0][1]:
        above = next((index for index, (_, inverted) in enumerate(kept) if not inverted), None)
        kept.insert(0, (_ONE, False) if above is None else kept.pop(above))
    if len(kept) == 1:
        return kept[0][0]
    return Product(tuple(f for f, _ in kept), tuple(i for _, i in kept), node.start, node.end)


def _not_linear(node: Expression, parameters: Collection[str], why: str) -> LawError:
    culprit = next(name for name in names(node) if name.name in parameters)
    return LawError(
        f"not linear in its parameters; {why.format(culprit.name)}",
        culprit.start,
        "each addend may have one parameter, as a plain factor: a * x / y",
    )
