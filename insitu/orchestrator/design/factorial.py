"""The randomised full factorial: every combination of levels, in randomised complete blocks."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Plan, Role
from insitu.orchestrator.store.records import Assignment, PlannedTrial

if TYPE_CHECKING:
    import numpy as np

MAX_TRIALS = 100_000
"""Bound on the trials of one plan, with or without a budget."""


class Factorial:
    """Each block is one replicate of all assignments and the baseline trials, in random order.

    Every trial gives every variable that an injector can set a level: those that are not factors are
    left alone. In a baseline trial all are, and what cannot be left alone is at its first level, as the
    subject's parameters are.

    Notes
    -----
    Randomised complete block design: Box, Hunter and Hunter, Statistics for Experimenters (2nd edition),
    chapter 4. Drift of the machine between blocks does not bias the comparison of levels.
    """

    def plan_trials(self, plan: Plan, rng: np.random.Generator) -> tuple[PlannedTrial, ...]:
        """Plan the trials, numbered from 1 in execution order; blocks count from 1 too.

        Raises
        ------
        InputError
            If there are more trials than the budget (or `MAX_TRIALS`) allows.
        """
        _check_budget(plan)
        treatments = [(assignment, False) for assignment in assignments(plan)]
        treatments += [(baseline(plan), True)] * plan.design.baseline_replicates
        trials: list[PlannedTrial] = []
        for block in range(1, plan.design.replicates + 1):
            for index in rng.permutation(len(treatments)):
                assignment, is_baseline = treatments[index]
                trials.append(PlannedTrial(len(trials) + 1, block, assignment, baseline=is_baseline))
        return tuple(trials)


def assignments(plan: Plan) -> list[Assignment]:
    """Every combination of the factors' levels."""
    names = [factor.variable for factor in plan.factors]
    free = left_alone(plan)
    return [
        Assignment((*zip(names, levels, strict=True), *free))
        for levels in itertools.product(*(factor.levels for factor in plan.factors))
    ]


def baseline(plan: Plan) -> Assignment:
    """No intervention: throttles off, parameters at their first level."""
    rests = {factor.variable: _rest(plan, factor.variable) for factor in plan.factors}
    levels = ((f.variable, f.levels[0] if (rest := rests[f.variable]) is None else rest) for f in plan.factors)
    return Assignment((*levels, *left_alone(plan)))


def count_trials(plan: Plan) -> int:
    """Number of trials of a plan, without making them."""
    combinations = math.prod(len(factor.levels) for factor in plan.factors)
    return plan.design.replicates * (combinations + plan.design.baseline_replicates)


def _is_set(plan: Plan, name: str) -> bool:
    return plan.model.variables[name].role is Role.SET


def _rest(plan: Plan, name: str) -> float | None:
    """The level that leaves a variable alone, ``None`` if there is none."""
    return plan.model.variables[name].rest if _is_set(plan, name) else None


def left_alone(plan: Plan) -> tuple[tuple[str, float], ...]:
    """Variables that could be set but are not factors."""
    factors = {factor.variable for factor in plan.factors}
    rests = {name: _rest(plan, name) for name in plan.model.variables if name not in factors}
    return tuple((name, rest) for name, rest in rests.items() if rest is not None)


def _check_budget(plan: Plan) -> None:
    count, design = count_trials(plan), plan.design
    allowed = MAX_TRIALS if plan.budget.trials is None else min(plan.budget.trials, MAX_TRIALS)
    if count <= allowed:
        return
    combinations = " x ".join(str(len(factor.levels)) for factor in plan.factors)
    who = "a plan" if plan.budget.trials is None else "the budget"
    made_of = f"{design.replicates} blocks of {combinations} assignments and {design.baseline_replicates} baseline"
    enough = f"raise budget.trials to {count}, or " if count <= MAX_TRIALS else ""
    raise InputError(
        f"the design has {count} trials, but {who} allows {allowed}",
        hint=f"{made_of}: {enough}use fewer levels or replicates",
        trials=count,
        allowed=allowed,
    )
