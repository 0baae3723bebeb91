"""Draws through a fitted model: parameters as far as the trials leave them open, noise as each law has it.

Draws stand in a table: a column for each draw of the parameters, a row for each draw of the noise. What the
columns differ in is what is not known; what the rows of one column differ in is what trials differ in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.compiled import Buffers, Values, compile_expression
from insitu.orchestrator.causal.expression import Array, evaluate
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.questions.model import FittedLaw
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise

ENOUGH_RESIDUALS = 100
"""Trials from which on their own residuals stand for the noise, in the place of the law's distribution."""


@dataclass(frozen=True, slots=True)
class ParameterDraws:
    """Parameters of some laws, each k times.

    Attributes
    ----------
    values
        By the variable that a law gives: shape (p, k), base units.
    spreads
        Likewise the standard deviation of its noise, as `Fit.sigma`: shape (k,).
    """

    values: Mapping[str, Array]
    spreads: Mapping[str, Array]
    count: int


def estimates_of(laws: Sequence[FittedLaw]) -> ParameterDraws:
    """The estimates themselves, as a single draw."""
    return ParameterDraws(
        {one.variable: one.fit.values[:, None] for one in laws},
        {one.variable: np.array([one.fit.sigma]) for one in laws},
        1,
    )


def draw_parameters(laws: Sequence[FittedLaw], count: int, rng: np.random.Generator) -> ParameterDraws:
    """Draw from what each fit leaves open: multivariate t, with the spread from the same draw of its variance.

    Notes
    -----
    Where there are twice as many draws as parameters, or more, the normal draws are shifted and mixed so that
    their means and covariances are exact, and variances are drawn one from each of `count` equally likely ranges:
    the draws are fewer than the noise's, and should not add noise of their own. A draw beyond a parameter's bound
    stands at the bound.
    """
    sizes = [len(one.law.parameters) for one in laws]
    normal = _exact_moments(rng.standard_normal((count, sum(sizes))))
    values: dict[str, Array] = {}
    spreads: dict[str, Array] = {}
    begin = 0
    tables = {df: _widenings(df, count) for df in {df for one in laws for df in (one.fit.df, one.fit.sigma_df)}}
    for one, size in zip(laws, sizes, strict=True):
        widening = rng.permutation(tables[one.fit.df])
        moved = _root(one.fit.covariance_matrix) @ normal[:, begin : begin + size].T * widening
        values[one.variable] = _within_bounds(one, one.fit.values[:, None] + moved)
        own = one.fit.sigma_df == one.fit.df
        spreads[one.variable] = one.fit.sigma * (widening if own else rng.permutation(tables[one.fit.sigma_df]))
        begin += size
    return ParameterDraws(values, spreads, count)


def _exact_moments(normal: Array) -> Array:
    count, size = normal.shape
    if size == 0 or count < 2 * size:
        return normal
    centred = normal - normal.mean(axis=0)
    factor = np.linalg.cholesky(centred.T @ centred / count)
    mixed: Array = centred @ np.linalg.inv(factor).T
    return mixed


def _widenings(df: float, count: int) -> Array:
    """Roots of df over quantiles of chi-squared: what makes normal draws those of Student's t."""
    if math.isinf(df):
        return np.ones(count)
    from scipy.special import gammaincinv

    shares = (np.arange(count) + 0.5) / count
    return np.asarray(np.sqrt(df / (2 * gammaincinv(df / 2, shares))))


def _root(covariance: Array) -> Array:
    """A matrix that times its transpose is the covariance; rows of zeros (bounds) and rounding do no harm."""
    lengths = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale = np.where(lengths == 0, 1.0, lengths)
    strengths, directions = np.linalg.eigh(covariance / np.outer(scale, scale))
    root: Array = scale[:, None] * directions * np.sqrt(np.clip(strengths, 0.0, None))
    return root


def _within_bounds(fitted: FittedLaw, drawn: Array) -> Array:
    for row, name in enumerate(fitted.law.parameters):
        if name in fitted.law.bounds:
            bounds = fitted.law.bounds[name]
            np.clip(drawn[row], bounds.low, bounds.high, out=drawn[row])
    return drawn


def mean_of(fitted: FittedLaw, parameters: Array, levels: Values) -> Array:
    """Mean of a law's variable for many draws of its parameters.

    Parameters
    ----------
    parameters
        Shape (p, k).
    levels
        Parent to its level, of any shape that broadcasts with (k,).
    """
    right = evaluate(fitted.law.expression, {**levels, **_named(fitted, parameters)})
    with np.errstate(all="ignore"):
        return np.exp(right) if fitted.law.link is Link.LOG else right


