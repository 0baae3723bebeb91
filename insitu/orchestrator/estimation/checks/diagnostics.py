"""What a statistician asks of a fit, each with one sentence of what it means here."""

from __future__ import annotations

import math

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.influence import (
    Influence,
    influence_finding,
    leverage_finding,
    of_normal_shape,
)
from insitu.orchestrator.estimation.checks.lack_of_fit import LackOfFitAnswer, orthonormal_basis
from insitu.orchestrator.estimation.checks.level_errors import level_errors_finding
from insitu.orchestrator.estimation.checks.patterns import residual_patterns
from insitu.orchestrator.estimation.checks.words import joined, p_text, sentence
from insitu.orchestrator.estimation.fit import Diagnostics
from insitu.orchestrator.estimation.fitting.identified import is_constant
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.plan.law_kinds import Method, Noise
from insitu.orchestrator.units import format_quantity

_UNEVEN = 0.05
_WRONG_SHAPE = 0.01
_HARD_TO_TELL_APART = 30.0
"""Condition number from which parameters are hard to tell apart (Belsley, Kuh and Welsch)."""
_TAKES_PART = 0.5
"""Share of a parameter's variance along the worst direction, from which it is named."""
_ROUNDING = 1e-12


def diagnose(task: Task, solution: Solution, influence: Influence) -> Diagnostics:
    """The checks that are numbers."""
    scaled = _of_length_one(solution.rows)
    most = int(np.argmax(influence.leverage))
    uneven = shape = None
    if _has_noise(task, solution) and len(solution.residuals) > 2:
        uneven = _uneven_spread(solution.alone.residuals, scaled)
        shape = _shape(task, solution)
    return Diagnostics(
        heteroscedasticity_p=uneven,
        normality_p=shape,
        max_leverage=float(influence.leverage[most]),
        max_leverage_trial=task.data.numbers[most],
        condition_number=float(np.linalg.cond(scaled)) if scaled.shape[1] else 1.0,
    )


def _of_length_one(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=0)
    scaled: Array = rows[:, lengths > 0] / lengths[lengths > 0]
    return scaled


def _has_noise(task: Task, solution: Solution) -> bool:
    size = 1.0 if task.law.relative_noise else max(1e-300, float(np.abs(task.data.observed).max()))
    return bool(solution.residuals.std() > _ROUNDING * size)


def _uneven_spread(left: Array, scaled: Array) -> float | None:
    """Breusch and Pagan's test of the spread against the law's own columns."""
    from statsmodels.stats.diagnostic import het_breuschpagan

    ones = np.ones((len(left), 1))
    spanned = orthonormal_basis(np.hstack([ones, scaled]))
    directions, strengths, _ = np.linalg.svd(spanned - spanned.mean(axis=0), full_matrices=False)
    away = directions[:, strengths > RANK_TOLERANCE]
    if not 0 < away.shape[1] < len(left) - 1:
        return None
    regressors = np.hstack([ones, away])
    with np.errstate(all="ignore"):
        p_value = float(het_breuschpagan(left, regressors)[1])
    return p_value if math.isfinite(p_value) else None


def _shape(task: Task, solution: Solution) -> float | None:
    """Shapiro and Wilk's test of residuals that are normal where the noise is what the law says."""
    from scipy import stats

    left = solution.alone.residuals
    nodes = np.unique(task.data.nodes, return_inverse=True)[1]
    if solution.method is Method.CLUSTERED and 2 * (nodes.max() + 1) <= len(left):
        left = left - (np.bincount(nodes, left) / np.bincount(nodes))[nodes]
    if task.law.noise is Noise.GAMMA:
        left = of_normal_shape(left, solution.alone.sigma)
    size = float(np.abs(left).max()) or 1.0  # it takes small numbers for zero
    return float(stats.shapiro(left[:5000] / size).pvalue)  # its p values are known up to 5,000


def findings_of(
    task: Task,
    solution: Solution,
    influence: Influence,
    numbers: Diagnostics,
    lack: LackOfFitAnswer,
    unit: str,
) -> tuple[Finding, ...]:
    """Every check's finding, in the order of `Check`."""
    found = [*solution.findings]
    if is_constant(task.data.observed):
        level = format_quantity(float(task.data.observed[0]), unit)
        text = (
            f"the outcome {task.law.variable} is {level} in every trial, so there is no noise to judge the law "
            "by, and no effect to be seen"
        )
        found.append(Finding(Check.CONSTANT, True, sentence(text)))
    if task.data.skipped:
        found.append(_skipped(task))
    if task.law.parameters:
        found.append(leverage_finding(task, influence))
        found.append(_collinearity(task, solution, numbers))
    if solution.method is not Method.QUANTILE and _has_noise(task, solution):
        found += [influence_finding(task, solution, influence)] if task.law.parameters else []
        found += residual_patterns(task, solution, unit)
        found += _assumptions(task, solution, numbers)
        found.append(_lack_of_fit(lack))
        errors = level_errors_finding(task, solution)
        found += [errors] if errors is not None else []
    order = list(Check)
    return tuple(sorted(found, key=lambda one: order.index(one.check)))


