"""Laws as expressions: parsed, evaluated over arrays, and written again.

What makes expressions and what asks about them is here too, so that their users need one module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from insitu.orchestrator.causal.parsing import MAX_DEPTH, MAX_LENGTH, MAX_POWER, MAX_SIGNS, parse
from insitu.orchestrator.causal.spelling import shown, spell
from insitu.orchestrator.causal.syntax import (
    FUNCTIONS,
    Array,
    Call,
    Expression,
    Index,
    Is,
    LawError,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    addends_of,
    children,
    has_any,
    names,
    negate,
    rebuilt,
    substitute,
    walk,
)

__all__ = [
    "FUNCTIONS",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MAX_POWER",
    "MAX_SIGNS",
    "Array",
    "Call",
    "Expression",
    "Index",
    "Is",
    "LawError",
    "Name",
    "Negative",
    "Number",
    "Power",
    "Product",
    "Sum",
    "addends_of",
    "children",
    "evaluate",
    "has_any",
    "is_code",
    "names",
    "negate",
    "parse",
    "rebuilt",
    "shown",
    "spell",
    "substitute",
    "walk",
    "which_choice",
]

_PLAIN: Mapping[str, Callable[[Array], Array]] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_FOLDED: Mapping[str, Callable[[Array, Array], Array]] = {"min": np.minimum, "max": np.maximum}


def evaluate(node: Expression, values: Mapping[str, Array | float]) -> Array:
    """Evaluate an expression over numbers or arrays, which broadcast.

    A quotient by infinity (an unlimited rate) is 0; what is undefined is ``nan``, without a warning. The value of
    a variable with categories is the number of one, from 0; anything else is undefined.

    Raises
    ------
    KeyError
        If a name has no value.
    """
    with np.errstate(all="ignore"):
        return _evaluate(node, values)


def _evaluate(node: Expression, values: Mapping[str, Array | float]) -> Array:
    match node:
        case Number(value=number):
            return np.asarray(number, dtype=np.float64)
        case Name(name=name):
            return np.asarray(values[name], dtype=np.float64)
        case Index(choices=choices):
            which = which_choice(node, values)
            total = np.where(np.isnan(which), np.nan, 0.0)
            for number, choice in enumerate(choices):
                total = np.where(which == number, _evaluate(choice, values), total)
            return total
        case Is():
            return is_code(node, values)
        case Negative(operand=operand):
            return np.negative(_evaluate(operand, values))
        case Sum(terms=terms, signs=signs):
            total = np.asarray(0.0)
            for term, sign in zip(terms, signs, strict=True):
                total = total + sign * _evaluate(term, values)
            return total
        case Product(factors=factors, inverted=inverted):
            result = np.asarray(1.0)
            for factor, below in zip(factors, inverted, strict=True):
                value = _evaluate(factor, values)
                result = result / value if below else result * value
            return result
        case Power(base=base, exponent=exponent):
            return np.asarray(np.power(_evaluate(base, values), _evaluate(exponent, values)))
        case Call(function=function, arguments=arguments):
            parts = [_evaluate(argument, values) for argument in arguments]
            if function in _PLAIN:
                return _PLAIN[function](parts[0])
            result = parts[0]
            for part in parts[1:]:
                result = _FOLDED[function](result, part)
            return result


def which_choice(node: Index, values: Mapping[str, Array | float]) -> Array:
    """Number of the choice that an index takes at each point; ``nan`` where there is none."""
    number: Array = np.asarray(0.0)
    for variable, words in zip(node.by, node.categories, strict=True):
        number = number * len(words) + _codes(values[variable.name], len(words))
    return number


def is_code(node: Is, values: Mapping[str, Array | float]) -> Array:
    """1 where the variable has the category, 0 where another, ``nan`` where none."""
    codes = _codes(values[node.variable.name], node.size)
    return np.where(np.isnan(codes), np.nan, codes == node.code)


def _codes(values: Array | float, size: int) -> Array:
    codes = np.asarray(values, dtype=np.float64)
    known = (codes >= 0) & (codes < size) & (codes == np.floor(codes))
    return np.where(known, codes, np.nan)
