"""Dose-response curves of a fitted law: one factor varies, the others stand at stated levels."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fit import Fit, SupportRange
from insitu.orchestrator.estimation.questions.model import FittedLaw, match
from insitu.orchestrator.estimation.questions.queries import is_defined, predict

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Outcome at one level: mean with confidence interval, and prediction interval of one new trial."""

    level: float
    mean: float
    mean_low: float
    mean_high: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CurveTrial:
    """One trial beside the curve.

    Attributes
    ----------
    adjusted
        The curve at this trial's level plus the trial's residual, or times its ratio to the law where the noise is
        relative: what it would have shown had its other variables stood where the curve's do, if the law is right.
    """

    trial: int
    level: float
    observed: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The outcome against one factor, base units.

    Attributes
    ----------
    at
        Levels of the others.
    words
        Of variables with categories: what their numbers stand for.
    points
        Of a factor with categories one for each that was tried, else close together.
    """

    variable: str
    unit: str
    outcome: str
    outcome_unit: str
    at: dict[str, float]
    units: dict[str, str]
    words: dict[str, tuple[str, ...]]
    logarithmic: bool
    points: tuple[CurvePoint, ...]
    trials: tuple[CurveTrial, ...]


def dose_response(
    fit: Fit, law: Law, points: int = 81, words: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[Curve, ...]:
    """Compute a curve for each factor that trials varied, within the data's support.

    Parameters
    ----------
    words
        Of variables with categories.
    """
    fitted = match(fit, law)
    reference = {support.variable: _reference(fit, support) for support in fit.support}
    return tuple(
        _curve(fitted, support, reference, points, words or {})
        for support in fit.support
        if support.varied and support.low < support.high
    )


def _reference(fit: Fit, support: SupportRange) -> float:
    if support.variable in fit.baseline:
        return fit.baseline[support.variable]
    return statistics.median_low([point.levels[support.variable] for point in fit.points])


def _curve(
    fitted: FittedLaw,
    support: SupportRange,
    reference: dict[str, float],
    points: int,
    words: Mapping[str, tuple[str, ...]],
) -> Curve:
    fit = fitted.fit
    at = {name: level for name, level in reference.items() if name != support.variable}
    logarithmic = support.variable not in words and support.low > 0 and support.high / support.low > 8
    grid = _tried(fit, support) if support.variable in words else _grid(support, points, logarithmic=logarithmic)
    drawn = []
    for level in grid:
        here = {**at, support.variable: float(level)}
        if is_defined(fitted, here):
            answer = predict(fitted, here)
            drawn.append(
                CurvePoint(float(level), answer.mean, answer.mean_low, answer.mean_high, answer.low, answer.high)
            )
    trials = []
    for point in fit.points:
        level = point.levels[support.variable]
        if np.isfinite(level):
            mean = predict(fitted, {**at, support.variable: level}).mean
            moved = mean / point.predicted * point.observed if fit.noise.relative else mean + point.residual
            trials.append(CurveTrial(point.trial, level, point.observed, moved))
    return Curve(
        variable=support.variable,
        unit=support.unit,
        outcome=fit.outcome,
        outcome_unit=fit.unit,
        at=at,
        units={span.variable: span.unit for span in fit.support},
        words={name: one for name, one in words.items() if name in reference},
        logarithmic=logarithmic,
        points=tuple(drawn),
        trials=tuple(trials),
    )


def _grid(support: SupportRange, points: int, *, logarithmic: bool) -> Array:
    """Levels from end to end, shape (points,)."""
    space = np.geomspace if logarithmic else np.linspace
    grid: Array = np.clip(space(support.low, support.high, points), support.low, support.high)
    return grid


def _tried(fit: Fit, support: SupportRange) -> Array:
    """Numbers of the categories that trials had; there is nothing between them."""
    return np.unique([point.levels[support.variable] for point in fit.points])
