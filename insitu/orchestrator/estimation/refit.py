"""Ordinary least squares of a law on the achieved levels of valid trials; the one door to statsmodels."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.orchestrator.causal.rank import RANK_TOLERANCE, mixed_columns
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.data import Array, FitData, evaluate, gather
from insitu.orchestrator.estimation.fit import Diagnostics, Estimate, Fit, FitPoint, SupportRange
from insitu.orchestrator.estimation.lack_of_fit import check_lack_of_fit, find_missing_term
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law


def fit_law(
    law: Law,
    trials: Sequence[StoredTrial],
    confidence: float = 0.95,
    *,
    variables: Mapping[str, Variable],
) -> Fit:
    """Fit a law that is linear in its parameters.

    Only valid trials count, and of those only the ones in which the law's own variable was not set: a
    variable under intervention leaves its law (truncated factorisation).

    Parameters
    ----------
    confidence
        Level of all intervals, between 0 and 1.
    variables
        The model's variables; they say how the outcome is measured and in which unit.

    Raises
    ------
    NotIdentified
        If there are too few trials, or they cannot tell some parameters apart.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    data = gather(law, trials, variables)
    silent = tuple(name for name, column in zip(law.parameters, data.rows.T, strict=True) if not column.any())
    if silent and len(data.rows):
        law = law.without(silent)
        data = gather(law, trials, variables)
    scales = _check_identified(law, data)
    solved = _solve(law, data, scales, confidence)
    answer = check_lack_of_fit(data)
    missing = None
    if answer.test is not None and answer.test.significant:
        missing = find_missing_term(data, _free_variables(data, variables), _term_texts(law))
    support = tuple(_support(name, data, variables[name]) for name in law.parents)
    return Fit(
        outcome=law.variable,
        unit=variables[law.variable].unit,
        law=law.text,
        confidence=confidence,
        estimates=solved.estimates,
        covariance=_rows(solved.inverse_gram * solved.sigma**2),
        inverse_gram=_rows(solved.inverse_gram),
        sigma=solved.sigma,
        n=len(data.response),
        df=len(data.response) - len(law.parameters),
        r_squared=solved.r_squared,
        lack_of_fit=answer.test,
        lack_of_fit_reason=answer.reason,
        missing_term=missing,
        support=support,
        max_leverage=_edge_leverage(law, data, solved),
        baseline=_baseline(support, data, variables),
        points=solved.points,
        skipped=data.skipped,
        diagnostics=solved.diagnostics,
        not_estimated=silent,
    )


def _check_identified(law: Law, data: FitData) -> Array:
    """Return the lengths of the design matrix's columns, or say what cannot be estimated."""
    names, (n, size) = law.parameters, data.rows.shape
    if n <= size:
        raise NotIdentified(
            f"{n} valid trials are too few for the {size} parameters of {law.variable} and their intervals",
            hint=f"at least {size + 1} are needed; see `insitu show` for trials that are not valid",
            parameters=names,
        )
    if sets := mixed_columns(data.rows):
        mixed = [tuple(names[index] for index in one) for one in sets]
        told = [
            f"tell {' and '.join(one)} apart" if len(one) > 1 else f"say anything about {one[0]}" for one in mixed
        ]
        raise NotIdentified(
            f"the trials cannot {', nor '.join(told)} in the law of {law.variable}",
            hint="vary the levels of their variables independently of each other",
            parameters=tuple(name for one in mixed for name in one),
        )
    scales: Array = np.linalg.norm(data.rows, axis=0)
    return scales


@dataclass(frozen=True, slots=True)
class _Solved:
    estimates: tuple[Estimate, ...]
    inverse_gram: Array
    sigma: float
    r_squared: float
    points: tuple[FitPoint, ...]
    diagnostics: Diagnostics


def _solve(law: Law, data: FitData, scales: Array, confidence: float) -> _Solved:
    from statsmodels.regression.linear_model import OLS

    # columns of length one: seconds stand beside bytes per core, and a pseudo-inverse drops what looks small
    fitted = OLS(data.response, data.rows / scales).fit()
    intervals = fitted.conf_int(alpha=1 - confidence)
    estimates = tuple(
        _estimate(law, name, fitted, intervals, index, float(scales[index]))
        for index, name in enumerate(law.parameters)
    )
    inverse_gram = np.asarray(fitted.normalized_cov_params) / np.outer(scales, scales)
    sigma = math.sqrt(fitted.scale)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leverage = np.asarray(fitted.get_influence().hat_matrix_diag)
        cooks = fitted.resid**2 / (len(law.parameters) * fitted.scale) * leverage / (1 - leverage) ** 2
    half = _t_quantile(confidence, fitted.df_resid) * sigma * np.sqrt(1 + leverage)
    predicted = np.asarray(fitted.fittedvalues) + data.offsets
    observed = data.response + data.offsets
    points = tuple(
        FitPoint(
            trial=trial.planned.trial,
            levels=data.levels[index],
            observed=float(observed[index]),
            predicted=float(predicted[index]),
            low=float(predicted[index] - half[index]),
            high=float(predicted[index] + half[index]),
            residual=float(fitted.resid[index]),
            leverage=float(leverage[index]),
            cooks_distance=float(cooks[index]),
        )
        for index, trial in enumerate(data.trials)
    )
    total = float(((observed - observed.mean()) ** 2).sum())
    r_squared = 1 - float(fitted.ssr) / total if total > 0 else math.nan
    diagnostics = _diagnose(data, np.asarray(fitted.resid), leverage, data.rows / scales)
    return _Solved(estimates, inverse_gram, sigma, r_squared, points, diagnostics)


