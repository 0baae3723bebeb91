"""Least squares or maximum likelihood for laws that are curved in their parameters, bounded, or have a prior."""

from __future__ import annotations

import math

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.at_bounds import Linearised, bound_finding, linearised, named
from insitu.orchestrator.estimation.fitting.data import information_rows
from insitu.orchestrator.estimation.fitting.identified import refuse_mixed
from insitu.orchestrator.estimation.fitting.search import Minimum, Search, Weighing
from insitu.orchestrator.estimation.fitting.solution import (
    Solution,
    Task,
    inverse_of_gram,
    least_squares_covariance,
    noise_residuals,
)
from insitu.orchestrator.plan.law_kinds import Noise

_MOST_ROUNDS = 40
_SETTLED = 1e-10
"""Relative change of the noise at which reweighting ends."""


def solve_curved(task: Task) -> Solution:
    """Fit by least squares in units of the noise, or by maximum likelihood for gamma noise.

    Raises
    ------
    NotIdentified
        If the law is finite for none of the values tried.

    Notes
    -----
    The covariance is that of the law's linear approximation at the estimates (D. M. Bates and D. G. Watts,
    *Nonlinear Regression Analysis and Its Applications*, section 2.3), with the exact gradient.
    """
    search = Search(task)
    even = np.ones(len(task.data.observed))
    sigma = _widest(task) if task.prior is not None else 0.0
    minimum = search.from_all_starts(Weighing(even, sigma))
    for _ in range(_MOST_ROUNDS):
        before, sigma = sigma, spread_about(task, minimum, sigma)
        # the size of the noise changes the search only where a prior or a logarithm is weighed by it
        settled = abs(sigma - before) <= _SETTLED * sigma
        if settled or (task.prior is None and task.law.noise is not Noise.LOGNORMAL):
            break
        minimum = search.from_one(minimum.values, Weighing(even, sigma))
    return solution_at(task, search, minimum, sigma)


def _widest(task: Task) -> float:
    """More noise than there can be: with it the prior counts for all, and from there on for less and less."""
    observed = task.data.observed
    unit = np.log(observed) if task.law.relative_noise else observed
    return float(np.std(unit)) or float(np.abs(unit).max()) or 1.0


def spread_about(task: Task, minimum: Minimum, sigma: float) -> float:
    """Noise of a trial about a minimum that was found with another one."""
    left = noise_residuals(task.law, task.data.observed, _mean(task, minimum.values), sigma)
    return math.sqrt(float(left @ left) / _degrees_of_freedom(task, minimum, sigma))


def solution_at(task: Task, search: Search, minimum: Minimum, sigma: float) -> Solution:
    """What is known of the parameters where a search ended."""
    rows = information_rows(task.law, minimum.values, task.data.columns)
    free = ~minimum.held
    known = rows if task.prior is None else np.vstack([rows, sigma * task.prior.rows(task.law)])
    inverse_gram = np.zeros((rows.shape[1], rows.shape[1]))
    # a parameter at a bound is taken for known: as if a trial had told it
    told = np.eye(len(free))[minimum.held] * np.linalg.norm(known, axis=0).max(initial=1.0)
    refuse_mixed(task, np.vstack([known, told]), minimum.values)
    if free.any():
        inverse_gram[np.ix_(free, free)] = inverse_of_gram(known[:, free])
    left = noise_residuals(task.law, task.data.observed, _mean(task, minimum.values), sigma)
    df = _degrees_of_freedom(task, minimum, sigma)
    alone = Linearised()
    if minimum.held.any() and task.prior is None:
        alone = linearised(task, minimum.values, rows, left)
    at_bound = named(task, minimum.held)
    found = (search.finding(minimum), bound_finding(at_bound, alone.contradicted))
    solution = Solution(
        values=minimum.values,
        covariance=least_squares_covariance(task.law, rows, inverse_gram, sigma**2, df),
        inverse_gram=inverse_gram,
        sigma=sigma,
        sigma_df=df,
        df=df,
        mean=_mean(task, minimum.values),
        rows=rows,
        residuals=left,
        at_bound=at_bound,
        findings=tuple(one for one in found if one is not None),
        intervals=alone.intervals,
    )
    return solution if task.prior is None else task.prior.accounted(task, solution)


def _degrees_of_freedom(task: Task, minimum: Minimum, sigma: float) -> float:
    """Trials less what the parameters took of them; with a prior, they take less than one each."""
    n, free = len(task.data.observed), ~minimum.held
    if task.prior is None or sigma == 0:
        return float(max(n - int(free.sum()), 1))
    rows = information_rows(task.law, minimum.values, task.data.columns)
    return n - task.prior.taken(task.law, rows, sigma, free)


def _mean(task: Task, values: Array) -> Array:
    return task.law.mean(values, task.data.columns)
