"""How well a law foretold the trials that it was later fitted to: each by a fit of those before it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.plan.law_kinds import Link, Method

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

MOST = 1000
"""Trials that are foretold at most, the last ones: the record of old ones says little of the next."""
MOST_REFITS = 30
"""Likewise, of a law that has to be fitted anew for each, since it is not linear in its parameters."""


@dataclass(frozen=True, slots=True)
class PastErrors:
    """What became of a law's earlier predictions.

    Attributes
    ----------
    law
        The variable that it gives.
    predictions
        Trials that were foretold; the first ones are needed to fit a law at all.
    within
        How many of them came to lie in their prediction intervals.
    typical
        Median of their errors, relative to what was measured; ``nan`` without any.
    """

    law: str
    confidence: float
    predictions: int
    within: int
    typical: float

    @property
    def chance(self) -> float:
        """Probability of so few within, if the intervals are right."""
        from scipy.special import bdtr

        return float(bdtr(self.within, self.predictions, self.confidence)) if self.predictions else 1.0


@dataclass(frozen=True, slots=True)
class _Foretold:
    """One trial: in the space in which errors are added, that is the logarithm under a log link."""

    index: int
    error: float
    half_width: float
    relative: float


def past_errors(fit: Fit, law: Law) -> PastErrors:
    """Predict each trial from those before it, in the order of execution.

    Notes
    -----
    Of a law that is linear in its parameters by recursive least squares: Brown, Durbin and Evans, Techniques for
    Testing the Constancy of Regression Relationships over Time (1975), equations 2 to 5. A law of a quantile
    foretells no single trial.
    """
    if law.method is Method.QUANTILE or not fit.points:
        return PastErrors(law.variable, fit.confidence, 0, 0, math.nan)
    found = list(_recursive(fit, law) if law.linear else _refitted(fit, law))
    within = sum(abs(one.error) <= one.half_width for one in found)
    typical = float(np.median([one.relative for one in found])) if found else math.nan
    return PastErrors(law.variable, fit.confidence, len(found), within, typical)


def levels_of(fit: Fit, names: tuple[str, ...]) -> dict[str, Array]:
    """Levels of some variables in each fitted trial, each of shape (n,)."""
    return {name: np.array([point.levels[name] for point in fit.points]) for name in names}


def _recursive(fit: Fit, law: Law) -> Iterator[_Foretold]:
    """Recursive least squares, weighted where the spread is relative; in logarithms under a log link."""
    levels = levels_of(fit, law.parents)
    observed = np.array([point.observed for point in fit.points])
    logarithmic = law.link is Link.LOG
    response = (np.log(observed) if logarithmic else observed) - law.offsets(levels)
    rows = law.design_matrix(levels)
    spread = np.ones(len(rows))
    if law.relative_noise and not logarithmic:
        spread = np.abs([point.predicted for point in fit.points])
    lengths = np.linalg.norm(rows / spread[:, None], axis=0)
    rows, response = rows / spread[:, None] / lengths, response / spread
    begin = max(_first_full_rank(rows), len(rows) - MOST)
    solution, _, _, _ = np.linalg.lstsq(rows[:begin], response[:begin], rcond=None)
    inverse = np.linalg.pinv(rows[:begin].T @ rows[:begin])
    squares = float(np.sum((response[:begin] - rows[:begin] @ solution) ** 2))
    quantiles = _Quantiles(fit.confidence)
    for index in range(begin, len(rows)):
        row = rows[index]
        gain = inverse @ row
        room = 1.0 + float(row @ gain)
        error = float(response[index] - row @ solution)
        df = index - rows.shape[1]
        half = quantiles.of(df) * math.sqrt(squares / df * room)
        relative = math.expm1(-error) if logarithmic else error * spread[index] / observed[index]
        yield _Foretold(index, error, half, abs(relative))
        solution = solution + gain * (error / room)
        inverse = inverse - np.outer(gain, gain) / room
        squares += error**2 / room


def _first_full_rank(rows: Array) -> int:
    """The least number of trials that fit the law and leave a degree of freedom; all of them if none do."""
    n, size = len(rows), rows.shape[1]
    for count in range(size + 1, n):
        if np.linalg.matrix_rank(rows[:count], tol=1e-9) == size:
            return count
    return n


def _refitted(fit: Fit, law: Law) -> Iterator[_Foretold]:
    """Least squares anew before each trial, from the estimates so far."""
    from scipy.optimize import least_squares

    levels = levels_of(fit, law.parents)
    observed = np.array([point.observed for point in fit.points])
    spread = np.ones(len(observed))
    if law.relative_noise:
        spread = np.abs([point.predicted for point in fit.points])
    size = len(law.parameters)
    low = np.array([law.bounds[name].low if name in law.bounds else -np.inf for name in law.parameters])
    high = np.array([law.bounds[name].high if name in law.bounds else np.inf for name in law.parameters])
    values = fit.values
    scale = np.where(values == 0, 1.0, np.abs(values))
    quantiles = _Quantiles(fit.confidence)
    start = np.clip(values, low, high)
    for index in range(max(size + 2, len(observed) - MOST_REFITS), len(observed)):
        before = {name: column[:index] for name, column in levels.items()}

        def residuals(scaled: Array, before: dict[str, Array] = before, index: int = index) -> Array:
            return np.asarray((law.mean(scaled * scale, before) - observed[:index]) / spread[:index])

        def slopes(scaled: Array, before: dict[str, Array] = before, index: int = index) -> Array:
            return np.asarray(law.gradient(scaled * scale, before) * scale / spread[:index, None])

        try:
            found = least_squares(
                residuals, start / scale, jac=slopes, bounds=(low / scale, high / scale), max_nfev=30
            )
        except ValueError:  # not finite at the start: these trials say nothing yet
            continue
        here = {name: column[index : index + 1] for name, column in levels.items()}
        error = float((observed[index] - law.mean(found.x * scale, here)[0]) / spread[index])
        row = law.gradient(found.x * scale, here)[0] * scale / spread[index]
        df = index - size
        inverse = np.linalg.pinv(found.jac.T @ found.jac)
        half = quantiles.of(df) * math.sqrt(2 * found.cost / df * (1 + float(row @ inverse @ row)))
        yield _Foretold(index, error, half, abs(error * spread[index] / observed[index]))


class _Quantiles:
    """Student's t for rising degrees of freedom."""

    def __init__(self, confidence: float) -> None:
        self._share = (1 + confidence) / 2

    def of(self, df: int) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(df, self._share))