def _estimate(law: Law, name: str, fitted: Any, intervals: Array, index: int, length: float) -> Estimate:
    to_reported = law.parameter_scales[name] / length
    low, high = sorted((float(intervals[index, 0]) * to_reported, float(intervals[index, 1]) * to_reported))
    return Estimate(
        name=name,
        unit=law.parameter_units[name],
        reported=float(fitted.params[index]) * to_reported,
        reported_low=low,
        reported_high=high,
        reported_std_error=float(fitted.bse[index]) * abs(to_reported),
        base=float(fitted.params[index]) / length,
        p_value=float(fitted.pvalues[index]),
    )


def _t_quantile(confidence: float, df: float) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, df))


def _diagnose(data: FitData, residuals: Array, leverage: Array, scaled: Array) -> Diagnostics:
    from scipy import stats
    from statsmodels.stats.diagnostic import het_breuschpagan

    most = int(np.argmax(leverage))
    uneven = normal = None
    if residuals.std() > 1e-12 * max(1e-300, float(np.abs(data.response).max())):
        regressors = np.column_stack([np.ones(len(residuals)), scaled])
        if np.linalg.matrix_rank(regressors, tol=RANK_TOLERANCE) <= scaled.shape[1]:
            regressors = scaled  # the constant is among the law's own columns
        if 1 < regressors.shape[1] < len(residuals):
            with np.errstate(all="ignore"):
                uneven = float(het_breuschpagan(residuals, regressors)[1])
        normal = float(stats.shapiro(residuals).pvalue)
    return Diagnostics(
        heteroscedasticity_p=uneven if uneven is not None and math.isfinite(uneven) else None,
        normality_p=normal,
        max_leverage=float(leverage[most]),
        max_leverage_trial=data.trials[most].planned.trial,
        condition_number=float(np.linalg.cond(scaled)),
    )


def _level_records(data: FitData, name: str) -> list[LevelRecord]:
    return [
        level
        for trial in data.trials
        if trial.record is not None
        for level in trial.record.levels
        if level.variable == name
    ]


def _support(name: str, data: FitData, variable: Variable) -> SupportRange:
    records = _level_records(data, name)
    held = sorted(
        {
            level.requested
            for level in records
            if level.verdict in (LevelVerdict.HELD, LevelVerdict.EXACT) and math.isfinite(level.requested)
        }
    )
    seen = [levels[name] for levels in data.levels if math.isfinite(levels[name])]
    unset = [level for level in records if level.verdict is LevelVerdict.UNSET]
    natural = [
        level.achieved for level in unset if level.achieved is not None and math.isfinite(level.achieved)
    ] or [math.inf for _ in unset]  # never in use, or not measured here: it never held the subject up
    span = [*seen, *held] or [math.nan]
    return SupportRange(
        variable=name,
        unit=variable.unit,
        low=min(span),
        high=max(span),
        requested=tuple(held),
        natural=statistics.median(natural) if natural else None,
    )


def _baseline(
    support: Sequence[SupportRange], data: FitData, variables: Mapping[str, Variable]
) -> dict[str, float]:
    """Levels without any intervention: what the machine gave, and the subject's own parameters there."""
    untouched = [levels for trial, levels in zip(data.trials, data.levels, strict=True) if trial.planned.baseline]
    baseline: dict[str, float] = {}
    for span in support:
        seen = [levels[span.variable] for levels in untouched if math.isfinite(levels[span.variable])]
        if seen and variables[span.variable].role is Role.PARAMETER:
            baseline[span.variable] = statistics.median_low(seen)
        elif seen:
            baseline[span.variable] = statistics.median(seen)
        elif span.natural is not None:
            baseline[span.variable] = span.natural
        elif len(span.requested) == 1:
            baseline[span.variable] = span.requested[0]
    return baseline


def _edge_leverage(law: Law, data: FitData, solved: _Solved) -> float:
    """Largest leverage of what was fitted and of what was asked for, which may lie a little further out."""
    edge = max(point.leverage for point in solved.points)
    for trial, levels in zip(data.trials, data.levels, strict=True):
        if trial.record is None:
            continue
        asked = {
            level.variable: level.requested
            for level in trial.record.levels
            if level.verdict is LevelVerdict.HELD and math.isfinite(level.requested)
        }
        here = evaluate(law, {**levels, **asked})
        if here.finite:
            edge = max(edge, float(here.row @ solved.inverse_gram @ here.row))
    return edge


def _free_variables(data: FitData, variables: Mapping[str, Variable]) -> list[str]:
    """Variables that a trial may set and that every fitted trial has a level of."""
    return [
        name
        for name, variable in variables.items()
        if variable.role in (Role.PARAMETER, Role.SET) and all(name in levels for levels in data.levels)
    ]


def _term_texts(law: Law) -> list[str]:
    return [law.term_texts.get(name, name) for name in law.parameters]


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(cell) for cell in row) for row in matrix)
