"""Least squares with parameters held within bounds, and intervals that stay honest where a bound was met.

Rates and costs are not negative, and a law that knows it fits better from few trials. But where a parameter
stopped at its bound, the ordinary interval takes it for known, as if the bound had been measured. Two intervals
are given, therefore, and they differ only where a parameter stopped:

`settled`
    Of the law without the parameters that stopped, as if they were known to be where they are: what others print
    beside such a fit. It is right if the truth is at the bound, or so far from it that no fit stops there.
    Between the two it is too short: of a line whose true slope is half a standard error above its bound of zero,
    the 95 % interval holds the slope 69 times in 100.
`guarded`
    Of the whole law, as if there were no bounds, and then without the values that the bounds exclude. Wherever the
    truth is within the bounds, it holds it as often as it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.at_scale.triangle import LinearFit, Triangle, triangle_of


class Side(Enum):
    """Where a parameter stopped."""

    LOW = "at its lower bound"
    FREE = "within its bounds"
    HIGH = "at its upper bound"


@dataclass(frozen=True, slots=True)
class Interval:
    """Values from `low` to `high`; either may be infinite."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """A parameter, a mean or a new trial under a bounded law.

    Attributes
    ----------
    settled, guarded
        See the module.
    possible
        What the bounds leave of the mean, whatever the data say; a new trial's noise may go beyond it.
    contradicted
        Whether the data, by themselves, exclude all of `possible`: the bounds or the law are wrong.
    """

    value: float
    settled: Interval
    guarded: Interval
    possible: Interval
    contradicted: bool

    @property
    def impossible_part(self) -> str:
        """What of the `settled` interval the bounds exclude, in words; empty if nothing."""
        parts = []
        if self.settled.low < self.possible.low:
            parts.append(f"below {self.possible.low:g}")
        if self.settled.high > self.possible.high:
            parts.append(f"above {self.possible.high:g}")
        return " and ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedFit:
    """A law's fit within bounds.

    Attributes
    ----------
    values
        Shape (p,).
    sides
        Which parameters stopped at a bound.
    inverse_gram
        Of the law without these, shape (p, p); zero in their rows and columns.
    sigma, df
        Residual standard deviation and its degrees of freedom, parameters at a bound not counted.
    low, high
        Bounds, shape (p,).
    unbounded
        The fit of the same trials without bounds.
    """

    names: tuple[str, ...]
    values: Array
    sides: tuple[Side, ...]
    inverse_gram: Array
    sigma: float
    n: int
    df: int
    low: Array
    high: Array
    unbounded: LinearFit

    @property
    def covariance_matrix(self) -> Array:
        """Of the parameters, shape (p, p), those at a bound taken for known."""
        return self.sigma**2 * self.inverse_gram

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Names of the parameters that stopped at a bound."""
        return tuple(name for name, side in zip(self.names, self.sides, strict=True) if side is not Side.FREE)

    def parameter(self, name: str, confidence: float = 0.95) -> BoundedAnswer:
        """A parameter with its intervals."""
        return self.mean(np.array([float(name == other) for other in self.names]), confidence=confidence)

    def mean(self, row: Array, *, offset: float = 0.0, confidence: float = 0.95) -> BoundedAnswer:
        """The mean over many trials at a design row, or any sum of the parameters.

        Parameters
        ----------
        row
            What each parameter is multiplied by, shape (p,).
        offset
            The law's part without any parameter.
        """
        return self._answer(row, offset, confidence, noise=0.0)

    def new_trial(self, row: Array, *, offset: float = 0.0, confidence: float = 0.95) -> BoundedAnswer:
        """One new trial at a design row; arguments as of `mean`."""
        return self._answer(row, offset, confidence, noise=1.0)

    def without_bounds(
        self, row: Array, confidence: float, *, offset: float = 0.0, noise: float = 0.0
    ) -> Interval:
        """What the trials say by themselves of a sum of the parameters, or of a trial where `noise` is one."""
        free = self.unbounded
        spread = free.sigma * math.sqrt(noise + free.leverage(row))
        return _around(float(row @ free.values) + offset, spread, free.df, confidence)

    def _answer(self, row: Array, offset: float, confidence: float, noise: float) -> BoundedAnswer:
        value = float(row @ self.values) + offset
        whole = self.without_bounds(row, confidence, offset=offset, noise=noise)
        spread = self.sigma * math.sqrt(noise + float(row @ self.inverse_gram @ row))
        possible = _reach(row, self.low, self.high, offset)
        apart = whole.high < possible.low or whole.low > possible.high
        if noise:
            guarded = whole
        else:
            guarded = Interval(max(whole.low, possible.low), min(whole.high, possible.high))
            guarded = Interval(value, value) if apart else guarded
        return BoundedAnswer(
            value=value,
            settled=_around(value, spread, self.df, confidence),
            guarded=Interval(min(guarded.low, value), max(guarded.high, value)),
            possible=possible,
            contradicted=apart,
        )


