"""Whether trials tell the numbers that a goal asks for: combinations of parameters, not each parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target, target_of
from insitu.orchestrator.design.belief import nominal
from insitu.orchestrator.plan.types import Role

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.goals import Goal
    from insitu.orchestrator.plan.types import Factor

_DRAWS = 8
"""Values of the parameters at which numbers are looked at."""
_SPREAD = 2.0
"""Of the logarithms of these values: about a decade either way."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The numbers that a goal asks for, before any trial.

    Attributes
    ----------
    target
        With a stand-in for each level that only the machine knows.
    slopes
        By the variable that a law gives: derivatives of the numbers by the law's parameters at their nominal
        values, shape (k, p).
    depends
        Whether any number depends on any parameter; nowhere, if it does not at any of several values of them.
    """

    target: Target
    slopes: Mapping[str, Array]
    depends: bool


def asked_of(goal: Goal, blueprint: Blueprint, factors: Sequence[Factor]) -> Asked:
    """What a goal asks for, before any trial.

    Parameters
    ----------
    blueprint
        Without latent variables.
    factors
        What trials set.
    """
    target = target_of(goal, blueprint, factors, _standing(blueprint, factors))
    laws = target.composite.laws
    start = {law.variable: nominal(law) for law in laws}
    if not target.wanted:
        return Asked(target, {law.variable: np.zeros((0, len(law.parameters))) for law in laws}, depends=False)
    with np.errstate(all="ignore"):
        slopes = target.gradients(start)
    none = {law.variable: np.zeros((len(target.wanted), len(law.parameters))) for law in laws}
    return Asked(target, {**none, **slopes}, depends_on_any(target))


def depends_on_any(target: Target) -> bool:
    """Whether a number depends on a parameter, at one or another of several values of all parameters."""
    start = {law.variable: nominal(law) for law in target.composite.laws}
    with np.errstate(all="ignore"):
        return any(_any(target.gradients(values)) for values in _values(start))


def _standing(blueprint: Blueprint, factors: Sequence[Factor]) -> dict[str, float]:
    """A level for each variable that without an intervention is where the machine leaves it: above its caps."""
    levels = {factor.variable: [one for one in factor.levels if math.isfinite(one)] for factor in factors}
    at_machine = [
        name for name, one in blueprint.variables.items() if one.role is Role.SET and one.rest == math.inf
    ]
    return {name: 2 * max(levels.get(name) or [1.0]) for name in at_machine}


def _values(start: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Values of all parameters: those given, and others of other proportions; the same at every call."""
    rng = np.random.default_rng(0)
    yield dict(start)
    for _ in range(_DRAWS - 1):
        yield {name: values * np.exp(rng.normal(0.0, _SPREAD, len(values))) for name, values in start.items()}


def _any(slopes: Mapping[str, Array]) -> bool:
    """Whether a derivative is not zero; one that is no number says nothing."""
    return any(bool(rows.any()) for rows in slopes.values())
