"""What a goal asks for, as numbers that follow from the parameters of laws.

Everything that judges a goal (the choice of trials, when to stop, the answer, the exit code) takes its numbers
from here, so that they cannot differ.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.composite import Composite, Parameters, compose
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.plan.goals import (
    ComparisonGoal,
    EffectGoal,
    Goal,
    ParametersGoal,
    PredictionGoal,
    RankingGoal,
)
from insitu.orchestrator.plan.types import Factor, Role, Variable

_MIDDLE = 1.0
"""Stands in for a level that nobody has measured yet, in base units."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One number that a goal asks for.

    Attributes
    ----------
    name
        The parameter, the cause, or the outcome.
    unit, scale
        What it is reported in; a value in base units is multiplied by `scale`.
    low, high
        For an effect: from where to where the cause goes.
    at
        Levels of the variables that stand still.
    """

    name: str
    unit: str
    scale: float = 1.0
    low: float = math.nan
    high: float = math.nan
    at: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The k numbers that a goal asks for.

    Attributes
    ----------
    wanted
        What they are.
    levels
        Variable to its level at each of n places, shape (n,).
    weights
        What the outcome's mean at each place counts for each number, shape (k, n); without rows where the numbers
        are the parameters of the outcome's law.
    compared
        Whether the numbers are compared with each other, so that the largest is what a precision is relative to:
        a cause without any effect is known precisely when it is known to be small beside the others.
    """

    composite: Composite
    wanted: tuple[Wanted, ...]
    levels: Mapping[str, Array]
    weights: Array
    compared: bool = False

    def sizes(self, parameters: Parameters) -> Array:
        """What the precision of each number is relative to, shape (k,)."""
        sizes = np.abs(self.values(parameters))
        return np.full(len(sizes), sizes.max(initial=0.0)) if self.compared else sizes

    def values(self, parameters: Parameters) -> Array:
        """The numbers in base units, shape (k,)."""
        if not len(self.weights):
            return np.asarray(parameters[self.composite.outcome], dtype=np.float64)
        found: Array = self.weights @ self.composite.mean(parameters, self.levels)
        return found

    def gradients(self, parameters: Parameters) -> dict[str, Array]:
        """Their derivatives by the parameters of each law, each of shape (k, p)."""
        if not len(self.weights):
            return {self.composite.outcome: np.eye(len(parameters[self.composite.outcome]))}
        found = self.composite.gradients(parameters, self.levels)
        return {name: self.weights @ rows for name, rows in found.items()}


def target_of(
    goal: Goal,
    blueprint: Blueprint,
    factors: Sequence[Factor],
    standing: Mapping[str, float] | None = None,
) -> Target:
    """What a goal asks for.

    Parameters
    ----------
    factors
        What trials set; their levels say over which range an effect is asked for.
    standing
        Levels of variables in trials without any intervention, as far as they are known.

    Raises
    ------
    InputError
        If the outcome has no law.
    """
    composite = compose(blueprint, goal.outcome, [factor.variable for factor in factors])
    places = _Places(blueprint, composite, factors, standing or {})
    unit = blueprint.variables[goal.outcome].unit
    match goal:
        case EffectGoal():
            low, high = places.ends(goal.cause, goal.low, goal.high)
            return _effects(composite, places, [_Change(goal.cause, low, high)], unit, dict(goal.at))
        case RankingGoal():
            causes = [factor.variable for factor in factors if factor.variable in places.roots]
            changes = [_Change(name, *places.ends(name)) for name in causes]
            found = _effects(
                composite, places, [one for one in changes if one.low != one.high], unit, places.middle()
            )
            return replace(found, compared=True)
        case PredictionGoal():
            rows = [places.at(dict(place)) for place in goal.places]
            wanted = tuple(Wanted(goal.outcome, unit, at=tuple(row.items())) for row in rows)
            return Target(composite, wanted, _columns(rows), np.eye(len(rows)))
        case ParametersGoal() | ComparisonGoal():  # to compare a law, its parameters have to be known
            law = composite.laws[-1]
            wanted = tuple(
                Wanted(name, law.parameter_units[name], law.parameter_scales[name]) for name in law.parameters
            )
            return Target(composite, wanted, {}, np.empty((0, 0)))
    raise ValueError(f"a goal of an unknown kind: {goal!r}")


@dataclass(frozen=True, slots=True)
class _Change:
    cause: str
    low: float
    high: float


class _Places:
    """Where the variables stand that a question says nothing of."""

    def __init__(
        self, blueprint: Blueprint, composite: Composite, factors: Sequence[Factor], standing: Mapping[str, float]
    ) -> None:
        given = {law.variable for law in composite.laws}
        parents = dict.fromkeys(name for law in composite.laws for name in law.parents)
        self.roots = tuple(name for name in parents if name not in given)
        self.levels = {factor.variable: factor.levels for factor in factors}
        self.standing = standing
        self.variables = blueprint.variables

    def ends(self, cause: str, low: float = math.nan, high: float = math.nan) -> tuple[float, float]:
        """From where to where an effect goes; what is unlimited stands where the machine leaves it."""
        levels = [level for level in self.levels.get(cause, ()) if math.isfinite(level)]
        natural = self.stand(self.variables[cause])
        if len(levels) == 1 and math.isfinite(natural):
            levels.append(natural)
        lowest, highest = (min(levels), max(levels)) if levels else (natural, natural)
        low, high = (lowest if math.isnan(low) else low), (highest if math.isnan(high) else high)
        return natural if math.isinf(low) else low, natural if math.isinf(high) else high

    def middle(self) -> dict[str, float]:
        """The middle one of each factor's finite levels."""
        finite = {name: [one for one in levels if math.isfinite(one)] for name, levels in self.levels.items()}
        return {name: statistics.median_low(levels) for name, levels in finite.items() if levels}

    def at(self, levels: Mapping[str, float]) -> dict[str, float]:
        """Levels of all roots, of which the question gives some."""
        return {name: self._level(name, levels.get(name)) for name in self.roots}

    def _level(self, name: str, given: float | None) -> float:
        if given is None or math.isinf(given):
            return self.stand(self.variables[name])
        return given

    def stand(self, variable: Variable) -> float:
        """Where a variable is without an intervention."""
        if variable.name in self.standing:
            return self.standing[variable.name]
        if variable.role is Role.PARAMETER and variable.name in self.levels:
            return self.levels[variable.name][0]  # as in a baseline trial
        if variable.role is Role.SET and variable.rest is not None:
            return variable.rest
        return next(iter(self.levels.get(variable.name, ())), _MIDDLE)


def _effects(
    composite: Composite, places: _Places, changes: Sequence[_Change], unit: str, at: Mapping[str, float]
) -> Target:
    rows: list[dict[str, float]] = []
    wanted: list[Wanted] = []
    for change in changes:
        others = {name: level for name, level in places.at(at).items() if name != change.cause}
        rows += [{**others, change.cause: end} for end in (change.low, change.high)]
        wanted.append(Wanted(change.cause, unit, 1.0, change.low, change.high, tuple(others.items())))
    weights = np.kron(np.eye(len(changes)), np.array([[-1.0, 1.0]]))
    return Target(composite, tuple(wanted), _columns(rows), weights)


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, Array]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row[name] for row in rows]) for name in names}
