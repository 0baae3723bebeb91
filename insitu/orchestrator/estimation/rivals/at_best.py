"""How likely trials are at most under a law: with parameters and noise chosen, afterwards, to suit them best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.fitting.data import FitData
from insitu.orchestrator.estimation.fitting.solution import Task
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.estimation.rivals.foretelling import FINEST, is_plain
from insitu.orchestrator.plan.law_kinds import Noise

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.plan.types import Variable

_NOISES = FINEST, 10.0
"""Between which the relative noise of a gamma or lognormal law is looked for."""


def best_likelihood(law: Law, data: FitData, variables: Mapping[str, Variable], finest: float) -> float:
    """The largest logarithm of a likelihood that the law can give these trials; infinite where they are too few.

    Parameters
    ----------
    finest
        As of `insitu.orchestrator.estimation.rivals.foretelling.finest_noise`.
    """
    if not len(data.observed):
        return 0.0
    if is_plain(law):
        response = data.observed - law.offsets(data.columns)
        squares = squares_left(law.design_matrix(data.columns), response)
        return normal_likelihood(squares, len(response), finest)
    try:
        mean = solve(Task(law, data, variables)).mean
    except NotIdentified:
        return math.inf
    return likelihood_about(law.noise, data.observed, mean, finest)


def squares_left(rows: Array, response: Array) -> float:
    """Sum of squared residuals of ordinary least squares, whatever the rank of the rows."""
    lengths = np.linalg.norm(rows, axis=0)
    scaled = rows / np.where(lengths > 0, lengths, 1.0)
    values, _, _, _ = np.linalg.lstsq(scaled, response, rcond=1e-10)
    left = response - scaled @ values
    return float(left @ left)


def normal_likelihood(squares: float, count: int, finest: float) -> float:
    """Logarithm of the likelihood of normal noise of the size that suits the residuals best."""
    variance = max(squares / count, finest**2)
    return -count / 2 * (math.log(2 * math.pi * variance)) - squares / (2 * variance)


def likelihood_about(noise: Noise, observed: Array, mean: Array, finest: float) -> float:
    """Logarithm of the likelihood about given means, with noise of the size that suits it best."""
    from scipy import optimize, stats

    if noise is Noise.NORMAL:
        return normal_likelihood(float(np.sum((observed - mean) ** 2)), len(observed), finest)
    logarithms, places = np.log(observed), np.log(mean)

    def lost(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        if noise is Noise.LOGNORMAL:
            found = stats.norm.logpdf(logarithms, places - sigma**2 / 2, sigma) - logarithms
        else:
            found = stats.gamma.logpdf(observed, 1 / sigma**2, scale=mean * sigma**2)
        return -float(np.sum(found))

    ends = (math.log(_NOISES[0]), math.log(_NOISES[1]))
    return -float(optimize.minimize_scalar(lost, bounds=ends, method="bounded", options={"xatol": 1e-6}).fun)
