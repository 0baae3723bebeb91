"""Intervals of a mean and of one new trial, for every link and every kind of noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.plan.law_kinds import Link, Noise


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Ends of intervals, each of shape (n,)."""

    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Spread:
    """How trials spread about their mean, and how well that is known.

    Attributes
    ----------
    sigma, sigma_df, df
        As of `fit.Fit`.
    """

    link: Link
    noise: Noise
    sigma: float
    sigma_df: float
    df: float

    def mean_band(self, mean: Array, standard_error: Array, confidence: float) -> Band:
        """Confidence interval of the mean.

        Parameters
        ----------
        mean, standard_error
            Of the mean, base units of the outcome, shape (n,).
        """
        from scipy import stats

        half = stats.t.ppf((1 + confidence) / 2, self.df) * standard_error
        if self.link is Link.LOG:  # symmetric where the law is, in the logarithm
            with np.errstate(all="ignore"):
                return Band(mean * np.exp(-half / mean), mean * np.exp(half / mean))
        return Band(mean - half, mean + half)

    def trial_band(self, mean: Array, standard_error: Array, confidence: float) -> Band:
        """Prediction interval of one new trial.

        Notes
        -----
        Exact for normal noise about a linear law. For gamma noise the uncertainty of the mean widens the gamma
        distribution's own relative variance, and Student's t instead of the normal quantile widens both.
        """
        from scipy import stats

        with np.errstate(all="ignore"):
            error = standard_error / mean if self.noise.relative else standard_error
            variance = error**2 + self.sigma**2
            quantile = stats.t.ppf((1 + confidence) / 2, self._df_of_trial(error))
            half = quantile * np.sqrt(variance)
            if self.noise is Noise.NORMAL:
                return Band(mean - half, mean + half)
            if self.noise is Noise.LOGNORMAL:
                median = mean * np.exp(-(self.sigma**2) / 2)
                return Band(median * np.exp(-half), median * np.exp(half))
            wide = variance * (quantile / stats.norm.ppf((1 + confidence) / 2)) ** 2
            tail = (1 - confidence) / 2
            low, high = (mean * stats.gamma.ppf(p, 1 / wide, scale=wide) for p in (tail, 1 - tail))
            return Band(low, high)

    def _df_of_trial(self, error: Array) -> Array:
        """Degrees of freedom of a sum of two variances that were estimated apart (Satterthwaite)."""
        if self.df == self.sigma_df:
            return np.full_like(error, self.df)
        total: Array = (error**2 + self.sigma**2) ** 2
        return total / (error**4 / self.df + self.sigma**4 / self.sigma_df)