def _skipped(task: Task) -> Finding:
    shown = [f"trial {one.trial} ({one.reason})" for one in task.data.skipped[:3]]
    more = len(task.data.skipped) - len(shown)
    named = joined([*shown, f"{more} more"] if more else shown)
    trials = tuple(one.trial for one in task.data.skipped)
    was = "was" if len(trials) == 1 else "were"
    return Finding(Check.SKIPPED, True, sentence(f"{named} {was} valid, but could not be fitted"), trials=trials)


def _assumptions(task: Task, solution: Solution, numbers: Diagnostics) -> list[Finding]:
    """Even spread, and the shape of the noise."""
    found = []
    uneven, shape = numbers.heteroscedasticity_p, numbers.normality_p
    if uneven is not None:
        if uneven < _UNEVEN:
            grows = np.corrcoef(np.abs(solution.alone.residuals), solution.mean)[0, 1] > 0
            remedy = ""
            if grows and not task.law.relative_noise:
                remedy = "; it grows with the outcome, which `noise: gamma` in the model would allow for"
            text = (
                f"the noise is larger at some levels than at others ({p_text(uneven)}), so intervals are too wide "
                f"at some and too narrow at others{remedy}"
            )
        else:
            text = f"the noise is as large at all levels as far as the trials tell ({p_text(uneven)})"
        found.append(Finding(Check.SPREAD, uneven < _UNEVEN, sentence(text), uneven))
    if shape is not None:
        kind = task.law.noise.value
        if shape < _WRONG_SHAPE:
            remedy = "" if solution.method is Method.ROBUST else ", and consider `fit: robust` in the model"
            text = (
                f"the noise is not {kind} ({p_text(shape)}): prediction intervals are approximate; "
                f"look for outliers{remedy}"
            )
        else:
            text = f"the noise may well be {kind}, as the intervals of new trials take it to be ({p_text(shape)})"
        found.append(Finding(Check.SHAPE, shape < _WRONG_SHAPE, sentence(text), shape))
    return found


def _lack_of_fit(lack: LackOfFitAnswer) -> Finding:
    test = lack.test
    if test is None:
        return Finding(Check.LACK_OF_FIT, False, sentence(f"lack of fit is not tested: {lack.reason}"))
    if not test.significant:
        text = f"the law misses no more than replicates differ among themselves ({p_text(test.p_value)})"
        return Finding(Check.LACK_OF_FIT, False, sentence(text), test.p_value)
    text = f"the law misses more than replicates differ among themselves ({p_text(test.p_value)})."
    text += f" {lack.missing.sentence}" if lack.missing is not None else ""
    return Finding(Check.LACK_OF_FIT, True, sentence(text), test.p_value)


def _collinearity(task: Task, solution: Solution, numbers: Diagnostics) -> Finding:
    """Parameters that the trials can hardly tell apart.

    Notes
    -----
    D. A. Belsley, E. Kuh and R. E. Welsch, *Regression Diagnostics*, section 3.2.
    """
    number = numbers.condition_number
    if number <= _HARD_TO_TELL_APART:
        text = f"the trials tell the parameters apart (condition number {number:.3g})"
        return Finding(Check.COLLINEARITY, False, sentence(text))
    lengths = np.linalg.norm(solution.rows, axis=0)
    names = [name for name, length in zip(task.law.parameters, lengths, strict=True) if length > 0]
    _, strengths, directions = np.linalg.svd(_of_length_one(solution.rows), full_matrices=False)
    shares = (directions / strengths[:, None]) ** 2
    worst = shares[-1] / shares.sum(axis=0)
    hard = tuple(name for name, share in zip(names, worst, strict=True) if share > _TAKES_PART)
    wider = math.sqrt(float(shares.sum(axis=0).max()))
    text = (
        f"the parameters {joined(hard or names)} can hardly be told apart (condition number {number:.3g}): "
        f"their intervals are up to {wider:.2g} times as wide as if the others were known; vary the levels of "
        "their variables more, independently of each other"
    )
    return Finding(Check.COLLINEARITY, True, sentence(text), parameters=hard)
