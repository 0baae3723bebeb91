"""From chosen assignments to trials in the order of execution, with those among them that check the law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from insitu.orchestrator.design.controls import Check, check_of, count_checks, replicate_of
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.store.records import Assignment, PlannedTrial, Purpose

KEPT = 0.1
"""Share of a budget that is kept for the replacement of trials that come out badly."""


def informing_trials(plan: Plan, usual: int) -> int:
    """How many trials a design is to choose, those that check the law apart.

    Parameters
    ----------
    usual
        If neither the design nor the budget says how many.

    Raises
    ------
    InputError
        If the budget does not allow as many as the design says, or leaves none.
    """
    wanted, budget = plan.design.trials, plan.budget.trials
    if wanted is None and budget is not None:
        total = budget - math.ceil(KEPT * budget)
        if total < 1:
            raise InputError(
                f"a budget of {budget} trials leaves none, since a tenth is kept for replacements",
                hint="raise budget.trials",
            )
        return total - count_checks(total)
    chosen = wanted or usual
    total = with_checks(chosen)
    if budget is not None and total > budget:
        raise InputError(
            f"the design has {total} trials, but the budget allows {budget}",
            hint=f"{chosen} that inform and {total - chosen} that check the law: raise budget.trials to {total}, "
            "or lower design.trials",
            trials=total,
            allowed=budget,
        )
    return chosen


def with_checks(informing: int) -> int:
    """Trials in all, of which so many inform."""
    return next(count for count in itertools.count(informing) if count - count_checks(count) >= informing)


def lay_out(
    blocks: Sequence[Sequence[Assignment]], space: Space, rng: np.random.Generator
) -> tuple[PlannedTrial, ...]:
    """Number the trials, in random order within blocks, which keep their order.

    A trial that checks the law stands where its number says (see `controls`). The trials of a block that share a
    setting of what is hard to change follow each other and become a block of their own, which a replacement of one
    of them joins; a check among them has that setting, too.
    """
    trials: list[PlannedTrial] = []
    shuffled = ([block[index] for index in rng.permutation(len(block))] for block in blocks)
    groups = itertools.chain.from_iterable(map(space.groups, shuffled))
    for number, group in enumerate(groups, start=1):
        within = space.within(space.setting(group[0]))
        trials += _checked(group, within, trials, number, space.rest)
    return tuple(trials)


def _checked(
    group: Sequence[Assignment], space: Space, before: Sequence[PlannedTrial], block: int, rest: Assignment
) -> list[PlannedTrial]:
    """The trials of one block, with those among them that check the law; `space` has its candidates."""
    trials: list[PlannedTrial] = []
    alike = [one.assignment for one in before if space.setting(one.assignment) == space.setting(group[0])]
    for one in group:
        added = {Purpose.INFORMING: one}
        if (check := check_of(len(before) + len(trials) + 1)) is not None:
            history = [*alike, *(trial.assignment for trial in trials), *group]
            added = {Purpose(check.value): checking(check, space, history), **added}
        for purpose, each in added.items():
            number = len(before) + len(trials) + 1
            trials.append(PlannedTrial(number, block, each, baseline=each == rest, purpose=purpose))
    return trials


def checking(check: Check, space: Space, history: Sequence[Assignment]) -> Assignment:
    """A trial that no law asks for.

    Parameters
    ----------
    history
        Trials of which one may be repeated.
    """
    match check:
        case Check.CONTROL:
            return space.rest
        case Check.CENTRE:
            return space.assignment(space.centre())
        case Check.REPLICATE:
            others = [one for one in history if one != space.rest] or [space.rest]
            return others[replicate_of(others)]
