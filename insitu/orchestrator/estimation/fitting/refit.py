"""A law fitted to the achieved levels of valid trials: the parameters, what is known of them, and the checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.diagnostics import diagnose, findings_of
from insitu.orchestrator.estimation.checks.influence import Influence, influence_of
from insitu.orchestrator.estimation.checks.lack_of_fit import (
    LackOfFitAnswer,
    Leftover,
    candidates,
    check_lack_of_fit,
    find_missing_term,
)
from insitu.orchestrator.estimation.checks.patterns import dummies
from insitu.orchestrator.estimation.fit import Estimate, Fit, FitPoint, Matrix
from insitu.orchestrator.estimation.fitting.at_bounds import bounds_of
from insitu.orchestrator.estimation.fitting.data import gather, noise_unit
from insitu.orchestrator.estimation.fitting.prior import Prior
from insitu.orchestrator.estimation.fitting.prior_files import prior_of
from insitu.orchestrator.estimation.fitting.robust import clipped
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.estimation.fitting.spread import Band, Spread
from insitu.orchestrator.estimation.fitting.starts import silent_parameters
from insitu.orchestrator.estimation.questions.ranges import baseline_of, edge_leverage, free_variables, support_of
from insitu.orchestrator.plan.law_kinds import Link, Method
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.store.records import StoredTrial

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law


def fit_law(
    law: Law,
    trials: Sequence[StoredTrial],
    confidence: float = 0.95,
    *,
    variables: Mapping[str, Variable],
    prior: Prior | None = None,
) -> Fit:
    """Fit a law by its link, its noise and its method.

    Only valid trials count, and of those only the ones in which the law's own variable was not set: a
    variable under intervention leaves its law (truncated factorisation).

    Parameters
    ----------
    confidence
        Level of all intervals, between 0 and 1.
    variables
        The model's variables; they say how the outcome is measured and in which unit.
    prior
        What is known of some of the parameters; if not given, what the runs that the law names found.

    Raises
    ------
    NotIdentified
        If there are too few trials, or they cannot tell some parameters apart.
    InputError
        If what a named run found is not about this law.
    """
    task = task_of(law, trials, confidence, variables=variables, prior=prior)
    return _fit(task, solve(task), tuple(name for name in law.parameters if name not in task.law.parameters))


def fit_quantile(
    law: Law,
    trials: Sequence[StoredTrial],
    q: float,
    confidence: float = 0.95,
    *,
    variables: Mapping[str, Variable],
) -> Fit:
    """Fit a quantile of the outcome in the place of its mean, such as p95 or p99.

    Parameters
    ----------
    q
        Between 0 and 1; the others as of `fit_law`.

    Raises
    ------
    NotIdentified
        If there are too few trials for that quantile, or they cannot tell some parameters apart.
    """
    if not 0 < q < 1:
        raise ValueError(f"a quantile of {q} is not between 0 and 1")
    asked = replace(law, method=Method.QUANTILE, quantile=q)
    return fit_law(asked, trials, confidence, variables=variables)


def task_of(
    law: Law,
    trials: Sequence[StoredTrial],
    confidence: float = 0.95,
    *,
    variables: Mapping[str, Variable],
    prior: Prior | None = None,
) -> Task:
    """A law and the trials that can tell it, without the parameters that no trial says anything of."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    prior = prior if prior is not None else prior_of(law)
    data = gather(law, trials, variables)
    if len(data.observed):
        known = prior.names if prior is not None else ()
        silent = tuple(name for name in silent_parameters(law, data.columns) if name not in known)
        if silent:
            law = law.without(silent)
            data = gather(law, trials, variables)
    return Task(law, data, variables, confidence, prior.about(law) if prior is not None else None)


def _fit(task: Task, solution: Solution, silent: tuple[str, ...]) -> Fit:
    law, data, variables = task.law, task.data, task.variables
    influence = influence_of(solution, law.noise)
    numbers = diagnose(task, solution, influence)
    lack = _lack_of_fit(task, solution)
    support = tuple(support_of(name, data, variables[name]) for name in law.parents)
    unit = variables[law.variable].unit
    return Fit(
        outcome=law.variable,
        unit=unit,
        law=law.text,
        confidence=task.confidence,
        estimates=_estimates(task, solution),
        covariance=_matrix(solution.covariance),
        inverse_gram=_matrix(solution.inverse_gram),
        sigma=solution.sigma,
        n=len(data.observed),
        df=solution.df,
        r_squared=_r_squared(data.observed, solution.mean),
        lack_of_fit=lack.test,
        lack_of_fit_reason=lack.reason,
        missing_term=lack.missing,
        support=support,
        max_leverage=edge_leverage(task, solution),
        baseline=baseline_of(support, data, variables),
        points=_points(task, solution, influence),
        skipped=data.skipped,
        diagnostics=numbers,
        not_estimated=silent,
        link=law.link,
        noise=law.noise,
        method=solution.method,
        quantile=law.quantile if solution.method is Method.QUANTILE else None,
        sigma_df=solution.sigma_df,
        at_bound=solution.at_bound,
        groups=solution.groups,
        prior=solution.prior,
        findings=findings_of(task, solution, influence, numbers, lack, unit),
    )


