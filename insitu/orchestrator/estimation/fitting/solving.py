"""Which way of fitting a law is taken."""

from __future__ import annotations

import math

import numpy as np

from insitu.orchestrator.estimation.fitting.at_bounds import bounds_of, solve_bounded
from insitu.orchestrator.estimation.fitting.clusters import clustered_by_node
from insitu.orchestrator.estimation.fitting.curved import solve_curved
from insitu.orchestrator.estimation.fitting.identified import refuse_mixed, refuse_too_few
from insitu.orchestrator.estimation.fitting.least_squares import solve_linear
from insitu.orchestrator.estimation.fitting.mixed import solve_mixed
from insitu.orchestrator.estimation.fitting.quantile import solve_quantile
from insitu.orchestrator.estimation.fitting.robust import solve_robust
from insitu.orchestrator.estimation.fitting.solution import Solution, Task, noise_residuals
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise


def solve(task: Task) -> Solution:
    """Find the parameters by the law's method.

    Raises
    ------
    NotIdentified
        If there are too few trials, or they cannot tell some parameters apart.
    """
    law = task.law
    refuse_too_few(task)
    if not law.parameters:
        return _nothing_to_find(task)
    if law.linear and (task.prior is None or law.method is Method.QUANTILE):
        refuse_mixed(task, law.design_matrix(task.data.columns), np.ones(len(law.parameters)))
    match law.method:
        case Method.QUANTILE:
            return solve_quantile(task)
        case Method.ROBUST:
            return solve_robust(task)
        case Method.CLUSTERED:
            return clustered_by_node(task, solve_usual(task))
        case Method.MIXED:
            return solve_mixed(task, solve_usual(task))
        case Method.LEAST_SQUARES:
            return solve_usual(task)


def solve_usual(task: Task) -> Solution:
    """Least squares, or maximum likelihood where the noise is not normal."""
    law, bounds = task.law, bounds_of(task)
    found = solve_linear(task)
    if found is None:
        return solve_curved(task)
    if ((found.values >= bounds.low) & (found.values <= bounds.high)).all():
        return found
    plain = law.link is Link.IDENTITY and law.noise is Noise.NORMAL
    return solve_bounded(task) if plain else solve_curved(task)


def _nothing_to_find(task: Task) -> Solution:
    """A law without parameters: the trials tell its noise alone."""
    n, none = len(task.data.observed), np.zeros(0)
    mean = task.law.mean(none, task.data.columns)
    left = noise_residuals(task.law, task.data.observed, mean)
    return Solution(
        values=none,
        covariance=np.zeros((0, 0)),
        inverse_gram=np.zeros((0, 0)),
        sigma=math.sqrt(float(left @ left) / n),
        sigma_df=float(n),
        df=float(n),
        mean=mean,
        rows=np.zeros((n, 0)),
        residuals=left,
    )