def fit_bounded(triangle: Triangle, low: Array, high: Array, names: Sequence[str], outcome: str) -> BoundedFit:
    """Fit a law that is linear in its parameters, each within its bounds.

    Parameters
    ----------
    triangle
        The trials; from `Triangle.with_rows`, a `RecursiveFit` or a table.
    low, high
        Bounds in base units, shape (p,); infinite where there is none.
    names, outcome
        Of the parameters and of the law's variable, for messages.

    Raises
    ------
    InputError
        If a lower bound is not below its upper one.
    NotIdentified
        If there are too few trials, or they cannot tell some parameters apart.

    Notes
    -----
    The best point is found by the active-set method of Stark and Parker, *Bounded-variable least-squares: an
    algorithm and applications*, Computational Statistics 10, 1995, of which non-negative least squares is a
    special case.
    """
    for name, least, most in zip(names, low, high, strict=True):
        if not least < most:
            raise InputError(f"{name} must be at least {least:g} and at most {most:g}, which leaves it no room")
    unbounded = triangle.fitted(names, outcome)
    size = triangle.parameters
    factor, target = triangle.factor[:size, :size], triangle.factor[:size, size]
    scales = np.linalg.norm(factor, axis=0)
    sides = _sides(factor / scales, target, low * scales, high * scales)
    at_low, free, at_high = (np.array([side is one for side in sides]) for one in Side)
    values = np.select([at_low, at_high], [low, high], 0.0)
    inverse_gram = np.zeros((size, size))
    if free.any():  # once more without the others, for all digits
        part = triangle_of(np.column_stack([factor[:, free], target - factor[:, ~free] @ values[~free]]))
        root = np.linalg.inv(part[:-1, :-1] / scales[free]) / scales[free, None]
        values[free] = root @ part[:-1, -1]
        inverse_gram[np.ix_(free, free)] = root @ root.T
    df = triangle.n - int(free.sum())
    squares = float(triangle.factor[size, size]) ** 2 + float(((factor @ values - target) ** 2).sum())
    return BoundedFit(
        names=tuple(names),
        values=np.clip(values, low, high),
        sides=sides,
        inverse_gram=inverse_gram,
        sigma=math.sqrt(squares / df),
        n=triangle.n,
        df=df,
        low=low,
        high=high,
        unbounded=unbounded,
    )


def _sides(factor: Array, target: Array, low: Array, high: Array) -> tuple[Side, ...]:
    """Where each parameter stops at the point of the box that is best; columns are of length one."""
    from scipy.optimize import lsq_linear

    found = lsq_linear(factor, target, (low, high), method="bvls", max_iter=100 * len(target))
    if found.status < 1:
        raise ArithmeticError(f"the best parameters within their bounds were not found: {found.message}")
    return tuple({-1: Side.LOW, 0: Side.FREE, 1: Side.HIGH}[int(mask)] for mask in found.active_mask)


def _around(value: float, spread: float, df: int, confidence: float) -> Interval:
    from scipy import stats

    half = float(stats.t.ppf((1 + confidence) / 2, df)) * spread
    return Interval(value - half, value + half)


def _reach(row: Array, low: Array, high: Array, offset: float) -> Interval:
    """Least and largest mean within the bounds."""
    cells = row[row != 0]
    ends = np.stack([cells * low[row != 0], cells * high[row != 0]])
    return Interval(float(ends.min(axis=0).sum()) + offset, float(ends.max(axis=0).sum()) + offset)
