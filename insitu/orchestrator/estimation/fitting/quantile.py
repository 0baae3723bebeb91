"""A quantile of the outcome in the place of its mean: what the slowest of a hundred trials take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import sentence
from insitu.orchestrator.estimation.fitting.at_bounds import bound_finding, bounds_of, named
from insitu.orchestrator.estimation.fitting.curved import solve_curved
from insitu.orchestrator.estimation.fitting.data import information_rows, noise_unit
from insitu.orchestrator.estimation.fitting.solution import Solution, Task, inverse_of_gram
from insitu.orchestrator.plan.law_kinds import Link, Method

_MOST_ROUNDS = 60
_HALVINGS = 12
_SETTLED = 1e-9
_WITHIN = 0.9
"""Part of the way to 0 or 1 that the quantiles beside the wanted one may go."""


def fewest_trials(quantile: float, parameters: int, confidence: float) -> int:
    """How many trials it takes to tell a quantile of a law with so many parameters.

    Notes
    -----
    Of m trials of one assignment all lie below the quantile q with the chance ``q^m``. While that is above
    ``(1 - confidence) / 2``, nothing between the least and the largest of them is an interval of the quantile at
    that confidence (W. J. Conover, *Practical Nonparametric Statistics*, section 3.2). A law with p parameters
    spreads its trials as p assignments would.
    """
    tail = max(quantile, 1 - quantile)
    each = math.ceil(math.log((1 - confidence) / 2) / math.log(tail))
    return max(parameters * each, parameters + 1)


def solve_quantile(task: Task) -> Solution:
    """Fit the law to a quantile.

    Raises
    ------
    NotIdentified
        If there are too few trials for it.

    Notes
    -----
    R. Koenker and G. Bassett, *Regression quantiles*, Econometrica 46, 1978, as an exact linear program, again
    and again with the law's linear approximation where it is curved. The covariance is that of W. Hendricks and
    R. Koenker, *Hierarchical spline models for conditional quantiles*, JASA 87, 1992, from the quantiles beside
    the wanted one, at the distance of P. Hall and S. Sheather, 1988. It holds for noise of any shape, also where
    its spread depends on the levels, and in the tails, where intervals from a kernel estimate are too narrow.
    """
    law, n, size = task.law, len(task.data.observed), len(task.law.parameters)
    needed = fewest_trials(law.quantile, size, task.confidence)
    if n < needed:
        raise NotIdentified(
            f"{n} valid trials cannot tell the {100 * law.quantile:g} % quantile of {law.variable}: "
            f"for the {size} parameters of its law it takes {needed}",
            hint="add trials, or ask for the mean or for a quantile nearer to the middle",
            parameters=law.parameters,
        )
    return _solution(task, _straightened(task))


@dataclass(frozen=True, slots=True, eq=False)
class _Straight:
    """A law's quantile as a linear regression, on columns of length one.

    Attributes
    ----------
    values
        Of the law's parameters, shape (p,).
    rows, lengths
        Columns of length one, shape (n, p), and what they were divided by.
    response
        Shape (n,).
    low, high
        Bounds of what the columns are multiplied by, shape (p,).
    """

    values: Array
    rows: Array
    lengths: Array
    response: Array
    low: Array
    high: Array

    def quantile(self, share: float) -> Array:
        """The law's parameters at a quantile, shape (p,)."""
        return regression_quantile(self.rows, self.response, share, self.low, self.high) / self.lengths

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """Which parameters stand at a bound, shape (p,)."""
        scaled = self.values * self.lengths
        return np.isclose(scaled, self.low, rtol=_SETTLED) | np.isclose(scaled, self.high, rtol=_SETTLED)


def _straightened(task: Task) -> _Straight:
    """Solve the linear program, or a row of them that ends at the quantile of a curved law."""
    law = task.law
    if law.linear and law.link is Link.IDENTITY:
        here = _linear_at(task, np.zeros(len(law.parameters)))
        return replace(here, values=here.quantile(law.quantile))
    values = solve_curved(task).values
    for _ in range(_MOST_ROUNDS):
        step = _shortened(task, values, _linear_at(task, values).quantile(law.quantile) - values)
        values = values + step
        if (np.abs(step) <= _SETTLED * np.abs(values)).all():
            break
    return _linear_at(task, values)


def _shortened(task: Task, values: Array, step: Array) -> Array:
    """A step halved until it makes the loss no larger; none if no part of it does."""
    law, data = task.law, task.data
    before = check_loss(data.observed - law.mean(values, data.columns), law.quantile)
    for _ in range(_HALVINGS):
        if check_loss(data.observed - law.mean(values + step, data.columns), law.quantile) <= before:
            return step
        step = step / 2
    return np.zeros_like(step)


