"""What every way of fitting a law has in common: the task, and the parameters with what is known of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Finding
from insitu.orchestrator.estimation.fit import GroupSpread, PriorUsed
from insitu.orchestrator.estimation.fitting.data import FitData, information_rows
from insitu.orchestrator.estimation.fitting.spread import Band
from insitu.orchestrator.plan.law_kinds import Method, Noise
from insitu.orchestrator.plan.types import Variable

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.estimation.fitting.prior import Prior


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A law and the trials that are to tell its parameters.

    Attributes
    ----------
    variables
        The model's, for what could be varied and in which units it is.
    prior
        The part of an earlier run's knowledge that is about the law's parameters.
    """

    law: Law
    data: FitData
    variables: Mapping[str, Variable]
    confidence: float = 0.95
    prior: Prior | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """Trials by themselves: less what is known of their nodes and days, where a method knows of these.

    With V the covariance of the trials in units of one trial's own variance.

    Attributes
    ----------
    rows, residuals
        Inverse of V times those of the solution, shapes (n, p) and (n,).
    room
        Diagonal of that inverse, shape (n,).
    sigma, df
        Standard deviation of a trial on a node and a day that are known, and its degrees of freedom.
    inverse_gram
        Of the parameters in units of its square, shape (p, p).
    """

    rows: Array
    residuals: Array
    room: Array
    sigma: float
    df: float
    inverse_gram: Array


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The parameters of a law, base units.

    Attributes
    ----------
    values
        Shape (p,).
    covariance
        Shape (p, p).
    inverse_gram
        Inverse of rows' rows, shape (p, p), and of what a prior adds.
    sigma, sigma_df, df
        As of `fit.Fit`.
    mean
        Of the outcome at the fitted trials, shape (n,).
    rows
        Gradient of the mean in units of the noise, shape (n, p).
    residuals
        Observed less mean in units of the noise, shape (n,).
    method
        What was used in the end.
    at_bound
        Parameters that stand at a bound.
    intervals
        Of the parameters, where they are not Student's t about the values.
    dfs
        Degrees of freedom of each parameter, shape (p,), where they differ; `df` is then the smallest.
    conditional
        Trials less what their nodes and days have of their own; ``None`` where nothing is known of these.
    """

    values: Array
    covariance: Array
    inverse_gram: Array
    sigma: float
    sigma_df: float
    df: float
    mean: Array
    rows: Array
    residuals: Array
    method: Method = Method.LEAST_SQUARES
    at_bound: tuple[str, ...] = ()
    groups: tuple[GroupSpread, ...] = ()
    prior: PriorUsed | None = None
    findings: tuple[Finding, ...] = ()
    intervals: Band | None = None
    dfs: Array | None = None
    conditional: Alone | None = None

    @property
    def alone(self) -> Alone:
        """Trials by themselves, as the checks of single trials look at them."""
        if self.conditional is not None:
            return self.conditional
        room = np.ones(len(self.residuals))
        return Alone(self.rows, self.residuals, room, self.sigma, self.sigma_df, self.inverse_gram)

    @property
    def leverage(self) -> Array:
        """Weight of each trial on its own prediction, shape (n,)."""
        weights: Array = np.einsum("ij,jk,ik->i", self.rows, self.inverse_gram, self.rows)
        return np.clip(weights, 0.0, 1.0)

    @property
    def standard_errors(self) -> Array:
        """Of the parameters, shape (p,)."""
        return np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))


def t_quantile(confidence: float, df: float) -> float:
    """Half width of a two-sided interval in standard errors."""
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, df))


def noise_residuals(law: Law, observed: Array, mean: Array, sigma: float = 0.0) -> Array:
    """Observed less mean in units of the noise, shape (n,).

    Notes
    -----
    The logarithm of a lognormal outcome lies half its variance below the logarithm of the mean.
    """
    if law.noise is Noise.LOGNORMAL:
        with np.errstate(all="ignore"):
            logarithmic: Array = np.log(observed) - np.log(mean) + sigma**2 / 2
        return logarithmic
    with np.errstate(all="ignore"):
        return (observed - mean) / mean if law.relative_noise else observed - mean


def least_squares_solution(task: Task, values: Array, residuals: Array) -> Solution:
    """Usual inference about values that were found by least squares in units of the noise.

    Parameters
    ----------
    residuals
        In units of the noise, shape (n,).
    """
    rows = information_rows(task.law, values, task.data.columns)
    inverse_gram = inverse_of_gram(rows)
    df = float(len(residuals) - len(values))
    variance = float(residuals @ residuals) / df
    return Solution(
        values=values,
        covariance=least_squares_covariance(task.law, rows, inverse_gram, variance, df),
        inverse_gram=inverse_gram,
        sigma=math.sqrt(variance),
        sigma_df=df,
        df=df,
        mean=task.law.mean(values, task.data.columns),
        rows=rows,
        residuals=residuals,
    )


def least_squares_covariance(law: Law, rows: Array, inverse_gram: Array, variance: float, df: float) -> Array:
    """Covariance of the parameters, shape (p, p).

    Notes
    -----
    Half the variance of a lognormal outcome's logarithm is added to each of its observations. Not knowing it adds
    the variance of a variance's estimate, 2 variance^2 / df, along what such a shift moves the parameters by.
    """
    covariance = inverse_gram * variance
    if law.noise is Noise.LOGNORMAL:
        moved = inverse_gram @ rows.sum(axis=0)
        covariance = covariance + np.outer(moved, moved) * variance**2 / (2 * df)
    return covariance


def inverse_of_gram(rows: Array) -> Array:
    """Inverse of rows' rows, columns scaled to length one in between; shape (p, p)."""
    lengths = np.linalg.norm(rows, axis=0)
    triangle = np.linalg.qr(rows / lengths, mode="r")
    root = np.linalg.solve(triangle, np.eye(len(lengths))) / lengths[:, None]
    inverse: Array = root @ root.T
    return inverse
