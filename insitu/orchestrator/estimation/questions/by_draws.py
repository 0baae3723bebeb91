"""Answers by draws: through several laws at once, or where one law has no formula for what is asked."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.gradient import differentiate
from insitu.orchestrator.estimation.questions import columns
from insitu.orchestrator.estimation.questions.columns import Interval, PerColumn, shape_for
from insitu.orchestrator.estimation.questions.model import FittedLaw
from insitu.orchestrator.estimation.questions.queries import Prediction, Quantile
from insitu.orchestrator.estimation.questions.question import Question
from insitu.orchestrator.estimation.questions.simulation import (
    Drawn,
    draw_parameters,
    estimates_of,
    mean_of,
    simulate,
)
from insitu.orchestrator.plan.law_kinds import Link

DRAWS = 100_000
"""Draws for an answer, unless the question says how many."""
_AT_ESTIMATE = 10_000
"""Draws of the noise at the estimates themselves."""
_PARAMETERS_ALONE = 4000
"""Draws of the parameters where no noise has to be drawn with them."""
_STEP = 1e-4
"""Relative change of the cause by which an elasticity through several laws is found."""


def predict_by_draws(
    question: Question, wanted: tuple[float, ...], draws: int, rng: np.random.Generator
) -> Prediction:
    """Predict the outcome of a question, which the answer does not repeat.

    Parameters
    ----------
    wanted
        Quantiles of the distribution over trials; if there are any, residuals stand for the noise where they can.
    """
    fit = question.through[-1].fit
    shape = shape_for(draws, wanted)
    resample = bool(wanted)
    parameters = draw_parameters(question.through, shape.columns, rng)
    drawn = simulate(question.through, question.levels, parameters, shape.rows, rng, resample=resample)
    estimated = _at_estimates(question, rng, resample=resample)
    values = drawn.values[question.outcome]
    tail = (1 - fit.confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    mean = columns.means(drawn.expected).around(float(estimated.expected.mean()), fit.confidence)
    return Prediction(
        outcome=question.outcome,
        unit=fit.unit,
        confidence=fit.confidence,
        mean=mean.value,
        mean_low=mean.low,
        mean_high=mean.high,
        low=float(low),
        high=float(high),
        levels={},
        units={},
        defaults=(),
        leverage=math.nan,
        extrapolated=(),
        quantiles=tuple(
            _quantile(share, values, estimated.values[question.outcome], fit.confidence) for share in wanted
        ),
        draws=values.size,
    )


def _quantile(share: float, values: Array, at_estimates: Array, confidence: float) -> Quantile:
    found = columns.quantiles(values, share).around(float(np.quantile(at_estimates, share)), confidence)
    return Quantile(share, found.value, found.low, found.high)


def _at_estimates(question: Question, rng: np.random.Generator, *, resample: bool = False) -> Drawn:
    estimates = estimates_of(question.through)
    return simulate(question.through, question.levels, estimates, _AT_ESTIMATE, rng, resample=resample)


def contrast_by_draws(
    first: Question, second: Question, draws: int, rng: np.random.Generator, confidence: float
) -> Interval:
    """Change of the outcome's mean between two questions, with the same draws for both."""
    pair = [_mean_of_outcome(question, draws, copy.deepcopy(rng)) for question in (first, second)]
    change = pair[1].columns.minus(pair[0].columns)
    return change.around(pair[1].estimate - pair[0].estimate, confidence)


@dataclass(frozen=True, slots=True, eq=False)
class _Mean:
    estimate: float
    columns: PerColumn


def _mean_of_outcome(question: Question, draws: int, rng: np.random.Generator) -> _Mean:
    shape = shape_for(draws)
    parameters = draw_parameters(question.through, shape.columns, rng)
    drawn = simulate(question.through, question.levels, parameters, shape.rows, rng)
    return _Mean(float(_at_estimates(question, rng).expected.mean()), columns.means(drawn.expected))


def slope_of_one_law(question: Question, cause: str, rng: np.random.Generator) -> Interval:
    """Elasticity of what one law gives: its exact derivative, with an interval from draws of its parameters."""
    fitted = question.through[0]
    drawn = draw_parameters(question.through, _PARAMETERS_ALONE, rng).values[fitted.variable]
    found = _logarithmic_slope(fitted, question.levels, cause, np.column_stack([fitted.fit.values, drawn]))
    values = found[1:]
    return PerColumn(values, values, values).around(float(found[0]), fitted.fit.confidence)


def _logarithmic_slope(fitted: FittedLaw, levels: Mapping[str, float], cause: str, parameters: Array) -> Array:
    """Exact elasticity of a law's mean for each draw of its parameters, shape (k,)."""
    named = dict(zip(fitted.law.parameters, parameters, strict=True))
    here = differentiate(fitted.law.expression, [cause], {**levels, **named}, parameters.shape[1])
    slope = here.slopes[:, 0] * levels[cause]
    if fitted.law.link is Link.LOG:
        return slope
    return np.asarray(slope / mean_of(fitted, parameters, levels))


def slope_by_draws(question: Question, cause: str, rng: np.random.Generator, confidence: float) -> Interval:
    """Elasticity through several laws: a small change of the cause, with the same draws on both sides."""
    ends = []
    for factor in (1 - _STEP, 1 + _STEP):
        moved = replace(question, levels={**question.levels, cause: question.levels[cause] * factor})
        ends.append(_mean_of_outcome(moved, DRAWS, copy.deepcopy(rng)))
    width = math.log((1 + _STEP) / (1 - _STEP))
    change = ends[1].columns.logarithm().minus(ends[0].columns.logarithm()).scaled(1 / width)
    return change.around(math.log(ends[1].estimate / ends[0].estimate) / width, confidence)
