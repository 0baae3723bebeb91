"""Designs that are best for a law: the trials that tell most of its parameters, its predictions, or the goal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.design.blocks import Block, exchange_in_blocks
from insitu.orchestrator.design.budgeted import exchange_within
from insitu.orchestrator.design.controls import EVERY
from insitu.orchestrator.design.criteria import Criterion, d_optimal
from insitu.orchestrator.design.exchange import exchange
from insitu.orchestrator.design.layout import KEPT, informing_trials, lay_out
from insitu.orchestrator.design.local import told_values
from insitu.orchestrator.design.protocol import Planned, Request
from insitu.orchestrator.errors import InputError

if TYPE_CHECKING:
    from insitu.orchestrator.causal.expression import Array
    from insitu.orchestrator.design.situation import Candidates, Situation
    from insitu.orchestrator.plan.types import Plan

BLOCK_VARIANCE = 1.0
"""What blocks differ by, as a variance over that of a trial's noise; nobody knows it before the run."""
_STARTS = 10
_FEW_STARTS = 3
_MANY = 2_000
"""Candidates from which on fewer designs are tried to start from."""


class _Optimal:
    """Exchange among all trials that the plan allows, and trials that check the law among those chosen."""

    what = ""

    def criterion(self, situation: Situation) -> Criterion:
        raise NotImplementedError

    def plan_trials(self, request: Request, rng: np.random.Generator) -> Planned:
        """Choose the trials; of factors that are hard to change, each group that shares them is a block.

        Raises
        ------
        InputError
            If the trials do not fit into the budget, or no trial says anything of the law.
        """
        plan, situation = request.plan, request.situation
        candidates = situation.candidates()
        choice = _Choice(plan, situation, candidates, self.criterion(situation), rng)
        blocks, efficiency = choice.made()
        chosen = [[situation.space.assignment(int(candidates.numbers[one])) for one in block] for block in blocks]
        trials = lay_out(chosen, situation.space, rng)
        informing = sum(map(len, blocks))
        told = [
            f"{informing} trials, chosen among {len(candidates.numbers)} so that {self.what} as precise as "
            f"possible: {_percent(efficiency)} as good per trial as any design could be",
            f"{len(trials) - informing} more check the law",
            *choice.told,
            *told_values(situation),
        ]
        return Planned(trials, tuple(told))


class DOptimal(_Optimal):
    """All parameters of the laws together become as precise as possible."""

    what = "all parameters together become"

    def criterion(self, situation: Situation) -> Criterion:
        return d_optimal()


class IOptimal(_Optimal):
    """The outcome's mean becomes as precise as possible, on average over the levels that trials may have."""

    what = "predictions over all levels become"

    def criterion(self, situation: Situation) -> Criterion:
        return situation.for_predictions()


class COptimal(_Optimal):
    """What the goal asks for becomes as precise as possible."""

    what = "what the goal asks for becomes"

    def criterion(self, situation: Situation) -> Criterion:
        return situation.for_goal()


class _Choice:
    """Which exchange a plan asks for, and what is to be said of it."""

    def __init__(
        self,
        plan: Plan,
        situation: Situation,
        candidates: Candidates,
        criterion: Criterion,
        rng: np.random.Generator,
    ) -> None:
        self.plan = plan
        self.situation = situation
        self.candidates = candidates
        self.criterion = criterion
        self.rng = rng
        self.told: list[str] = []

    def made(self) -> tuple[list[tuple[int, ...]], float]:
        """Candidates of each block, and how good they are per trial."""
        rows, known = self.candidates.rows, self.situation.information()
        starts = _STARTS if len(rows) < _MANY else _FEW_STARTS
        seconds = self._seconds()
        if seconds is not None and self.plan.budget.time_s is not None:
            allowed = self.plan.budget.time_s * (1 - KEPT) * (1 - 1 / EVERY)
            self._check_time(seconds, allowed)
            paid = exchange_within(
                rows, seconds, allowed, self.criterion, self.rng, information=known, starts=starts
            )
            self.told.append(f"they take about {paid.cost:.0f} s of {self.plan.budget.time_s:.0f} s")
            return [paid.trials], paid.efficiency
        count = informing_trials(self.plan, usual_trials(self.situation))
        sizes = self._sizes(count)
        if len(sizes) == 1:
            found = exchange(rows, count, self.criterion, self.rng, information=known, starts=starts)
            return [found.trials], found.efficiency
        settings = self.situation.space.settings()[self.candidates.numbers]
        blocked = exchange_in_blocks(
            rows,
            [Block(size) for size in sizes],
            self.criterion,
            self.rng,
            variance_ratio=BLOCK_VARIANCE,
            settings=settings if self.situation.space.hard_to_change else None,
            information=known,
            starts=starts,
        )
        order = self.rng.permutation(len(blocked.blocks))
        self.told += self._told_blocks(len(sizes))
        return [blocked.blocks[index] for index in order], blocked.efficiency

    def _seconds(self) -> Array | None:
        """What trials take, where time is all that bounds them."""
        seconds, plan = self.situation.seconds, self.plan
        grouped = plan.design.blocks is not None or self.situation.space.hard_to_change
        if seconds is None or plan.budget.trials is not None or plan.design.trials is not None or grouped:
            return None
        return seconds[self.candidates.numbers]

    def _check_time(self, seconds: Array, allowed: float) -> None:
        if float(seconds.min()) > allowed:
            raise InputError(
                f"the budget of {self.plan.budget.time_s:g} s is too short for one trial, which takes "
                f"{float(seconds.min()):.3g} s, beside those that check the law and those that come out badly",
                hint="raise budget.time",
            )

    def _sizes(self, trials: int) -> list[int]:
        """Trials of each block: as equal as can be."""
        count = self.plan.design.blocks
        if count is None:
            count = self._usual_groups(trials) if self.situation.space.hard_to_change else 1
        if count > trials:
            raise InputError(
                f"{trials} trials do not fill {count} blocks",
                hint=f"lower design.blocks, or give the design {count} trials or more",
            )
        return [len(part) for part in np.array_split(np.arange(trials), count)]

    def _usual_groups(self, trials: int) -> int:
        """Twice as many groups as levels to be told from each other between them, so that their noise shows."""
        hard = [factor for factor in self.plan.factors if factor.hard_to_change]
        levels = 1 + sum(len(factor.levels) - 1 for factor in hard)
        return max(1, min(2 * levels, math.ceil(trials / 2)))

    def _told_blocks(self, count: int) -> Iterator[str]:
        if hard := self.situation.space.hard_to_change:
            names = " and ".join(hard)
            change = "change" if len(hard) > 1 else "changes"
            yield f"{names} {change} between {count} groups of trials only"
        else:
            yield f"in {count} blocks, each of which may be faster or slower than the others"


def usual_trials(situation: Situation) -> int:
    """Trials that inform, where neither the design nor a budget says how many."""
    from insitu.orchestrator.design.sequential import LEAST_DF

    return 2 * max(len(law.parameters) for law in situation.composite.laws) + LEAST_DF


def _percent(share: float) -> str:
    return f"at least {math.floor(1000 * share) / 10:g} %" if share > 0 else "none"
