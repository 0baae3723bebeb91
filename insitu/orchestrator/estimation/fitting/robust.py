"""Huber's M-estimation: trials far off count less, so that a few disturbed ones do not decide the law."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.checks.influence import outliers_finding
from insitu.orchestrator.estimation.fitting.at_bounds import bounds_of
from insitu.orchestrator.estimation.fitting.curved import solution_at, solve_curved
from insitu.orchestrator.estimation.fitting.search import Search, Weighing
from insitu.orchestrator.estimation.fitting.solution import Solution, Task, least_squares_solution, noise_residuals
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise

TUNING = 1.345
"""Residual over scale at which weights begin to fall: 95 % efficient where the noise is normal."""
_FAR = 2.5
"""Scales beyond which a residual counts as that far in tests of means."""
_NORMAL_MAD = 0.6744897501960817
"""Median of the absolute value of a standard normal variable."""
_MOST_ROUNDS = 200
_SETTLED = 1e-9


def solve_robust(task: Task) -> Solution:
    """Fit by Huber's estimate, in units of the noise.

    By statsmodels where the law is linear with normal noise; else by least squares reweighted until it settles.

    Notes
    -----
    P. J. Huber, *Robust Statistics*, chapter 7; the covariance is his first (equation 6.7), with the scale from
    the median absolute residual. It holds against disturbed outcomes, not against levels of high leverage.
    """
    law = task.law
    if law.linear and law.link is Link.IDENTITY and law.noise is Noise.NORMAL and task.prior is None:
        values = _by_statsmodels(task)
        bounds = bounds_of(task)
        if values is not None and ((values >= bounds.low) & (values <= bounds.high)).all():
            left = task.data.observed - law.mean(values, task.data.columns)
            return _robust(task, least_squares_solution(task, values, left))
    usual = solve_curved(task)
    found = _reweighted(task, usual)
    of_search = tuple(one for one in usual.findings if one.check is Check.SEARCH)
    return _robust(task, replace(found, findings=(*of_search, *found.findings)))


def _reweighted(task: Task, usual: Solution) -> Solution:
    """Least squares with Huber's weights, again and again from a usual solution on."""
    search, found = Search(task), usual
    values, sigma = usual.values, usual.sigma
    for _ in range(_MOST_ROUNDS):
        mean = task.law.mean(values, task.data.columns)
        left = noise_residuals(task.law, task.data.observed, mean, sigma)
        scale = median_scale(left)
        if scale == 0:
            return found
        sigma = scale * _correction(task)
        minimum = search.from_one(values, Weighing(huber_weights(left / scale), sigma))
        before, values = values, minimum.values
        if np.allclose(values, before, rtol=_SETTLED, atol=0):
            break
    return solution_at(task, search, minimum, sigma)


def _by_statsmodels(task: Task) -> Array | None:
    """The values; ``None`` where the residuals leave no scale, or the iteration does not settle."""
    from statsmodels.robust.norms import HuberT
    from statsmodels.robust.robust_linear_model import RLM

    rows = task.law.design_matrix(task.data.columns)
    scales = np.linalg.norm(rows, axis=0)
    response = task.data.observed - task.law.offsets(task.data.columns)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = RLM(response, rows / scales, M=HuberT(t=TUNING)).fit(maxiter=_MOST_ROUNDS, conv="coefs", tol=1e-10)
    values = np.asarray(found.params, dtype=np.float64) / scales
    return values if np.isfinite(values).all() and found.scale > 0 else None


def median_scale(left: Array) -> float:
    """Scale of residuals about zero from the median of their sizes, right for normal noise."""
    return float(np.median(np.abs(left))) / _NORMAL_MAD


def huber_weights(scaled: Array) -> Array:
    """Weights of residuals over their scale, 1 up to `TUNING`; shape (n,)."""
    return TUNING / np.maximum(np.abs(scaled), TUNING)


def _correction(task: Task) -> float:
    """What a scale of residuals is multiplied by, since the parameters took degrees of freedom from them."""
    n, size = len(task.data.observed), len(task.law.parameters)
    return math.sqrt(n / max(1, n - size))


def _robust(task: Task, solution: Solution) -> Solution:
    """Inference for the values of a least squares solution that are Huber's."""
    left, (n, size) = solution.residuals, solution.rows.shape
    scale = median_scale(left)
    if scale == 0:  # more than half of the trials lie on the law exactly
        return replace(solution, method=Method.ROBUST, sigma=0.0, covariance=np.zeros_like(solution.covariance))
    weights = huber_weights(left / scale)
    within = (np.abs(left) <= TUNING * scale).astype(np.float64)
    small_sample = 1 + size / n * within.var() / within.mean() ** 2
    variance = small_sample**2 * float(((weights * left) ** 2).sum()) / (n - size) / within.mean() ** 2
    covariance = solution.inverse_gram * variance
    if task.prior is not None:  # whose own errors are not those of the trials
        of_trials = solution.inverse_gram @ (solution.rows.T @ solution.rows) @ solution.inverse_gram
        of_prior = task.prior.own_errors(task.law, solution.inverse_gram, solution.sigma)
        covariance = of_trials * variance + of_prior
    return replace(
        solution,
        covariance=covariance,
        sigma=scale * _correction(task),
        method=Method.ROBUST,
        findings=(*solution.findings, outliers_finding(task, weights)),
    )


def clipped(solution: Solution) -> Array:
    """Residuals for tests of means; those of a robust fit are cut where they are far off. Shape (n,)."""
    if solution.method is not Method.ROBUST:
        return solution.residuals
    far = _FAR * solution.sigma
    return np.clip(solution.residuals, -far, far)
