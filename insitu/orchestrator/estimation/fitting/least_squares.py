"""Laws whose right side is linear in their parameters: ordinary and iterated weighted least squares."""

from __future__ import annotations

import math
import warnings

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.solution import Solution, Task, least_squares_solution, noise_residuals
from insitu.orchestrator.plan.law_kinds import Link, Noise

_MOST_ROUNDS = 50
_CLOSE = 1e-12
"""Relative change of a variance at which iteration ends."""


def solve_linear(task: Task) -> Solution | None:
    """Fit by statsmodels; ``None`` where the law has another shape, or the iteration does not settle.

    Notes
    -----
    Ordinary least squares for normal noise, and of the logarithm for lognormal noise under a logarithmic link; a
    generalised linear model (McCullagh and Nelder, *Generalized Linear Models*, 2nd edition, chapter 8) for gamma
    noise under either link, its dispersion from Pearson's statistic, with Student's t for intervals.
    """
    law = task.law
    if not law.linear or task.prior is not None:
        return None
    if law.noise is Noise.GAMMA:
        return _solve_gamma(task)
    if law.link is Link.IDENTITY and law.noise is Noise.NORMAL:
        response = task.data.observed - law.offsets(task.data.columns)
        values = ordinary(law.design_matrix(task.data.columns), response)
        return least_squares_solution(task, values, task.data.observed - law.mean(values, task.data.columns))
    if law.link is Link.LOG and law.noise is Noise.LOGNORMAL:
        return _solve_lognormal(task)
    return None


def ordinary(rows: Array, response: Array) -> Array:
    """Ordinary least squares by statsmodels; shape (p,)."""
    from statsmodels.regression.linear_model import OLS

    # columns of length one: seconds stand beside bytes per core, and a pseudo-inverse drops what looks small
    scales = np.linalg.norm(rows, axis=0)
    values: Array = np.asarray(OLS(response, rows / scales).fit().params) / scales
    return values


def _solve_lognormal(task: Task) -> Solution:
    """Least squares of the logarithm, which lies half its variance below that of the mean."""
    law, data = task.law, task.data
    rows = law.design_matrix(data.columns)
    logarithms = np.log(data.observed) - law.offsets(data.columns)
    values, variance = np.zeros(rows.shape[1]), 0.0
    for _ in range(_MOST_ROUNDS):
        values = ordinary(rows, logarithms + variance / 2)
        left = logarithms + variance / 2 - rows @ values
        before, variance = variance, float(left @ left) / (len(left) - len(values))
        if abs(variance - before) <= _CLOSE * variance:
            break
    mean = law.mean(values, data.columns)
    return least_squares_solution(task, values, noise_residuals(law, data.observed, mean, math.sqrt(variance)))


def _solve_gamma(task: Task) -> Solution | None:
    from statsmodels.genmod.families import Gamma, links
    from statsmodels.genmod.generalized_linear_model import GLM

    law, data = task.law, task.data
    rows, offsets = law.design_matrix(data.columns), law.offsets(data.columns)
    scales = np.linalg.norm(rows, axis=0)
    if law.link is Link.LOG:
        link, first = links.Log(), ordinary(rows / scales, np.log(data.observed) - offsets)
    else:  # weights of the observed outcomes: their own spread is proportional to them
        link = links.Identity()
        first = ordinary(rows / scales / data.observed[:, None], (data.observed - offsets) / data.observed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter(
            "ignore"
        )  # an identity link is no canonical one; what it can do wrong is checked below
        try:
            model = GLM(data.observed, rows / scales, family=Gamma(link=link), offset=offsets)
            found = model.fit(start_params=first, maxiter=_MOST_ROUNDS, tol=_CLOSE)
        except (ValueError, np.linalg.LinAlgError):
            return None
    values = np.asarray(found.params) / scales
    mean = law.mean(values, data.columns)
    if not found.converged or not np.isfinite(values).all() or not (mean > 0).all():
        return None
    return least_squares_solution(task, values, noise_residuals(law, data.observed, mean))
