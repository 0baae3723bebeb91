"""From a table of draws to an estimate with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array

MOST_COLUMNS, FEWEST_COLUMNS = 1000, 200
"""Draws of the parameters: enough for the ends of an interval."""
_ROWS_PER_TAIL = 20
"""Draws of the noise that have to lie beyond a quantile, for each draw of the parameters."""
_FEWEST_ROWS = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """So many draws of the noise for each of so many draws of the parameters."""

    rows: int
    columns: int


def shape_for(draws: int, quantiles: tuple[float, ...] = ()) -> Shape:
    """Divide a number of draws up; there are more of them in the end if quantiles far out need more."""
    rows = max([_FEWEST_ROWS, *(_ROWS_PER_TAIL / min(one, 1 - one) for one in quantiles)])
    columns = int(np.clip(draws // rows, FEWEST_COLUMNS, MOST_COLUMNS))
    rows = max(rows, draws / columns)
    return Shape(4 * int(np.ceil(rows / 4)), columns)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class PerColumn:
    """One number per draw of the parameters, and the same from each half of the noise; all of shape (k,)."""

    whole: Array
    first: Array
    second: Array

    def minus(self, other: PerColumn) -> PerColumn:
        """Difference from another, column by column."""
        return PerColumn(self.whole - other.whole, self.first - other.first, self.second - other.second)

    def scaled(self, factor: float) -> PerColumn:
        """Each number times a factor."""
        return PerColumn(self.whole * factor, self.first * factor, self.second * factor)

    def logarithm(self) -> PerColumn:
        """Logarithm of each number; not a number where there is none."""
        with np.errstate(all="ignore"):
            return PerColumn(np.log(self.whole), np.log(self.first), np.log(self.second))

    def around(self, estimate: float, confidence: float) -> Interval:
        """The estimate with an interval from the spread of the columns, less what the noise adds to it.

        Notes
        -----
        A column's number differs from the others' because of its parameters, and because its noise was drawn only
        so often. The two halves of the noise tell the second part, and the interval is narrowed by it: an analysis
        of variance.
        """
        between = float(np.var(self.whole))
        by_noise = float(np.mean((self.first - self.second) ** 2)) / 4
        kept = math.sqrt(max(0.0, 1 - by_noise / between)) if between > 0 else 0.0
        tail = (1 - confidence) / 2
        low, middle, high = map(float, np.quantile(self.whole, [tail, 0.5, 1 - tail]))
        return Interval(estimate, estimate + kept * (low - middle), estimate + kept * (high - middle))


def means(draws: Array) -> PerColumn:
    """Mean of each column of a table whose rows come in pairs, shape (rows, k)."""
    halves = _halves(draws)
    first, second = halves[0].mean(axis=0), halves[1].mean(axis=0)
    return PerColumn((first + second) / 2, first, second)


def quantiles(draws: Array, share: float) -> PerColumn:
    """Quantile of each column."""
    first, second = (np.quantile(half, share, axis=0) for half in _halves(draws))
    return PerColumn(np.quantile(draws, share, axis=0), first, second)


def _halves(draws: Array) -> tuple[Array, Array]:
    """Two halves of the rows that leave pairs together: a row and the one half the table below it."""
    rows, columns = draws.shape
    pairs = draws.reshape(2, rows // 2, columns)
    middle = rows // 4
    return pairs[:, :middle].reshape(-1, columns), pairs[:, middle:].reshape(-1, columns)