def _linear_at(task: Task, values: Array) -> _Straight:
    law, data = task.law, task.data
    gradient = law.gradient(values, data.columns)
    lengths = np.linalg.norm(gradient, axis=0)
    lengths[lengths == 0] = 1.0
    bounds = bounds_of(task)
    return _Straight(
        values=values,
        rows=gradient / lengths,
        lengths=lengths,
        response=data.observed - law.mean(values, data.columns) + gradient @ values,
        low=bounds.low * lengths,
        high=bounds.high * lengths,
    )


def regression_quantile(
    rows: Array, response: Array, quantile: float, low: Array | None = None, high: Array | None = None
) -> Array:
    """The linear regression for a quantile; shape (p,).

    Parameters
    ----------
    low, high
        Bounds of the parameters, shape (p,).

    Notes
    -----
    Without bounds the dual program is smaller: as many weights as trials, between ``quantile - 1`` and
    ``quantile``, that are orthogonal to the columns. The parameters are its multipliers.
    """
    from scipy.optimize import linprog

    n, size = rows.shape
    if low is None or high is None or not (np.isfinite(low) | np.isfinite(high)).any():
        weights = np.column_stack([np.full(n, quantile - 1), np.full(n, quantile)])
        found = linprog(-response, A_eq=rows.T, b_eq=np.zeros(size), bounds=weights, method="highs-ds")
        multipliers: Array = -np.asarray(found.eqlin.marginals, dtype=np.float64)
        return multipliers
    above_and_below = np.column_stack([np.zeros(2 * n), np.full(2 * n, np.inf)])
    found = linprog(
        np.concatenate([np.zeros(size), np.full(n, quantile), np.full(n, 1 - quantile)]),
        A_eq=np.hstack([rows, np.eye(n), -np.eye(n)]),
        b_eq=response,
        bounds=np.vstack([np.column_stack([low, high]), above_and_below]),
        method="highs-ds",
    )
    values: Array = np.asarray(found.x[:size], dtype=np.float64)
    return values


def check_loss(left: Array, quantile: float) -> float:
    """What a regression quantile makes smallest."""
    return float(np.sum(left * (quantile - (left < 0))))


def _solution(task: Task, found: _Straight) -> Solution:
    law, data, held = task.law, task.data, found.held
    mean = law.mean(found.values, data.columns)
    left = (data.observed - mean) / noise_unit(law, mean)
    rows = information_rows(law, found.values, data.columns)
    size = len(held)
    covariance, inverse_gram = np.zeros((size, size)), np.zeros((size, size))
    if not held.all():
        free = np.ix_(~held, ~held)
        covariance[free] = _covariance(found, law.quantile) / np.outer(found.lengths[~held], found.lengths[~held])
        inverse_gram[free] = inverse_of_gram(rows[:, ~held])
    df = float(len(left) - int((~held).sum()))
    found_at_bound = bound_finding(named(task, held))
    findings = [found_at_bound] if found_at_bound is not None else []
    if task.prior is not None:
        text = f"what {task.prior.source} found is not used: a quantile is fitted without a prior"
        findings.append(Finding(Check.PRIOR, True, sentence(text), parameters=task.prior.names))
    return Solution(
        values=found.values,
        covariance=covariance,
        inverse_gram=inverse_gram,
        sigma=float(np.std(left)),
        sigma_df=df,
        df=df,
        mean=mean,
        rows=rows,
        residuals=left,
        method=Method.QUANTILE,
        at_bound=tuple(name for name, one in zip(law.parameters, held, strict=True) if one),
        findings=tuple(findings),
    )


def _covariance(found: _Straight, quantile: float) -> Array:
    """Hendricks and Koenker's sandwich for the parameters that stand at no bound, on columns of length one."""
    distance = min(hall_sheather(len(found.rows), quantile), _WITHIN * min(quantile, 1 - quantile))
    above, below = (found.quantile(quantile + side * distance) for side in (1, -1))
    apart = found.rows @ ((above - below) * found.lengths)
    with np.errstate(all="ignore"):  # where the two cross, the noise's density there is not known
        density = np.where(apart > 0, 2 * distance / apart, 0.0)
    rows = found.rows[:, ~found.held]
    bread = np.linalg.pinv(rows.T @ (density[:, None] * rows))
    covariance: Array = quantile * (1 - quantile) * bread @ (rows.T @ rows) @ bread
    return covariance


def hall_sheather(n: int, quantile: float) -> float:
    """Distance to the quantiles beside one, for 95 % intervals."""
    from scipy import stats

    normal = stats.norm.ppf(quantile)
    peak = 1.5 * stats.norm.pdf(normal) ** 2 / (2 * normal**2 + 1)
    return float(n ** (-1 / 3) * stats.norm.ppf(0.975) ** (2 / 3) * peak ** (1 / 3))
