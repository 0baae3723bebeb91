"""Levels as a user writes them: a quantity with its unit, a word, or a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.units import UnitError, parse_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.estimation.questions.model import FittedModel
    from insitu.orchestrator.plan.types import Variable

Level = float | str
"""A number in base units; or text: ``"20 MB/s"``, a bare number in the variable's unit, or a word."""


def parse_levels(model: FittedModel, levels: Mapping[str, Level]) -> dict[str, float]:
    """Read levels by variable, into base units.

    Raises
    ------
    InputError
        If there is no such variable, nobody can set or measure it, or a level is not one of its.
    """
    return {name: parse_level(model.variable(name), level) for name, level in levels.items()}


def parse_level(variable: Variable, level: Level) -> float:
    """Read one level.

    Raises
    ------
    InputError
        If it is none of the variable's.
    """
    if not isinstance(level, str):
        return float(level)
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
