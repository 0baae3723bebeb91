"""Laws as expressions: a grammar, frozen syntax trees, and their evaluation over arrays.

Text is parsed with lark and evaluated here; Python never sees it. Length and depth are bounded, so that a
stranger's model cannot exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_LENGTH = 4000
"""Characters of a law."""
MAX_DEPTH = 40
"""Parentheses within each other."""
MAX_SIGNS = 3
"""Minus signs in a row."""
MAX_POWER = 16.0

_SHOWN = 60

Array = NDArray[np.float64]

GRAMMAR = r"""
?start: sum
?sum: product (ADDING product)*
?product: signed (SCALING signed)*
?signed: MINUS signed -> negative
       | power
?power: atom ["^" exponent]
exponent: [MINUS] NUMBER
?atom: NUMBER -> number
     | NAME -> name
     | NAME "(" sum ("," sum)* ")" -> call
     | "(" sum ")"
ADDING: "+" | MINUS
SCALING: "*" | "/"
MINUS: "-"
NAME: /[A-Za-z_][A-Za-z_0-9]*/
NUMBER: /(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?/
%ignore /\s+/
"""


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
    value: float
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    start: int = 0
    end: int = 0


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
    base: Expression
    exponent: float
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]
    start: int = 0
    end: int = 0


Expression = Number | Name | Negative | Sum | Product | Power | Call

FUNCTIONS: Mapping[str, int] = {"log": 1, "exp": 1, "sqrt": 1, "min": 2, "max": 2}
"""Function to its least number of arguments; ``min`` and ``max`` take more, the others exactly one."""

_PLAIN: Mapping[str, Callable[[Array], Array]] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_FOLDED: Mapping[str, Callable[[Array, Array], Array]] = {"min": np.minimum, "max": np.maximum}


def negate(node: Expression, start: int) -> Expression:
    """The negative of an expression; two signs cancel, so that negatives never nest."""
    return node.operand if isinstance(node, Negative) else Negative(node, start, node.end)


def parse(text: str) -> Expression:
    """Parse the right side of a law.

    Raises
    ------
    LawError
        If the text is not an expression, or is longer or more deeply nested than laws are.
    """
    import lark

    _check_bounds(text)
    try:
        tree: Any = _parser().parse(text)
    except lark.exceptions.VisitError as error:
        raise error.orig_exc from None
    except lark.exceptions.UnexpectedEOF:
        raise LawError("the law ends too early", len(text.rstrip()), "a term is missing") from None
    except lark.exceptions.UnexpectedToken as error:
        at_end = error.token.type == "$END"
        offset = len(text.rstrip()) if at_end else int(error.token.start_pos or 0)
        raise _unexpected(text, offset) from None
    except lark.exceptions.UnexpectedCharacters as error:
        raise _unexpected(text, error.pos_in_stream) from None
    result: Expression = tree
    return result


def _unexpected(text: str, offset: int) -> LawError:
    if offset >= len(text.rstrip()):
        return LawError("the law ends too early", offset, "a term or a closing parenthesis is missing")
    found = re.match(r"\w+|\*\*|.", text[offset:], re.DOTALL)
    shown = found[0] if found else text[offset]
    hint = "a law has numbers, names, + - * / ^, parentheses and " + ", ".join(FUNCTIONS)
    if text[offset - 1 : offset + 1] == "**":
        hint = "powers are written with ^"
    elif re.match(r"\w", shown):
        hint = "an operator is missing before it; products are written with *, and numbers have no units"
    if offset and text[:offset].rstrip().endswith("^"):
        hint = "an exponent is a number, such as 2 or 0.5"
    return LawError(f"unexpected '{shown}'", offset, hint)


def _check_bounds(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise LawError(f"the law has more than {MAX_LENGTH} characters", 0, "split it with a latent variable")
    depth = signs = 0
    for offset, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not character.isspace():
            signs = signs + 1 if character == "-" else 0
        if depth > MAX_DEPTH:
            raise LawError(f"the law is nested more than {MAX_DEPTH} deep", offset, "simplify it")
        if signs > MAX_SIGNS:
            raise LawError(f"more than {MAX_SIGNS} minus signs in a row", offset, "remove some")


@cache
def _parser() -> Lark:
    import lark

    @lark.v_args(inline=True)
    class Build(lark.Transformer):  # type: ignore[misc, type-arg, unused-ignore]
        def number(self, token: Token) -> Expression:
            value = float(token)
            if not np.isfinite(value):
                raise LawError(f"{token} is too large a number", token.start_pos or 0)
            return Number(value, *_span(token))

        def name(self, token: Token) -> Expression:
            if token in FUNCTIONS:
                raise LawError(
                    f"'{token}' is a function",
                    token.start_pos or 0,
                    f"write {token}(...), or use another name",
                )
            return Name(str(token), *_span(token))

        def negative(self, minus: Token, operand: Expression) -> Expression:
            return negate(operand, minus.start_pos or 0)

        def sum(self, first: Expression, *rest: Any) -> Expression:
            terms = (first, *rest[1::2])
            signs = (1, *(1 if operator == "+" else -1 for operator in rest[::2]))
            return Sum(terms, signs, tuple(token.start_pos for token in rest[::2]), first.start, terms[-1].end)

        def product(self, first: Expression, *rest: Any) -> Expression:
            factors = (first, *rest[1::2])
            inverted = (False, *(operator == "/" for operator in rest[::2]))
            return Product(factors, inverted, first.start, factors[-1].end)

        def exponent(self, minus: Token | None, token: Token) -> tuple[float, Token]:
            return (-float(token) if minus else float(token)), token

        def power(self, base: Expression, exponent: tuple[float, Token] | None) -> Expression:
            if exponent is None:
                return base
            value, token = exponent
            if abs(value) > MAX_POWER:
                raise LawError(f"the exponent {value:g} is beyond {MAX_POWER:g}", token.start_pos or 0)
            return Power(base, value, base.start, token.end_pos or 0)

        def call(self, token: Token, *arguments: Expression) -> Expression:
            return _call(str(token), arguments, *_span(token))

    return lark.Lark(GRAMMAR, parser="lalr", transformer=Build(), maybe_placeholders=True)


def _span(token: Token) -> tuple[int, int]:
    return token.start_pos or 0, token.end_pos or 0


def _call(function: str, arguments: tuple[Expression, ...], start: int, end: int) -> Expression:
    from insitu.orchestrator.plan.hints import suggest

    if function not in FUNCTIONS:
        raise LawError(f"unknown function '{function}'", start, suggest(function, FUNCTIONS))
    least = FUNCTIONS[function]
    if len(arguments) < least or (least == 1 and len(arguments) > 1):
        wanted = "one value" if least == 1 else "two values or more"
        raise LawError(f"'{function}' takes {wanted}, not {len(arguments)}", start)
    return Call(function, arguments, start, max(end, arguments[-1].end))


def children(node: Expression) -> tuple[Expression, ...]:
    """The parts of a node, from left to right."""
    match node:
        case Negative(operand=operand):
            return (operand,)
        case Sum(terms=terms):
            return terms
        case Product(factors=factors):
            return factors
        case Power(base=base):
            return (base,)
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


def substitute(node: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """The expression with some names replaced; what stands in keeps its own offsets."""
    match node:
        case Name(name=name):
            return replacements.get(name, node)
        case Negative(operand=operand):
            return replace(node, operand=substitute(operand, replacements))
        case Sum(terms=terms):
            return replace(node, terms=tuple(substitute(term, replacements) for term in terms))
        case Product(factors=factors):
            return replace(node, factors=tuple(substitute(factor, replacements) for factor in factors))
        case Power(base=base):
            return replace(node, base=substitute(base, replacements))
        case Call(arguments=arguments):
            return replace(node, arguments=tuple(substitute(one, replacements) for one in arguments))
        case _:
            return node


def evaluate(node: Expression, values: Mapping[str, Array | float]) -> Array:
    """Evaluate an expression over numbers or arrays, which broadcast.

    A quotient by infinity (an unlimited rate) is 0; what is undefined is ``nan``, without a warning.

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
            return np.power(_evaluate(base, values), exponent)
        case Call(function=function, arguments=arguments):
            parts = [_evaluate(argument, values) for argument in arguments]
            if function in _PLAIN:
                return _PLAIN[function](parts[0])
            result = parts[0]
            for part in parts[1:]:
                result = _FOLDED[function](result, part)
            return result


_SUM, _PRODUCT, _SIGNED, _ATOM = range(4)


def spell(node: Expression) -> str:
    """Write an expression as text that parses to the same expression, with no needless parentheses."""
    return _spell(node, _SUM)


def shown(node: Expression) -> str:
    """As `spell`, cut to what fits into a message."""
    text = spell(node)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _spell(node: Expression, level: int) -> str:
    """Write a node where the grammar wants `level` or tighter."""
    match node:
        case Number(value=value):
            text, own = f"{value:.17g}" if float(f"{value:.12g}") != value else f"{value:.12g}", _ATOM
        case Name(name=name):
            text, own = name, _ATOM
        case Negative(operand=operand):
            text, own = "-" + _spell(operand, _SIGNED), _SIGNED
        case Sum(terms=terms, signs=signs):
            text, own = _spell(terms[0], _PRODUCT), _SUM
            for term, sign in zip(terms[1:], signs[1:], strict=True):
                text += (" + " if sign > 0 else " - ") + _spell(term, _PRODUCT)
        case Product(factors=factors, inverted=inverted):
            text, own = _spell(factors[0], _SIGNED), _PRODUCT
            for factor, below in zip(factors[1:], inverted[1:], strict=True):
                text += (" / " if below else " * ") + _spell(factor, _SIGNED)
        case Power(base=base, exponent=exponent):
            text, own = f"{_spell(base, _ATOM)}^{exponent:.12g}", _SIGNED
        case Call(function=function, arguments=arguments):
            text, own = f"{function}({', '.join(_spell(argument, _SUM) for argument in arguments)})", _ATOM
    return text if own >= level else f"({text})"
