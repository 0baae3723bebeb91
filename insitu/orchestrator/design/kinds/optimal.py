"""Designs that are best for a law: the trials that tell most of its parameters, its predictions, or the goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.design.at_rest import hard_to_change
from insitu.orchestrator.design.controls import EVERY
from insitu.orchestrator.design.kinds.local import told_values
from insitu.orchestrator.design.layout import KEPT, informing_trials, lay_out
from insitu.orchestrator.design.optimality.blocks import Block, exchange_in_blocks
from insitu.orchestrator.design.optimality.budgeted import exchange_within
from insitu.orchestrator.design.optimality.confounding import confounding
from insitu.orchestrator.design.optimality.criteria import Criterion, d_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.optimality.information import information_of
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
        made = choice.made()
        space, numbers = situation.space, candidates.numbers
        chosen = [[space.assignment(int(numbers[one])) for one in block] for block in made.blocks]
        trials = lay_out(chosen, situation.space, rng)
        informing = sum(map(len, made.blocks))
        told = [
            f"{informing} trials, chosen among {len(candidates.numbers)} so that {self.what} as precise as "
            f"possible{_as_good(made.efficiency)}",
            f"{len(trials) - informing} more check the law",
            *_told_known(situation),
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


@dataclass(frozen=True, slots=True)
class _Made:
    """Candidates of each block, and how good they are per trial: at least this share of the best possible."""

    blocks: list[tuple[int, ...]]
    efficiency: float


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

    def made(self) -> _Made:
        """The trials; some of them may be there only to tell parameters apart that the criterion does not ask for.

        Without these a law could not be fitted at all, and a design for one effect often leaves them out.
        """
        known, rows = self.situation.information(), self.candidates.rows
        beside: tuple[int, ...] = ()
        found = self._chosen(known, beside)
        for _ in range(rows.shape[2]):  # what is chosen beside some trials may leave out others than before
            chosen = rows[list(itertools.chain.from_iterable(found.blocks))].reshape(-1, rows.shape[2])
            missing = confounding(rows, rows=chosen, information=known).separated_by
            if not missing or len(beside) + len(missing) >= sum(map(len, found.blocks)):
                break
            beside = (*beside, *missing)
            self.told = []
            found = self._chosen(known + information_of(rows[list(beside)]), beside)
        if beside:
            count = "one of them is" if len(beside) == 1 else f"{len(beside)} of them are"
            self.told.append(f"{count} there so that every parameter of the law can be told")
        return found

    def _chosen(self, known: Array, beside: tuple[int, ...]) -> _Made:
        """Choose what fits beside some trials, of which `known` has the information already."""
        if (seconds := self._seconds()) is not None and self.plan.budget.time_s is not None:
            return self._for_time(known, beside, seconds, self.plan.budget.time_s)
        count = informing_trials(self.plan, usual_trials(self.situation)) - len(beside)
        sizes = self._sizes(count)
        if len(sizes) > 1:
            return self._in_blocks(known, beside, sizes)
        rows = self.candidates.rows
        found = exchange(rows, count, self.criterion, self.rng, information=known, starts=self._starts)
        return _Made([(*found.trials, *beside)], found.efficiency)

    @property
    def _starts(self) -> int:
        return _STARTS if len(self.candidates.rows) < _MANY else _FEW_STARTS

    def _for_time(self, known: Array, beside: tuple[int, ...], seconds: Array, budget_s: float) -> _Made:
        allowed = budget_s * (1 - KEPT) * (1 - 1 / EVERY) - float(seconds[list(beside)].sum())
        if float(seconds.min()) > allowed:
            raise InputError(
                f"the budget of {budget_s:g} s is too short: a trial takes {float(seconds.min()):.3g} s or more, "
                "and some of the time is for trials that check the law, and for replacements",
                hint="raise budget.time",
            )
        found = exchange_within(
            self.candidates.rows,
            seconds,
            allowed,
            self.criterion,
            self.rng,
            information=known,
            starts=self._starts,
        )
        takes = found.cost + float(seconds[list(beside)].sum())
        self.told.append(f"they take about {takes:.0f} s of the budget's {budget_s:.0f} s")
        return _Made([(*found.trials, *beside)], found.efficiency)

    def _in_blocks(self, known: Array, beside: tuple[int, ...], sizes: Sequence[int]) -> _Made:
        settings = self.situation.space.settings()[self.candidates.numbers]
        found = exchange_in_blocks(
            self.candidates.rows,
            [Block(size) for size in sizes],
            self.criterion,
            self.rng,
            variance_ratio=BLOCK_VARIANCE,
            settings=settings if self.situation.space.hard_to_change else None,
            information=known,
            starts=self._starts,
        )
        blocks = [found.blocks[index] for index in self.rng.permutation(len(found.blocks))]
        if beside and self.situation.space.hard_to_change:
            blocks.append(beside)  # each of its settings becomes a group of its own
        elif beside:
            blocks[-1] += beside
        self.told += self._told_blocks(len(blocks))
        return _Made(blocks, found.efficiency)

    def _seconds(self) -> Array | None:
        """What trials take, where time is all that bounds them."""
        seconds, plan = self.situation.seconds, self.plan
        grouped = plan.design.blocks is not None or self.situation.space.hard_to_change
        if seconds is None or plan.budget.trials is not None or plan.design.trials is not None or grouped:
            return None
        return seconds[self.candidates.numbers]

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
        levels = 1 + sum(len(factor.levels) - 1 for factor in hard_to_change(self.plan))
        return max(1, min(2 * levels, math.ceil(trials / 2)))

    def _told_blocks(self, count: int) -> Iterator[str]:
        if hard := self.situation.space.hard_to_change:
            names = " and ".join(hard)
            verb = "are" if len(hard) > 1 else "is"
            yield f"{names} {verb} set once for each of {count} groups of trials"
        else:
            yield f"in {count} blocks, each of which may be faster or slower than the others"


def _told_known(situation: Situation) -> Iterator[str]:
    """What earlier runs say of the laws, and is counted as known."""
    for law in situation.composite.laws:
        if situation.beliefs[law.variable].known is not None:
            names = " and ".join(prior.path.parent.name for prior in law.priors)
            yield f"what {names} found of {law.variable} counts as known"


def usual_trials(situation: Situation) -> int:
    """Trials that inform, where neither the design nor a budget says how many."""
    from insitu.orchestrator.design.sequential import LEAST_DF

    return 2 * max(len(law.parameters) for law in situation.composite.laws) + LEAST_DF


def _as_good(efficiency: float) -> str:
    """How near the best that any design could be it comes; empty where no design tells everything."""
    share = math.floor(1000 * efficiency) / 10
    return f": at least {share:g} % as good per trial as any design could be" if share else ""
