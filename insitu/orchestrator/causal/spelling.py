"""Syntax trees of laws back to text."""

from __future__ import annotations

from insitu.orchestrator.causal.syntax import (
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
)

_SHOWN = 60
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
        case Number():
            text, own = _number(node), _ATOM if node.called or node.value >= 0 else _SIGNED
        case Name(name=name):
            text, own = name, _ATOM
        case Index(family=family, by=by):
            text, own = f"{family}[{', '.join(one.name for one in by)}]", _ATOM
        case Is(variable=variable, category=category):
            text, own = f"is({variable.name}, {category})", _ATOM
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
            power = exponent.name if isinstance(exponent, Name) else exponent.called or f"{exponent.value:.12g}"
            text, own = f"{_spell(base, _ATOM)}^{power}", _SIGNED
        case Call(function=function, arguments=arguments):
            text, own = f"{function}({', '.join(_spell(argument, _SUM) for argument in arguments)})", _ATOM
    return text if own >= level else f"({text})"


def _number(node: Number) -> str:
    if node.called:
        return node.called
    return f"{node.value:.17g}" if float(f"{node.value:.12g}") != node.value else f"{node.value:.12g}"
