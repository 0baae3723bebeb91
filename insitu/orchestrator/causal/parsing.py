"""The text of a law to its syntax tree.

Text is parsed with lark; Python never sees it. Length and depth are bounded, so that a stranger's model cannot
exhaust the stack.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.orchestrator.causal.syntax import (
    FUNCTIONS,
    Call,
    Expression,
    Index,
    Is,
    LawError,
    Name,
    Number,
    Power,
    Product,
    Sum,
    negate,
)
from insitu.orchestrator.plan.hints import suggest

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_LENGTH = 4000
"""Characters of a law."""
MAX_DEPTH = 40
"""Parentheses within each other."""
MAX_SIGNS = 3
"""Minus signs in a row."""
MAX_POWER = 16.0

GRAMMAR = r"""
?start: sum
?sum: product (ADDING product)*
?product: signed (SCALING signed)*
?signed: MINUS signed -> negative
       | power
?power: atom ["^" exponent]
exponent: [MINUS] NUMBER
        | NAME -> named_exponent
?atom: NUMBER -> number
     | NAME -> name
     | NAME "[" NAME ("," NAME)* CLOSING -> index
     | NAME "(" sum ("," sum)* ")" -> call
     | IS "(" NAME "," CATEGORY ")" -> is_category
     | "(" sum ")"
ADDING: "+" | MINUS
SCALING: "*" | "/"
CLOSING: "]"
MINUS: "-"
IS: "is"
NAME: /[A-Za-z_][A-Za-z_0-9]*/
NUMBER: /(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?/
CATEGORY: /[A-Za-z0-9_][A-Za-z0-9_.-]*/
%ignore /\s+/
"""


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
    before = text[:offset].rstrip()
    hint = "a law has numbers, names, + - * / ^, parentheses, is(variable, category) and " + ", ".join(FUNCTIONS)
    if text[offset - 1 : offset + 1] == "**":
        hint = "powers are written with ^"
    elif re.search(r"\[[^\]]*$", before):
        hint = "brackets hold the names of variables that have categories: a[disk_kind]"
    elif re.search(r"\bis\s*(\([^)]*)?$", before):
        hint = "a category is asked for with is(variable, category): is(disk_kind, ssd)"
    elif before.endswith("^"):
        hint = "an exponent is a number, such as 2 or 0.5, or a parameter"
    elif re.match(r"\w", shown):
        hint = "an operator is missing before it; products are written with *, and numbers have no units"
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
            return _name(token)

        def index(self, family: Token, *rest: Token) -> Expression:
            start, end = family.start_pos or 0, rest[-1].end_pos or 0
            return Index(_name(family).name, tuple(_name(one) for one in rest[:-1]), start, end)

        def is_category(self, keyword: Token, variable: Token, category: Token) -> Expression:
            return Is(_name(variable), str(category), keyword.start_pos or 0, category.end_pos or 0)

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

        def exponent(self, minus: Token | None, token: Token) -> Number:
            value = -float(token) if minus else float(token)
            if abs(value) > MAX_POWER:
                raise LawError(f"the exponent {value:g} is beyond {MAX_POWER:g}", token.start_pos or 0)
            return Number(value, *_span(token))

        def named_exponent(self, token: Token) -> Name:
            return _name(token)

        def power(self, base: Expression, exponent: Number | Name | None) -> Expression:
            return base if exponent is None else Power(base, exponent, base.start, exponent.end)

        def call(self, token: Token, *arguments: Expression) -> Expression:
            return _call(str(token), arguments, *_span(token))

    return lark.Lark(GRAMMAR, parser="lalr", transformer=Build(), maybe_placeholders=True)


def _span(token: Token) -> tuple[int, int]:
    return token.start_pos or 0, token.end_pos or 0


def _name(token: Token) -> Name:
    if token in FUNCTIONS:
        raise LawError(
            f"'{token}' is a function",
            token.start_pos or 0,
            f"write {token}(...), or use another name",
        )
    return Name(str(token), *_span(token))


def _call(function: str, arguments: tuple[Expression, ...], start: int, end: int) -> Expression:
    if function not in FUNCTIONS:
        raise LawError(f"unknown function '{function}'", start, suggest(function, FUNCTIONS))
    least = FUNCTIONS[function]
    if len(arguments) < least or (least == 1 and len(arguments) > 1):
        wanted = "one value" if least == 1 else "two values or more"
        raise LawError(f"'{function}' takes {wanted}, not {len(arguments)}", start)
    return Call(function, arguments, start, max(end, arguments[-1].end))
