"""Dimensions of laws: what each parameter must be, and where units do not fit together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from insitu.orchestrator.causal.expression import (
    Call,
    Expression,
    LawError,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    shown,
)
from insitu.orchestrator.causal.linear import Term
from insitu.orchestrator.units import NUMBER, Dimension, spell_dimension

Report = Callable[[LawError], None]


def times(left: Dimension, right: Dimension, power: float = 1.0) -> Dimension:
    """Dimension of ``left * right^power``."""
    exponents = dict(left)
    for unit, exponent in right:
        exponents[unit] = round(exponents.get(unit, 0.0) + power * exponent, 9)
    return tuple(sorted((unit, exponent) for unit, exponent in exponents.items() if exponent != 0))


def infer(node: Expression, variables: Mapping[str, Dimension], report: Report) -> Dimension | None:
    """Dimension of an expression; names that are not variables leave it open.

    Parameters
    ----------
    report
        Called for every place where dimensions do not fit; inference goes on behind it.

    Returns
    -------
    Dimension or None
        ``None`` where a parameter or a fault leaves it open.
    """
    match node:
        case Number():
            return NUMBER
        case Name(name=name):
            return variables.get(name)
        case Negative(operand=operand):
            return infer(operand, variables, report)
        case Sum():
            return _sum(node, variables, report)
        case Product(factors=factors, inverted=inverted):
            parts = [infer(factor, variables, report) for factor in factors]
            total = NUMBER
            for part, below in zip(parts, inverted, strict=True):
                if part is None:
                    return None
                total = times(total, part, -1.0 if below else 1.0)
            return total
        case Power(base=base, exponent=exponent):
            inner = infer(base, variables, report)
            return None if inner is None else times(NUMBER, inner, exponent)
        case Call():
            return _call(node, variables, report)


def _sum(node: Sum, variables: Mapping[str, Dimension], report: Report) -> Dimension | None:
    known: Dimension | None = None
    for index, term in enumerate(node.terms):
        part = infer(term, variables, report)
        if part is None:
            continue
        if known is None:
            known = part
        elif part != known:
            added = "adds" if node.signs[index] > 0 else "subtracts"
            error = f"{added} {spell_dimension(part)} ({shown(term)}) {_joined(added)} {spell_dimension(known)}"
            report(
                LawError(error, node.operators[index - 1], "only like units can be added; multiply by a parameter")
            )
    return known


def _joined(verb: str) -> str:
    return "to" if verb == "adds" else "from"


def _call(node: Call, variables: Mapping[str, Dimension], report: Report) -> Dimension | None:
    parts = [(argument, infer(argument, variables, report)) for argument in node.arguments]
    if node.function == "sqrt":
        inner = parts[0][1]
        return None if inner is None else times(NUMBER, inner, 0.5)
    if node.function in ("log", "exp"):
        argument, inner = parts[0]
        if inner:
            report(
                LawError(
                    f"{node.function} of {spell_dimension(inner)} ({shown(argument)}) has no meaning",
                    argument.start,
                    "divide by a quantity of the same unit first",
                )
            )
        return NUMBER
    known: Dimension | None = None
    for argument, part in parts:
        if part is None:
            continue
        if known is not None and part != known:
            message = f"{node.function} compares {spell_dimension(known)} with {spell_dimension(part)}"
            report(LawError(f"{message} ({shown(argument)})", argument.start, "only like units can be compared"))
        known = part if known is None else known
    return known


def infer_parameters(
    terms: Collection[Term],
    outcome: str,
    variables: Mapping[str, Dimension],
    report: Report,
) -> dict[str, Dimension]:
    """Dimension of each parameter of a law, from the outcome's: every addend must have the outcome's.

    Parameters
    ----------
    terms
        The law's addends; each coefficient has a dimension without faults.
    """
    wanted = variables[outcome]
    found: dict[str, Dimension] = {}
    for term in terms:
        coefficient = infer(term.coefficient, variables, report)
        if coefficient is None:
            continue
        if term.parameter is None:
            if coefficient != wanted:
                message = f"the term {shown(term.coefficient)} is {spell_dimension(coefficient)}"
                hint = "multiply it by a parameter, whose unit then follows"
                report(LawError(f"{message}, but {outcome} is {spell_dimension(wanted)}", term.start, hint))
            continue
        dimension = times(wanted, coefficient, -1.0)
        known = found.setdefault(term.parameter, dimension)
        if known != dimension:
            message = f"'{term.parameter}' would be {spell_dimension(known)} in an earlier term"
            message = f"{message} and {spell_dimension(dimension)} here"
            report(LawError(message, term.start, "give the two terms a parameter each"))
    return found
