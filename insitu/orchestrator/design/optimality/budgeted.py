"""Exact designs within a budget of seconds: candidates differ in what a trial of them costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.continuous import split
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.exchange import NO_TRIAL, STARTS, ExactDesign, exact_design
from insitu.orchestrator.design.optimality.information import Coordinates, stacked
from insitu.orchestrator.design.optimality.knowledge import Knowledge
from insitu.orchestrator.design.optimality.search import Progress

_ROUNDING = 1e-9
_MOST_PASSES = 100


def exchange_within(
    rows: Array,
    costs: Array,
    budget: float,
    criterion: Criterion,
    rng: np.random.Generator,
    *,
    information: Array | None = None,
    starts: int = STARTS,
) -> ExactDesign:
    """Choose trials among candidates, as many as the budget allows.

    Parameters
    ----------
    rows
        Candidates, shape (m, p), or (m, k, p) where a trial informs by k rows.
    costs
        Seconds that a trial of each takes, set-up included; shape (m,), positive.
    budget
        Seconds for all trials together.
    information
        Of the trials that exist already, shape (p, p).

    Raises
    ------
    ValueError
        If a cost is not positive, or the budget is too small for any trial.

    Notes
    -----
    A trial is exchanged for the best that can be paid, or for as many as can be paid of those that tell most per
    second: an excursion of the kind that Harman, Bachratá and Filová make, Applied Stochastic Models in Business
    and Industry 32 (2016), 3-17.
    """
    stack, prices = stacked(rows), np.asarray(costs, dtype=float)
    space = Coordinates.of(stack, information)
    target = criterion.mapped(space.transform)
    best_split = split(space, budget, target, prices)
    if prices.min() > budget * (1 + _ROUNDING):
        raise ValueError(f"no trial can be paid with {budget} s")
    shop = _Shop(space, target, prices, budget)
    best = shop.climb(shop.rounded(best_split.shares))
    for start in range(1, starts):
        drawn = shop.random(rng, best_split.shares if start % 2 else None)
        climbed = shop.climb(drawn if start > 1 else [])  # from nothing, it buys what tells most per second
        if shop.progress.is_better(best.loss, climbed.loss):
            best = climbed
    bound = space.value(criterion, best_split.floor)
    return exact_design(stack, best.trials, information, criterion, bound, costs=prices)


@dataclass(frozen=True, slots=True, eq=False)
class _Basket:
    """Chosen candidates, what is known after them, and what is left of the budget."""

    trials: tuple[int, ...]
    knowledge: Knowledge
    left: float
    loss: float


class _Shop:
    """Trials at their prices."""

    def __init__(self, space: Coordinates, criterion: Criterion, prices: Array, budget: float) -> None:
        self._space = space
        self._criterion = criterion
        self._prices = prices
        self._budget = budget
        self.progress = Progress.of(criterion, space.information)

    def rounded(self, shares: Array) -> list[int]:
        """Trials by their shares of the budget: one of each candidate, then those of which most is missing."""
        missing = shares * self._budget / self._prices
        wanted = np.flatnonzero(missing > NO_TRIAL)
        left = self._budget * (1 + _ROUNDING)
        trials: list[int] = []
        for one in wanted[np.argsort(-missing[wanted], kind="stable")].tolist():
            if self._prices[one] <= left:
                trials.append(one)
                missing[one] -= 1
                left -= float(self._prices[one])
        while (paid := wanted[self._prices[wanted] <= left]).size:
            trials.append(int(paid[np.argmax(missing[paid])]))
            missing[trials[-1]] -= 1
            left -= float(self._prices[trials[-1]])
        return trials

    def random(self, rng: np.random.Generator, shares: Array | None = None) -> list[int]:
        """Random trials, until one comes that cannot be paid; with `shares`, mostly by those of the budget."""
        likely = np.ones(len(self._prices)) if shares is None else shares / self._prices + 1e-9
        trials: list[int] = []
        spent = 0.0
        while spent + self._prices[one := int(rng.choice(len(likely), p=likely / likely.sum()))] <= self._budget:
            trials.append(one)
            spent += float(self._prices[one])
        return trials

    def climb(self, start: list[int]) -> _Basket:
        """Exchange until nothing helps."""
        if (softened := self._criterion.softened()) is not self._criterion:
            start = list(_Shop(self._space, softened, self._prices, self._budget).climb(start).trials)
        basket = self._afresh(self._filled(self._afresh(tuple(start))).trials)
        for _ in range(_MOST_PASSES):
            before = basket.trials
            basket = self._pass(basket, self._swapped)
            if basket.trials == before:
                basket = self._pass(basket, self._refilled)
            if basket.trials == before:
                break
        return basket

    def _pass(self, basket: _Basket, change: Callable[[_Basket, int], _Basket]) -> _Basket:
        """Change the basket by one trial of each candidate in it, where that helps."""
        for candidate in sorted(set(basket.trials)):
            if candidate not in basket.trials:
                continue
            changed = change(basket, candidate)
            if self.progress.is_better(basket.loss, changed.loss):
                verified = self._afresh(self._filled(changed).trials)
                basket = verified if self.progress.is_better(basket.loss, verified.loss) else basket
        return basket

    def _swapped(self, basket: _Basket, candidate: int) -> _Basket:
        """The basket with the best trial that can be paid for one of a candidate."""
        losses = basket.knowledge.losses(self._criterion, leaving=self._space.rows[candidate])
        left = basket.left + float(self._prices[candidate])
        best = int(np.argmin(np.where(self._prices <= left, losses, np.inf)))
        if not self.progress.is_better(basket.loss, float(losses[best])):
            return basket
        trials = list(basket.trials)
        trials[trials.index(candidate)] = best
        return self._afresh(tuple(trials))

    def _refilled(self, basket: _Basket, candidate: int) -> _Basket:
        """The basket with the trials that tell most per second for one of a candidate."""
        trials = list(basket.trials)
        trials.remove(candidate)
        return self._filled(self._afresh(tuple(trials)))

    def _afresh(self, trials: tuple[int, ...]) -> _Basket:
        """The basket with these trials, without the rounding of many steps."""
        flat = self._space.rows[list(trials)].reshape(-1, self._space.parameters)
        knowledge = Knowledge.of(self._space.rows, self._space.information + flat.T @ flat, self._criterion)
        left = self._budget * (1 + _ROUNDING) - float(self._prices[list(trials)].sum())
        return _Basket(trials, knowledge, left, self._criterion.loss(knowledge.covariance))

    def _filled(self, basket: _Basket) -> _Basket:
        """The basket, with the trials that tell most per second for what is left."""
        while (paid := self._prices <= basket.left).any():
            after = basket.knowledge.losses(self._criterion)
            rates = self._criterion.gains(basket.loss, after) / self._prices
            basket = self._with(basket, int(np.argmax(np.where(paid, rates, -np.inf))))
        return basket

    def _with(self, basket: _Basket, candidate: int) -> _Basket:
        knowledge = basket.knowledge.with_trial(self._space.rows[candidate])
        return _Basket(
            (*basket.trials, candidate),
            knowledge,
            basket.left - float(self._prices[candidate]),
            self._criterion.loss(knowledge.covariance),
        )