def _estimates(task: Task, solution: Solution) -> tuple[Estimate, ...]:
    from scipy import stats

    law, errors = task.law, solution.standard_errors
    band = solution.intervals
    dfs = np.full(len(errors), solution.df) if solution.dfs is None else solution.dfs
    if band is None:
        half = stats.t.ppf((1 + task.confidence) / 2, dfs) * errors
        bounds = bounds_of(task)  # what they exclude is in no interval
        band = Band(
            np.maximum(solution.values - half, bounds.low), np.minimum(solution.values + half, bounds.high)
        )
    with np.errstate(all="ignore"):
        ratios = np.where(errors > 0, solution.values / errors, np.where(solution.values == 0, 0.0, np.inf))
    p_values = 2 * stats.t.sf(np.abs(ratios), dfs)
    found = []
    for index, name in enumerate(law.parameters):
        scale = law.parameter_scales[name]
        low, high = sorted((float(band.low[index]) * scale, float(band.high[index]) * scale))
        found.append(
            Estimate(
                name=name,
                unit=law.parameter_units[name],
                reported=float(solution.values[index]) * scale,
                reported_low=low,
                reported_high=high,
                reported_std_error=float(errors[index]) * abs(scale),
                base=float(solution.values[index]),
                p_value=float(p_values[index]),
            )
        )
    return tuple(found)


def _points(task: Task, solution: Solution, influence: Influence) -> tuple[FitPoint, ...]:
    law, data = task.law, task.data
    gradient = solution.rows * noise_unit(law, solution.mean)[:, None]
    errors = np.sqrt(np.clip(np.einsum("ij,jk,ik->i", gradient, solution.covariance, gradient), 0, None))
    spread = Spread(law.link, law.noise, solution.sigma, solution.sigma_df, solution.df)
    whole = solution.method is not Method.QUANTILE
    band = (spread.trial_band if whole else spread.mean_band)(solution.mean, errors, task.confidence)
    return tuple(
        FitPoint(
            trial=number,
            levels=data.levels[index],
            observed=float(data.observed[index]),
            predicted=float(solution.mean[index]),
            low=float(band.low[index]),
            high=float(band.high[index]),
            residual=float(data.observed[index] - solution.mean[index]),
            leverage=float(influence.leverage[index]),
            cooks_distance=float(influence.cooks_distance[index]),
            studentised=float(influence.studentised[index]),
        )
        for index, number in enumerate(data.numbers)
    )


def _lack_of_fit(task: Task, solution: Solution) -> LackOfFitAnswer:
    if solution.method is Method.QUANTILE:
        return LackOfFitAnswer(None, "the test is one of means, and this is a quantile")
    law, data = task.law, task.data
    unit = noise_unit(law, solution.mean)
    held = np.array([name in solution.at_bound for name in law.parameters], dtype=np.bool_)
    spans = [solution.rows[:, ~held]]
    if solution.method in (Method.CLUSTERED, Method.MIXED):  # nodes and days may have offsets of their own
        spans += [dummies(data.nodes), dummies(data.days)]
    left = Leftover(
        rows=np.hstack(spans),
        residuals=clipped(solution),
        groups=data.groups,
        size=float(((data.observed / unit) ** 2).sum()),
        held=solution.rows[:, held],
        per_term=(solution.mean if law.link is Link.LOG else np.ones_like(unit)) / unit,
    )
    answer = check_lack_of_fit(left)
    if answer.test is None or not answer.test.significant:
        return answer
    levels = {name: data.column(name) for name in free_variables(data, task.variables)}
    terms = _terms(law, data.columns) if law.linear else {}
    return replace(answer, missing=find_missing_term(left, candidates(levels, terms)))


def _terms(law: Law, columns: Mapping[str, Array]) -> dict[str, Array]:
    """Text of each term of a linear law to its value in each trial."""
    rows, texts = law.design_matrix(columns), law.term_texts
    return {texts.get(name, name): rows[:, index] for index, name in enumerate(law.parameters)}


def _r_squared(observed: Array, mean: Array) -> float:
    total = float(((observed - observed.mean()) ** 2).sum())
    return 1 - float(((observed - mean) ** 2).sum()) / total if total > 0 else math.nan


def _matrix(matrix: Array) -> Matrix:
    return tuple(tuple(float(cell) for cell in row) for row in matrix)
