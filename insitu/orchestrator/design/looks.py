"""Intervals that stay true although the trials end when they have become narrow enough."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array

_PATHS = 20_000
_WIDTHS = 60
_SEED = 20_260_101
"""Of the simulation of residual variances; the same in every run, so that an interval is the same, too."""


@dataclass(frozen=True, slots=True)
class Looks:
    """When an experiment looks at its precision.

    Attributes
    ----------
    trials
        Number of trials at each look, rising.
    parameters
        Of the law.
    confidence
        Of the interval at whichever look is the last.
    """

    trials: tuple[int, ...]
    parameters: int
    confidence: float

    @property
    def inflation(self) -> float:
        """What Student's quantile is multiplied by, at every look; 1 where there is one look only.

        Notes
        -----
        An experiment that ends as soon as its interval is narrow ends too early where the residual variance
        happens to look small, so that plain intervals hold the truth less often than they say. The estimate and
        the residual variances of all looks are independent of each other (as long as the choice of levels does not
        depend on the residuals), so that what an interval at the last look covers is the mean of
        ``2 Phi(q s / sigma) - 1``. It depends on the width asked for, relative to the noise. The factor is the
        smallest by which the interval covers what it says at the worst of all widths; it is found on simulated
        residual variances. Stein (1945), Annals of Mathematical Statistics 16:243, has the two-stage case;
        Anscombe (1953), Journal of the Royal Statistical Society B 15:1, the loss of coverage.
        """
        return _inflation(self.trials, self.parameters, self.confidence)

    def quantile(self, df: float) -> float:
        """What a standard error is multiplied by for the half width of an interval."""
        from scipy import stats

        return self.inflation * float(stats.t.ppf((1 + self.confidence) / 2, df))


def planned_looks(first: int, batch: int, most: int, parameters: int, confidence: float) -> Looks:
    """Looks after the first trials, and after each further batch.

    Parameters
    ----------
    most
        Trials that the budget allows; beyond 100 looks the later ones change nothing more.
    """
    least = max(first, parameters + 2)
    trials = list(range(least, max(least, min(most, least + 100 * batch)) + 1, batch))
    return Looks(tuple(trials), parameters, confidence)


@functools.cache
def _inflation(trials: tuple[int, ...], parameters: int, confidence: float) -> float:
    if len(trials) < 2:
        return 1.0
    from scipy import stats

    df = np.array(trials, dtype=np.float64) - parameters
    ratios = _deviations(df)
    quantiles = stats.t.ppf((1 + confidence) / 2, df)
    widths = quantiles * ratios / np.sqrt(np.array(trials, dtype=np.float64))
    lowest = 1.0
    asked = np.geomspace(np.quantile(widths[:, -1], 0.02), np.quantile(widths[:, 0], 0.98), _WIDTHS)
    for width in asked:
        narrow = widths <= width
        last = np.where(narrow.any(axis=1), narrow.argmax(axis=1), len(trials) - 1)
        ends = ratios[np.arange(len(ratios)), last] * quantiles[last]
        lowest = max(lowest, _factor(ends, confidence))
    return lowest


def _factor(ends: Array, confidence: float) -> float:
    """By what half widths in units of sigma are multiplied so that they cover what they should."""
    from scipy import optimize, stats

    def missing(factor: float) -> float:
        return float(np.mean(2 * stats.norm.cdf(factor * ends) - 1)) - confidence

    return 1.0 if missing(1.0) >= 0 else float(optimize.brentq(missing, 1.0, 10.0, xtol=1e-4))


def _deviations(df: Sequence[float] | Array) -> Array:
    """Residual standard deviations over sigma at each look, shape (paths, looks)."""
    rng = np.random.default_rng(_SEED)
    steps = np.diff(np.asarray(df), prepend=0.0)
    sums = np.cumsum(rng.chisquare(steps, size=(_PATHS, len(steps))), axis=1)
    found: Array = np.sqrt(sums / np.asarray(df))
    return found