def _named(fitted: FittedLaw, parameters: Array) -> dict[str, Array]:
    return dict(zip(fitted.law.parameters, parameters, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Draws of every variable that some laws give.

    Attributes
    ----------
    values
        By variable, each of shape (rows, k).
    expected
        Mean of the last law's variable given its causes, shape (rows, k): as `values` of it, before its noise.
    """

    values: Mapping[str, Array]
    expected: Array


def simulate(
    through: Sequence[FittedLaw],
    levels: Mapping[str, float],
    parameters: ParameterDraws,
    rows: int,
    rng: np.random.Generator,
    *,
    resample: bool = False,
) -> Drawn:
    """Draw every variable that some laws give.

    Parameters
    ----------
    through
        Causes before effects; not empty.
    levels
        Of every variable that the laws start from.
    rows
        Draws of the noise for each draw of the parameters; an even number, since each comes with its opposite.
    resample
        Take the noise from the trials' own residuals where there are enough of them.
    """
    if rows % 2:
        raise ValueError(f"{rows} draws of the noise cannot be had in pairs")
    buffers = Buffers((rows, parameters.count))
    drawn: dict[str, Array] = {}
    expected = np.empty(0)
    with np.errstate(all="ignore"):
        for one in through:
            law = one.law
            values: Values = {**levels, **drawn, **_named(one, parameters.values[one.variable])}
            mean = compile_expression(law.expression, drawn)(values, buffers)
            if law.link is Link.LOG:
                np.exp(mean, out=mean)
            if one is through[-1]:
                expected = mean.copy()
            if has_residuals(one.fit) and (resample or one.fit.method is Method.QUANTILE):
                _add_residuals(one.fit, mean, parameters.spreads[one.variable], rng)
            else:
                _add_noise(one.fit, mean, parameters.spreads[one.variable], buffers, rng)
            drawn[one.variable] = mean
    return Drawn(drawn, expected)


def has_residuals(fit: Fit) -> bool:
    """Whether a law's trials are enough for their residuals to stand for its noise; for a quantile any are."""
    return len(fit.points) >= (1 if fit.method is Method.QUANTILE else ENOUGH_RESIDUALS)


def _add_noise(fit: Fit, mean: Array, spread: Array, buffers: Buffers, rng: np.random.Generator) -> None:
    """Turn means into draws, in place; the second half of the rows has the noise of the first, turned round.

    Notes
    -----
    Antithetic draws (Hammersley and Morton, 1956) halve the cost, and make the mean of what is linear in the noise
    exact.
    """
    if fit.noise is Noise.GAMMA:
        shape = spread**-2.0
        mean *= rng.standard_gamma(shape, size=mean.shape)
        mean /= shape
    else:
        noise = buffers.take()
        half = len(mean) // 2
        rng.standard_normal(out=noise[:half])
        noise[:half] *= spread
        if fit.noise is Noise.LOGNORMAL:  # its mean is above its median
            np.negative(noise[:half], out=noise[half:])
            noise -= spread**2 / 2
            mean *= np.exp(noise, out=noise)
        else:
            mean[:half] += noise[:half]
            mean[half:] -= noise[:half]
        buffers.give(noise)


def _add_residuals(fit: Fit, mean: Array, spread: Array, rng: np.random.Generator) -> None:
    """Draw from the trials' own residuals; each column from a resample of them, since they are a sample, too."""
    pool = standard_residuals(fit)
    count = len(pool)
    rows, columns = mean.shape
    chosen = rng.integers(count, size=(rows, columns), dtype=np.int32)
    if columns > 1:
        resampled = rng.integers(count, size=count * columns, dtype=np.int32)
        chosen *= columns
        chosen += np.arange(columns, dtype=np.int32)
        chosen = np.take(resampled, chosen)
    picked = np.take(pool, chosen)
    if fit.noise is Noise.NORMAL:
        mean += picked * (spread / fit.sigma if fit.sigma else 1.0)
    elif fit.noise is Noise.LOGNORMAL:
        mean *= np.exp(picked)
    else:
        mean *= 1.0 + picked


def standard_residuals(fit: Fit) -> Array:
    """Residuals that spread as the noise does, in its unit, shape (n,): a fit makes its own ones too small.

    Notes
    -----
    Davison and Hinkley, *Bootstrap Methods and their Application*, equation 6.9; those of a quantile keep their
    own centre.
    """
    observed, predicted, leverage = (
        np.array(column)
        for column in zip(*((one.observed, one.predicted, one.leverage) for one in fit.points), strict=True)
    )
    with np.errstate(all="ignore"):
        if fit.noise is Noise.LOGNORMAL:
            raw = np.log(observed) - np.log(predicted)
        else:
            raw = (observed - predicted) / (predicted if fit.noise.relative else 1.0)
    scaled = raw / np.sqrt(np.clip(1.0 - leverage, 1e-6, 1.0))
    if fit.method is Method.QUANTILE:
        return np.asarray(raw)
    if fit.noise is Noise.LOGNORMAL:  # the mean of their exponentials is 1, as that of the noise
        return np.asarray(scaled - np.log(np.mean(np.exp(scaled))))
    return np.asarray(scaled - scaled.mean())
