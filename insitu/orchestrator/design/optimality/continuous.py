"""The best that any design could do: shares of a budget instead of whole trials, and proof of how near they are.

A design of whole trials cannot be better than the best split of a budget among the candidates. The loss is convex
in that split, so every split tells, by its gradient, a loss that none goes below; the search ends when it is at
that floor. This is the equivalence theorem put to use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.criteria import Criterion, WorstVariance
from insitu.orchestrator.design.optimality.information import Coordinates, applied, inverse, stacked

_MOST_ROUNDS = 200
_NEWTON_STEPS = 20
_WEIGHINGS = 40
_SMALLEST_SHARE = 1e-12
_SUFFICIENT = 1e-4
_SOFTENING = 1e-10
_MORE_KNOWN = (1e-5, 1e-4, 1e-3)
"""Trials' worth of the mean candidate that are taken as known where a floor is not found otherwise."""


@dataclass(frozen=True, slots=True)
class BestPossible:
    """A split of the budget among the candidates that is as good as can be, but for `shortfall`.

    Attributes
    ----------
    candidates
        Those with a share, rising.
    shares
        Of the budget, beside `candidates`; they sum to one.
    value
        The criterion at this split, or minus infinity or infinity if it leaves open what is asked for.
    bound
        A value that no design of this budget can better.
    shortfall
        By how much the split may fall short of the bound, as a share of the budget.
    """

    candidates: tuple[int, ...]
    shares: tuple[float, ...]
    value: float
    bound: float
    shortfall: float


