"""The randomised full factorial: every combination of levels, in randomised complete blocks."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from insitu.orchestrator.design.at_rest import baseline, hard_to_change, left_alone
from insitu.orchestrator.design.protocol import Planned, Request
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.store.records import Assignment, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def plan_trials(self, request: Request, rng: np.random.Generator) -> Planned:
        """Plan the trials; blocks count from 1.

        Raises
        ------
        InputError
            If there are more trials than the budget (or `MAX_TRIALS`) allows.
        """
        plan = request.plan
        check_budget(plan, [len(factor.levels) for factor in plan.factors])
        return Planned(in_complete_blocks(plan, assignments(plan), rng))


def in_complete_blocks(
    plan: Plan, treatments: Sequence[Assignment], rng: np.random.Generator
) -> tuple[PlannedTrial, ...]:
    """Every treatment and the baseline trials in each block, in random order.

    Where factors are hard to change, the trials of a block that share their levels follow each other, and are a
    block of their own: a replacement of one of them joins them.
    """
    hard = [factor.variable for factor in hard_to_change(plan)]
    whole = [(one, False) for one in treatments] + [(baseline(plan), True)] * plan.design.baseline_replicates
    trials: list[PlannedTrial] = []
    blocks = 0
    for _ in range(plan.design.replicates):
        groups: dict[tuple[float, ...], list[tuple[Assignment, bool]]] = {}
        for index in rng.permutation(len(whole)):
            levels = whole[index][0].as_dict()
            groups.setdefault(tuple(levels[name] for name in hard), []).append(whole[index])
        for group in groups.values():
            blocks += 1
            for one, is_baseline in group:
                trials.append(PlannedTrial(len(trials) + 1, blocks, one, baseline=is_baseline))
    return tuple(trials)


def assignments(plan: Plan) -> list[Assignment]:
    """Every combination of the factors' levels."""
    names = [factor.variable for factor in plan.factors]
    free = left_alone(plan)
    return [
        Assignment((*zip(names, levels, strict=True), *free))
        for levels in itertools.product(*(factor.levels for factor in plan.factors))
    ]


def count_trials(plan: Plan) -> int:
    """Number of trials of a plan, without making them."""
    return _count(plan, math.prod(len(factor.levels) for factor in plan.factors))


def _count(plan: Plan, combinations: int) -> int:
    return plan.design.replicates * (combinations + plan.design.baseline_replicates)


def check_budget(plan: Plan, levels: Sequence[int]) -> None:
    """Check that a plan allows so many blocks of so many combinations: the product of `levels`.

    Raises
    ------
    InputError
        If it does not.
    """
    count, design = _count(plan, math.prod(levels)), plan.design
    allowed = MAX_TRIALS if plan.budget.trials is None else min(plan.budget.trials, MAX_TRIALS)
    if count <= allowed:
        return
    combinations = " x ".join(map(str, levels))
    who = "a plan" if plan.budget.trials is None else "the budget"
    made_of = f"{design.replicates} blocks of {combinations} assignments and {design.baseline_replicates} baseline"
    enough = f"raise budget.trials to {count}, or " if count <= MAX_TRIALS else ""
    raise InputError(
        f"the design has {count} trials, but {who} allows {allowed}",
        hint=f"{made_of}: {enough}use fewer levels or replicates",
        trials=count,
        allowed=allowed,
    )
