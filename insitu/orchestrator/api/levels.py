"""Levels as a user writes them: a quantity with its unit, a word, or a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.units import UnitError, parse_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.estimation.questions.model import FittedModel
    from insitu.orchestrator.plan.types import Variable

_MAPPING = 'as in {"cpu_cores": 0.5}'
_HINT = 'give a number in base units, or text, as in "20 MB/s" or "unlimited"'

Level = float | str
"""A number in base units; or text: ``"20 MB/s"``, a bare number in the variable's unit, or a word."""


def parse_levels(model: FittedModel, levels: Mapping[str, Level]) -> dict[str, float]:
    """Read levels by variable, into base units.

    Raises
    ------
    InputError
        If there is no such variable, nobody can set or measure it, or a level is not one of its.
    """
    if not isinstance(levels, Mapping):
        raise InputError(f"levels are given by variable, and {levels!r} is no mapping", hint=_MAPPING)
    return {name: parse_level(model.variable(name), level) for name, level in levels.items()}


def parse_level(variable: Variable, level: Level) -> float:
    """Read one level; infinity as a number, and ``unlimited`` as text, is the level of a cap that is not set.

    Raises
    ------
    InputError
        If it is none of the variable's.
    """
    number = _text(variable, level) if isinstance(level, str) else _real(variable, level)
    if math.isinf(number) and not (number > 0 and _can_be_unlimited(variable)):
        which = "unlimited: it caps nothing" if number > 0 else "minus infinity"
        raise InputError(f"{variable.name} cannot be {which}", hint="give it a level")
    return number


def _real(variable: Variable, level: object) -> float:
    if isinstance(level, bool) or not isinstance(level, Real):
        raise InputError(f"{variable.name}: {level!r} is not a level", hint=_HINT)
    return float(level)


def _can_be_unlimited(variable: Variable) -> bool:
    return variable.role is Role.SET and variable.rest == math.inf


def _text(variable: Variable, level: str) -> float:
    text = level.strip()
    if variable.categories:
        code = variable.code(text)
        if code is None:
            raise InputError(f"{variable.name} has no category '{text}'", hint=suggest(text, variable.words))
        return code
    words = variable.settable.words if variable.settable is not None else {}
    if text in words:
        return words[text]
    try:
        return parse_quantity(_number(text), variable.unit)
    except UnitError as error:
        if text.lower().lstrip("+") in ("inf", "infinity"):
            raise InputError(f"{variable.name}: '{text}' is not a level", hint="write unlimited") from error
        raise InputError(f"{variable.name}: {error}", hint=_example(variable)) from error


def _number(text: str) -> str | float:
    """Text with a unit, or a bare number, which is in the variable's."""
    try:
        bare = float(text)
    except ValueError:
        return text
    return text if math.isinf(bare) else bare


def _example(variable: Variable) -> str:
    return f"write it in {variable.unit}, with the unit or without" if variable.unit else "write a plain number"