def best_possible(
    rows: Array,
    budget: float,
    criterion: Criterion,
    *,
    information: Array | None = None,
    costs: Array | None = None,
    tolerance: float = 1e-4,
) -> BestPossible:
    """Find the best split of a budget.

    Parameters
    ----------
    rows
        Candidates, shape (m, p), or (m, k, p) where a trial informs by k rows.
    budget
        Trials; with `costs`, their sum.
    information
        What is known already, shape (p, p).
    costs
        Of one trial of each candidate, shape (m,), positive.
    tolerance
        Shortfall at which to stop looking.

    Raises
    ------
    ValueError
        If the budget or a cost is not positive, or an array has the wrong shape.

    Notes
    -----
    Newton's method on the candidates with a share, to which those that would improve the split most are added
    from round to round. The floor is the one of Kiefer and Wolfowitz, Canadian Journal of Mathematics 12 (1960),
    363-366, for all parameters, and follows from the inequality of Cauchy and Schwarz for variances.
    """
    stack = stacked(rows)
    space = Coordinates.of(stack, information)
    found = split(space, budget, criterion.mapped(space.transform), costs, tolerance=tolerance)
    chosen = np.flatnonzero(found.shares)
    return BestPossible(
        candidates=tuple(chosen.tolist()),
        shares=tuple(found.shares[chosen].tolist()),
        value=space.value(criterion, found.loss),
        bound=space.value(criterion, found.floor),
        shortfall=found.shortfall,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A split of the budget in the searches' coordinates.

    Attributes
    ----------
    shares
        Shape (m,), summing to one.
    loss, floor
        Of this split, and the one that no design of the budget goes below.
    """

    shares: Array
    loss: float
    floor: float
    shortfall: float

    def above(self, criterion: Criterion, floor: float, parameters: int) -> Split:
        """The split, with a floor that is not below another one."""
        floor = max(self.floor, floor)
        efficiency = criterion.efficiency(criterion.value(self.loss), criterion.value(floor), parameters)
        return replace(self, floor=floor, shortfall=max(0.0, 1 - efficiency))


def split(
    space: Coordinates,
    budget: float,
    criterion: Criterion,
    costs: Array | None = None,
    *,
    start: Array | None = None,
    tolerance: float = 1e-4,
) -> Split:
    """Find the best split of a budget, for a criterion in the coordinates of `space`.

    Parameters
    ----------
    start
        Shares to start from, shape (m,); a few of the candidates if ``None``.

    Raises
    ------
    ValueError
        If the budget or a cost is not positive.
    """
    prices = np.ones(len(space.rows)) if costs is None else np.asarray(costs, dtype=float)
    if not budget > 0 or prices.shape != (len(space.rows),) or not (prices > 0).all():
        raise ValueError("the budget, and the cost of each candidate, must be positive")
    # a share of the budget buys this many rows' worth of a candidate
    problem = _Problem(space.rows * np.sqrt(budget / prices)[:, None, None], space.information)
    shares = problem.start() if start is None else start / start.sum()
    if isinstance(criterion, WorstVariance):
        return _worst_split(problem, criterion, shares, tolerance)
    return _split(problem, criterion, shares, tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Rows that the whole budget would buy of each candidate, shape (m, k, q), and what is known, (q, q)."""

    rows: Array
    information: Array

    def covariance(self, shares: Array, chosen: NDArray[np.int64]) -> Array:
        rows = (self.rows[chosen] * np.sqrt(shares)[:, None, None]).reshape(-1, self.rows.shape[2])
        return inverse(self.information + rows.T @ rows)

    def slopes(self, gradient: Array) -> Array:
        """Fall of the loss per share of each candidate, shape (m,)."""
        slopes: Array = np.einsum("mkq,mkq->m", applied(self.rows, gradient), self.rows)
        return slopes

    def start(self) -> Array:
        """Equal shares of candidates that are long, and of which none is near the span of the others."""
        left = self.rows.reshape(len(self.rows), -1, self.rows.shape[2]).copy()
        shares = np.zeros(len(left))
        for _ in range(left.shape[2]):
            lengths = np.einsum("mkq,mkq->mk", left, left)
            trial, row = np.unravel_index(int(np.argmax(lengths)), lengths.shape)
            shares[trial] += 1
            direction = left[trial, row] / max(float(np.sqrt(lengths[trial, row])), 1e-300)
            left -= (left @ direction)[:, :, None] * direction
        equal: Array = shares / shares.sum()
        return equal


def _split(problem: _Problem, criterion: Criterion, shares: Array, tolerance: float) -> Split:
    """The best split, and a floor that holds even where a direction that nobody asks for is left unknown.

    There the floor of the split itself says little: shares too small to matter decide what the gradient is. The
    floor of a problem in which a little more is known lies a little lower, and is a floor all the same.
    """
    found = _descended(problem, criterion, shares, tolerance)
    for more in _MORE_KNOWN:
        if found.shortfall <= tolerance:
            break
        eased = replace(problem, information=problem.information + more * np.eye(problem.rows.shape[2]))
        lower = _descended(eased, criterion, found.shares, tolerance)
        found = found.above(criterion, lower.floor, problem.rows.shape[2])
    return found


def _descended(problem: _Problem, criterion: Criterion, shares: Array, tolerance: float) -> Split:
    size = problem.rows.shape[2]
    found = Split(shares, math.inf, -math.inf, 1.0)
    for _ in range(_MOST_ROUNDS):
        chosen = np.flatnonzero(shares)
        covariance = problem.covariance(shares[chosen], chosen)
        loss, gradient = criterion.loss(covariance), criterion.gradient(covariance)
        slopes = problem.slopes(gradient)
        gained = float(np.sum(gradient * problem.information)) + float(slopes.max())
        found = Split(shares, loss, found.floor, 1.0).above(criterion, criterion.floor(loss, gained, size), size)
        if found.shortfall <= tolerance:
            break
        steepest = np.argpartition(slopes, max(0, len(slopes) - size))[-size:]
        fresh = steepest[slopes[steepest] > slopes[chosen] @ shares[chosen]]
        chosen = np.union1d(chosen, fresh)
        better = np.zeros(len(shares))
        better[chosen] = _newton(problem, criterion, chosen, shares[chosen], 0.1 * (loss - found.floor))
        if np.array_equal(better, shares):
            break
        shares = better
    return found


def _newton(
    problem: _Problem, criterion: Criterion, chosen: NDArray[np.int64], shares: Array, enough: float
) -> Array:
    """Better shares of the `chosen` candidates: a step, and more while they promise to fall by over `enough`."""
    covariance = problem.covariance(shares, chosen)
    loss = criterion.loss(covariance)
    for taken in range(_NEWTON_STEPS):
        step = _newton_step(problem.rows[chosen], criterion, covariance, shares)
        if step.promised <= (enough if taken else 0.0):
            break
        shrinking = step.change < 0
        length = min(1.0, float((shares[shrinking] / -step.change[shrinking]).min(initial=np.inf)))
        while length > _SMALLEST_SHARE:
            tried = shares + length * step.change
            tried[tried < _SMALLEST_SHARE] = 0.0
            tried /= tried.sum()
            covariance = problem.covariance(tried, chosen)
            reached = criterion.loss(covariance)
            if reached <= loss - _SUFFICIENT * length * step.promised:
                break
            length /= 2
        else:
            break
        shares, loss = tried, reached
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A change of shares that sums to zero, and by how much the loss would fall were it linear."""

    change: Array
    promised: float


def _newton_step(rows: Array, criterion: Criterion, covariance: Array, shares: Array) -> _Step:
    """Newton's step, in which no share that is zero falls."""
    trials, each, size = rows.shape
    flat = rows.reshape(-1, size)
    steepness = flat @ criterion.gradient(covariance) @ flat.T
    products = (flat @ covariance @ flat.T) * steepness
    hessian = criterion.curvature * products.reshape(trials, each, trials, each).sum(axis=(1, 3))
    slopes = np.diag(steepness).reshape(trials, each).sum(axis=1)
    free = np.ones(trials, dtype=bool)
    while True:
        block = hessian[np.ix_(free, free)]
        block = block + np.eye(len(block)) * (_SOFTENING * np.trace(block) / len(block))
        solved = np.linalg.solve(block, np.column_stack([slopes[free], np.ones(len(block))]))
        level = solved[:, 0].sum() / solved[:, 1].sum()
        change = np.zeros(trials)
        change[free] = solved[:, 0] - level * solved[:, 1]
        stuck = free & (shares == 0) & (change < 0)
        if not stuck.any():
            return _Step(change, float(slopes @ change))
        free &= ~stuck


def _worst_split(problem: _Problem, criterion: WorstVariance, shares: Array, tolerance: float) -> Split:
    """The split for the worst of several variances, by that for their mean with the least favourable weights."""
    count = criterion.combinations.shape[1]
    weights = np.full(count, 1 / count)
    best = Split(shares, math.inf, -math.inf, 1.0)
    for _ in range(_WEIGHINGS):
        near = max(tolerance, best.shortfall / 4) / 2  # no nearer than the weights are to the least favourable
        mean = _split(problem, criterion.weighted(weights), best.shares, near)
        chosen = np.flatnonzero(mean.shares)
        variances = criterion.variances(problem.covariance(mean.shares[chosen], chosen))
        if variances.max() < best.loss:
            best = replace(best, shares=mean.shares, loss=float(variances.max()))
        best = best.above(criterion, mean.floor, problem.rows.shape[2])
        if best.shortfall <= tolerance:
            break
        # were each share spent on one of them, a variance would fall as the root of its weight
        weights = weights * variances**2 / (weights @ variances**2)
    return best
