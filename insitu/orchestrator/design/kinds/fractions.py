"""A part of all combinations of levels as a plan's design, for when all of them are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.design.at_rest import left_alone
from insitu.orchestrator.design.kinds.factorial import check_budget, in_complete_blocks
from insitu.orchestrator.design.kinds.fractional import smallest_fraction, two_level_fraction
from insitu.orchestrator.design.kinds.orthogonal import mixed_fraction
from insitu.orchestrator.design.protocol import Planned, Request
from insitu.orchestrator.store.records import Assignment

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Factor, Plan

_MOST_TOLD = 8
"""Sentences about effects that are mixed up; more than these say nothing to a reader."""


class Fractional:
    """A regular fraction of two-level factors, or of others an orthogonal array or the best part there is."""

    def plan_trials(self, request: Request, rng: np.random.Generator) -> Planned:
        """Plan the trials: each block is one replicate of the fraction and the baseline trials, in random order.

        Raises
        ------
        InputError
            If there are more trials than the budget allows, or no fraction is as small as the design says.
        """
        plan = request.plan
        varied = [factor for factor in plan.factors if len(factor.levels) > 1]
        fraction = _fraction(plan, varied, rng)
        check_budget(plan, [len(fraction.runs)])
        trials = in_complete_blocks(plan, [_assignment(plan, varied, run) for run in fraction.runs], rng)
        told = fraction.told
        if len(told) > _MOST_TOLD:
            told = (*told[:_MOST_TOLD], f"{len(told) - _MOST_TOLD} more sets of effects cannot be told apart.")
        return Planned(trials, told)


@dataclass(frozen=True, slots=True, eq=False)
class _Fraction:
    """Number of each varied factor's level in each run, from 0, shape (runs, factors), and what it leaves out."""

    runs: npt.NDArray[np.int64]
    told: tuple[str, ...]


def _fraction(plan: Plan, varied: Sequence[Factor], rng: np.random.Generator) -> _Fraction:
    most = plan.design.trials
    names = [factor.variable for factor in varied]
    if not varied:
        return _Fraction(np.zeros((1, 0), dtype=np.int64), ())
    if all(len(factor.levels) == 2 for factor in varied):
        if most is None:
            regular = smallest_fraction(names, plan.design.resolution)
        else:
            regular = two_level_fraction(names, 1 << min(len(names), most.bit_length() - 1))
        return _Fraction((regular.runs() + 1) // 2, regular.told())
    mixed = mixed_fraction([len(factor.levels) for factor in varied], rng, runs=most)
    return _Fraction(mixed.runs, (mixed.told,))


def _assignment(plan: Plan, varied: Sequence[Factor], run: npt.NDArray[np.int64]) -> Assignment:
    """Levels of one run; the first level is the lowest."""
    chosen = {
        factor.variable: sorted(factor.levels)[number] for factor, number in zip(varied, run.tolist(), strict=True)
    }
    levels = ((one.variable, chosen.get(one.variable, one.levels[0])) for one in plan.factors)
    return Assignment((*levels, *left_alone(plan)))
