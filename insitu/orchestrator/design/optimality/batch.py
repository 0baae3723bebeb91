"""The next trials to run, given what those so far have told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.continuous import Split, split
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.exchange import apportioned
from insitu.orchestrator.design.optimality.information import Coordinates, information_of, inverse, stacked
from insitu.orchestrator.design.optimality.knowledge import Knowledge
from insitu.orchestrator.design.optimality.precision import Precision, precision_of
from insitu.orchestrator.design.optimality.search import SMALLEST_GAIN, Integers

_MOST_PASSES = 20
_NEAR = 200
"""Candidates nearest to being taken for a trial, which are looked at again before all others are."""
_BOUND_WITHIN = 0.02
_POOR = 0.8
"""Efficiency at which the best split is rounded, too."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The next trials.

    Attributes
    ----------
    trials
        Candidate of each.
    cost
        Of all together: their number, or what they cost.
    precision
        After them.
    efficiency
        Share of all trials, those so far included, that would do, had the new ones been split as `best_possible`
        says: a lower bound.
    """

    trials: tuple[int, ...]
    cost: float
    precision: Precision
    efficiency: float


def next_batch(
    rows: Array,
    trials: int,
    criterion: Criterion,
    *,
    information: Array | None = None,
    costs: Array | None = None,
) -> Batch:
    """Choose the next trials: those that tell most, or, with `costs`, most per second.

    Nothing here is random: the same candidates and information give the same trials.

    Parameters
    ----------
    rows
        Candidates, shape (m, p), or (m, k, p) where a trial informs by k rows.
    trials
        How many to choose.
    information
        Of the trials so far, shape (p, p).
    costs
        Seconds that a trial of each takes, set-up included; shape (m,), positive.

    Raises
    ------
    ValueError
        If there are no trials to choose, or a cost is not positive.

    Notes
    -----
    One after the other those with the largest gain (Wynn, Annals of Mathematical Statistics 41 (1970), 1655-1664),
    then exchanged against each other's effect.
    """
    stack = stacked(rows)
    prices = np.ones(len(stack)) if costs is None else np.asarray(costs, dtype=float)
    if trials < 1 or prices.shape != (len(stack),) or not (prices > 0).all():
        raise ValueError("there must be a trial to choose, and the cost of each candidate must be positive")
    space = Coordinates.of(stack, information)
    market = _Market(space, criterion.mapped(space.transform), prices)

    def described(chosen: list[int]) -> Batch:
        cost = float(prices[chosen].sum())
        precision = precision_of(stack[chosen].reshape(-1, stack.shape[2]), information, criterion)
        best = market.split(cost, chosen if precision.is_whole else [])
        bound = space.value(criterion, best.floor)
        return Batch(tuple(chosen), cost, precision, criterion.efficiency(precision.value, bound, stack.shape[2]))

    batch = described(market.exchanged(market.greedy(trials)))
    if batch.efficiency > _POOR:
        return batch
    # a contrast may need several trials before any of them tells of it; the best split has them all
    shares = market.split(batch.cost, []).shares
    rounded = market.exchanged(market.rounded(shares, trials))
    return described(rounded) if market.rate(rounded) > market.rate(batch.trials) else batch


class _Nearest:
    """Candidates that came nearest to being taken."""

    def __init__(self) -> None:
        self._found: list[Integers] = []

    def look(self, rates: Array) -> None:
        """Remember those with the highest rates, of shape (m,)."""
        self._found.append(np.argpartition(rates, -min(_NEAR, len(rates)))[-_NEAR:])

    def with_trials(self, chosen: Sequence[int]) -> Integers:
        """They and the chosen ones, rising."""
        return np.unique(np.concatenate([*self._found, np.array(chosen)]))


class _Market:
    """Candidates at their prices, and what information they are in want of."""

    def __init__(self, space: Coordinates, criterion: Criterion, prices: Array) -> None:
        self._space = space
        self._criterion = criterion
        self._prices = prices

    def greedy(self, trials: int) -> list[int]:
        """The trials that tell most for their price, one after the other, exchanged among those that came near."""
        knowledge = Knowledge.of(self._space.rows, self._space.information, self._criterion)
        chosen: list[int] = []
        near = _Nearest()
        for _ in range(trials):
            before = self._criterion.loss(knowledge.covariance)
            rates = self._criterion.gains(before, knowledge.losses(self._criterion)) / self._prices
            near.look(rates)
            chosen.append(int(np.argmax(rates)))
            knowledge = knowledge.with_trial(self._space.rows[chosen[-1]])
        return self._settled(chosen, near.with_trials(chosen), self._criterion.softened(), self._criterion)

    def rounded(self, shares: Array, trials: int) -> list[int]:
        """Whole trials for the shares of a split, exchanged among the candidates that have one."""
        chosen = apportioned(shares / self._prices, trials).tolist()
        return self._settled(chosen, np.flatnonzero(shares), self._criterion.softened(), self._criterion)

    def exchanged(self, start: Sequence[int]) -> list[int]:
        """Exchange until the batch's gain for its price does not grow."""
        chosen = list(start)
        for _ in range(_MOST_PASSES):
            near = _Nearest()
            if not self._pass(chosen, self._criterion, near):
                break
            chosen = self._settled(chosen, near.with_trials(chosen), self._criterion)
        return chosen

    def _settled(self, start: Sequence[int], few: Integers, *criteria: Criterion) -> list[int]:
        """Exchange among a few candidates, rising, until nothing helps for one criterion after the other."""
        market = _Market(replace(self._space, rows=self._space.rows[few]), self._criterion, self._prices[few])
        chosen = np.searchsorted(few, start).tolist()
        for criterion in dict.fromkeys(criteria):
            for _ in range(_MOST_PASSES):
                if not market._pass(chosen, criterion):
                    break
        settled = few[chosen].tolist()
        return settled if self.rate(settled) > self.rate(start) else list(start)

    def _pass(self, chosen: list[int], criterion: Criterion, near: _Nearest | None = None) -> bool:
        """Exchange each trial once, in place, where the gain for the price grows; whether anything changed."""
        begin = criterion.loss(inverse(self._space.information))
        knowledge, rate = self._knowledge(chosen, criterion), self.rate(chosen, criterion)
        before = list(chosen)
        for place, candidate in enumerate(chosen):
            losses = knowledge.losses(criterion, leaving=self._space.rows[candidate])
            costs = float(self._prices[chosen].sum()) - self._prices[candidate] + self._prices
            rates = criterion.gains(begin, losses) / costs
            if near is not None:
                near.look(rates)
            best = int(np.argmax(rates))
            least = rate + SMALLEST_GAIN * min(1.0 / costs[best], rate)
            if rates[best] > least:
                tried = [*chosen[:place], best, *chosen[place + 1 :]]
                reached = self.rate(tried, criterion)
                if reached > least:  # what was foreseen may be rounding, where a trial is needed
                    chosen[place], rate = best, reached
                    knowledge = self._knowledge(chosen, criterion)
        return chosen != before

    def rate(self, chosen: Sequence[int], criterion: Criterion | None = None) -> float:
        """Gain of trials for their price."""
        judge = criterion or self._criterion
        begin, end = (judge.loss(inverse(self._information(trials))) for trials in ([], list(chosen)))
        return float(judge.gains(begin, np.array(end))) / float(self._prices[list(chosen)].sum())

    def split(self, budget: float, near: Sequence[int]) -> Split:
        """The best split of a budget, looked for from the shares that some trials have."""
        spent = np.zeros(len(self._prices))
        np.add.at(spent, list(near), self._prices[list(near)])
        start = spent if len(near) else None
        return split(self._space, budget, self._criterion, self._prices, start=start, tolerance=_BOUND_WITHIN)

    def _information(self, chosen: list[int]) -> Array:
        information: Array = self._space.information + information_of(self._space.rows[chosen])
        return information

    def _knowledge(self, chosen: list[int], criterion: Criterion) -> Knowledge:
        return Knowledge.of(self._space.rows, self._information(chosen), criterion)
