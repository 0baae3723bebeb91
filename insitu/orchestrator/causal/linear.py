"""A law split into its terms: what multiplies each parameter, and what stands alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import product

from insitu.orchestrator.causal.expression import (
    Expression,
    Index,
    Is,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    has_any,
    negate,
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
    """Split an expression into terms, each with one parameter as a plain factor, or with none.

    Returns
    -------
    tuple of Term
        Empty if the expression is not linear in `parameters`.
    """
    try:
        return _split(node, frozenset(parameters))
    except _CurvedError:
        return ()


class _CurvedError(Exception):
    """A parameter stands where a linear expression has none."""


def _split(node: Expression, parameters: frozenset[str]) -> tuple[Term, ...]:
    if not has_any(node, parameters):
        return (Term(None, node, node.start),)
    match node:
        case Name(name=name):
            return (Term(name, _ONE, node.start),)
        case Index():
            return _split_index(node, parameters)
        case Negative(operand=operand):
            return tuple(_negative(term) for term in _split(operand, parameters))
        case Sum(terms=addends, signs=signs):
            return tuple(
                term if sign > 0 else _negative(term)
                for addend, sign in zip(addends, signs, strict=True)
                for term in _split(addend, parameters)
            )
        case Product():
            return _split_product(node, parameters)
        case Power(base=base, exponent=Number(value=1.0)):
            return _split(base, parameters)
    raise _CurvedError


def _negative(term: Term) -> Term:
    return Term(term.parameter, negate(term.coefficient, term.start), term.start)


def _split_index(node: Index, parameters: frozenset[str]) -> tuple[Term, ...]:
    """A parameter for each category is a sum: each parameter times 1 where its category is, else 0."""
    terms: list[Term] = []
    for choice, codes in zip(node.choices, product(*(range(len(one)) for one in node.categories)), strict=True):
        here: tuple[Expression, ...] = tuple(
            Is(variable, words[code], node.start, node.end, code, len(words))
            for variable, words, code in zip(node.by, node.categories, codes, strict=True)
        )
        for term in _split(choice, parameters):
            factors = here if term.coefficient == _ONE else (*here, term.coefficient)
            whole = Product(factors, (False,) * len(factors), node.start, node.end)
            terms.append(Term(term.parameter, whole if len(factors) > 1 else factors[0], node.start))
    return tuple(terms)


def _split_product(node: Product, parameters: frozenset[str]) -> tuple[Term, ...]:
    holders = [index for index, factor in enumerate(node.factors) if has_any(factor, parameters)]
    if len(holders) > 1 or node.inverted[holders[0]]:
        raise _CurvedError
    at = holders[0]
    return tuple(
        Term(term.parameter, _replaced(node, at, term.coefficient), _start(node, term, at))
        for term in _split(node.factors[at], parameters)
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
