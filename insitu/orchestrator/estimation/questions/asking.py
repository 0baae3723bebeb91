"""What-if questions, effects and elasticities through a whole fitted model, each with an interval and a fidelity.

A question that one law answers by itself is answered in closed form (`queries`); one that goes through several is
answered by draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.questions import queries
from insitu.orchestrator.estimation.questions.by_draws import (
    DRAWS,
    contrast_by_draws,
    predict_by_draws,
    slope_by_draws,
    slope_of_one_law,
)
from insitu.orchestrator.estimation.questions.columns import shape_for
from insitu.orchestrator.estimation.questions.fidelity import Fidelity, judge
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.queries import Effect, Prediction
from insitu.orchestrator.estimation.questions.question import Question, check_names, pose, used_anyhow
from insitu.orchestrator.estimation.questions.simulation import draw_parameters, has_residuals, simulate
from insitu.orchestrator.estimation.questions.support import SLACK, refuse

FEWEST_DRAWS = 1000
SHOWN_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of a distribution that was asked for without naming any."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    """By how many percent the outcome's mean changes when the cause grows by one percent.

    Attributes
    ----------
    value, low, high
        d log(mean of the outcome) / d log(cause), with its confidence interval.
    mean
        Of the outcome at these levels, base units.
    """

    cause: str
    outcome: str
    unit: str
    confidence: float
    value: float
    low: float
    high: float
    mean: float
    levels: dict[str, float]
    units: dict[str, str]
    defaults: tuple[str, ...]
    slack: tuple[str, ...]
    extrapolated: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    fidelity: Fidelity


def whatif(
    model: FittedModel,
    outcome: str,
    do: Mapping[str, float],
    rng: np.random.Generator,
    *,
    quantiles: Sequence[float] = (),
    draws: int | None = None,
    extrapolate: bool = False,
) -> Prediction:
    """Predict a variable under do(variable := level).

    Parameters
    ----------
    do
        Base-unit levels; infinity is *unlimited*. Variables left out stand at the baseline.
    quantiles
        Of the distribution over trials, each between 0 and 1.
    draws
        Answer by so many draws, also where one law would answer in closed form, and show the distribution.
    extrapolate
        Answer outside the data's support too, and say so in the answer.

    Raises
    ------
    OutsideSupport
        If the data have nothing to say about these levels.
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        If a name, a level, a quantile or the number of draws is not what it should be.
    """
    _check_numbers(quantiles, draws)
    question = pose(model, outcome, do, extrapolate=extrapolate)
    wanted = tuple(quantiles) or (SHOWN_QUANTILES if draws is not None else ())
    if draws is None and len(question.through) == 1:
        answer = _by_one_law(question, wanted, rng)
    else:
        answer = predict_by_draws(question, wanted, draws or DRAWS, rng)
    return replace(
        answer,
        levels=question.levels,
        units=_units(model, question),
        defaults=question.defaults,
        extrapolated=question.outside,
        slack=question.slack,
        between={name: mean for name, mean in question.usual.items() if name != outcome},
        words=model.words,
        fidelity=judge(model, question.through, question.supports()),
    )


def draw(
    model: FittedModel,
    outcome: str,
    do: Mapping[str, float],
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    extrapolate: bool = False,
) -> dict[str, Array]:
    """Draw trials under do(): every variable between the question and the outcome, which is the last.

    Returns
    -------
    dict
        Variable to its values, each of shape (n,) with n at least `draws`.

    Raises
    ------
    InputError
        As for `whatif`.
    """
    _check_numbers((), draws)
    question = pose(model, outcome, do, extrapolate=extrapolate)
    shape = shape_for(draws)
    parameters = draw_parameters(question.through, shape.columns, rng)
    drawn = simulate(question.through, question.levels, parameters, shape.rows, rng, resample=True)
    return {name: values.ravel() for name, values in drawn.values.items()}


def effect(
    model: FittedModel,
    cause: str,
    outcome: str,
    rng: np.random.Generator,
    *,
    low: float | None = None,
    high: float | None = None,
    at: Mapping[str, float] | None = None,
    draws: int | None = None,
    extrapolate: bool = False,
) -> Effect:
    """Estimate the change of a variable's mean when another goes from one level to another, by every path.

    Parameters
    ----------
    low, high
        The two levels; the ends of what was tried if not given.
    at
        Levels of other variables; those left out stand at the baseline.

    Raises
    ------
    OutsideSupport
        If one end lies outside the data's support.
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        If a name or a level is not what it should be, the effect is one of a variable on itself, or the two levels
        are one.
    """
    _check_numbers((), draws)
    others = dict(at or {})
    _check_cause(model, cause, outcome, others)
    if low is None or high is None:
        ends = _tried_ends(model, cause, outcome)
        low, high = ends[0] if low is None else low, ends[1] if high is None else high
    if low == high:
        shown = model.variable(cause).spell(low)
        raise InputError(
            f"an effect lies between two levels of {cause}, and both are {shown}", hint="give two that differ"
        )
    levels = (low, high)
    first, second = (pose(model, outcome, {**others, cause: level}, extrapolate=True) for level in levels)
    refuse((*first.outside, *second.outside), extrapolate=extrapolate)
    confidence = first.through[-1].fit.confidence
    if draws is None and len(first.through) == 1:
        change = queries.contrast(first.through[0], first.levels, second.levels)
    else:
        change = contrast_by_draws(first, second, draws or DRAWS, rng, confidence)
    half = (change.high - change.low) / 2
    between = _on_the_way(model, cause, outcome, others)
    return Effect(
        cause=cause,
        cause_unit=model.units[cause],
        outcome=outcome,
        unit=model.units[outcome],
        confidence=confidence,
        low=first.levels[cause],
        high=second.levels[cause],
        change=change.value,
        change_low=change.low,
        change_high=change.high,
        relative_half_width=half / abs(change.value) if change.value else math.inf,
        at={name: level for name, level in first.levels.items() if name != cause},
        units=_units(model, first),
        defaults=first.defaults,
        extrapolated=tuple(dict.fromkeys((*first.outside, *second.outside))),
        slack=tuple(dict.fromkeys((*first.slack, *second.slack))),
        through=tuple(one.variable for one in first.through[:-1] if one.variable in between),
        direct=cause in first.through[-1].law.parents,
        words=model.words,
        fidelity=judge(model, first.through, (*first.supports(), *second.supports())),
    )


def elasticity(
    model: FittedModel,
    cause: str,
    outcome: str,
    at: Mapping[str, float],
    rng: np.random.Generator,
    *,
    extrapolate: bool = False,
) -> Elasticity:
    """Estimate by how many percent a variable's mean changes per percent of another, by every path.

    Parameters
    ----------
    at
        Levels, also of the cause; those left out stand at the baseline.

    Raises
    ------
    OutsideSupport
        If the levels lie outside the data's support.
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        As for `effect`; or if the cause does not stand at a finite level above zero, or the outcome's mean not
        above zero, where there is no elasticity; or if it is a cap that does not bind, of which one percent more
        is without effect, and one percent less is not.
    """
    others = {name: level for name, level in at.items() if name != cause}
    _check_cause(model, cause, outcome, others)
    check_names(model, outcome, {cause: 0.0})
    if model.blueprint.variables[cause].categories:
        raise InputError(f"{cause} has categories, so it cannot grow by one percent", hint="ask for its effect")
    standing = at if cause in at else {**at, cause: pose(model, outcome, at, extrapolate=True).everywhere[cause]}
    question = pose(model, outcome, standing, extrapolate=extrapolate)
    level = question.levels[cause]
    _refuse_free(model, question, cause, asked=cause in at)
    if not (math.isfinite(level) and level > 0):
        raise InputError(
            f"{cause} has to stand at a finite level above zero to grow by one percent",
            hint=f"give it one with --at {cause}=<level>",
        )
    mean = question.usual[outcome]
    if not mean > 0:
        raise InputError(f"{outcome} is {mean:g} there, and an elasticity needs it above zero")
    confidence = question.through[-1].fit.confidence
    if len(question.through) == 1:
        found = slope_of_one_law(question, cause, rng)
    else:
        found = slope_by_draws(question, cause, rng, confidence)
    return Elasticity(
        cause=cause,
        outcome=outcome,
        unit=model.units[outcome],
        confidence=confidence,
        value=found.value,
        low=found.low,
        high=found.high,
        mean=mean,
        levels=question.levels,
        units=_units(model, question),
        defaults=question.defaults,
        slack=question.slack,
        extrapolated=question.outside,
        words=model.words,
        fidelity=judge(model, question.through, question.supports()),
    )


def _check_numbers(quantiles: Sequence[float], draws: int | None) -> None:
    for one in quantiles:
        if not 0 < one < 1:
            raise InputError(f"a quantile of {one:g} is not between 0 and 1", hint="for example 0.95")
    if draws is not None and draws < FEWEST_DRAWS:
        raise InputError(f"{draws} draws are too few", hint=f"ask for {FEWEST_DRAWS} or more")


def _check_cause(model: FittedModel, cause: str, outcome: str, others: Mapping[str, float]) -> None:
    model.variable(cause)
    model.law_of(outcome)
    if cause == outcome:
        raise InputError(
            f"{cause} is both cause and outcome", hint="a variable has no effect on itself; name two variables"
        )
    if cause in others:
        raise InputError(f"{cause} is the cause and cannot also stand at a level")


def _tried_ends(model: FittedModel, cause: str, outcome: str) -> tuple[float, float]:
    """The lowest and the highest level of a cause that trials asked for, or had."""
    check_names(model, outcome, {cause: 0.0})
    spans = [span for one in model.laws.values() for span in one.fit.support if span.variable == cause]
    if not spans:
        raise InputError(
            f"no fitted law says which levels of {cause} were tried", hint="say between which with --from and --to"
        )
    span = spans[-1]
    return (span.requested[0], span.requested[-1]) if len(span.requested) > 1 else (span.low, span.high)


def _refuse_free(model: FittedModel, question: Question, cause: str, *, asked: bool) -> None:
    """Refuse to let a cap grow that stands at what the subject uses anyhow, or above it."""
    used = used_anyhow(model, question.through, cause)
    if used is None or not math.isfinite(used) or (asked and question.levels[cause] < used * (1 - SLACK)):
        return
    shown = model.variable(cause).spell(used)
    raise InputError(
        f"one percent more {cause} is without effect: its cap is not below what the subject uses anyhow, {shown}",
        hint=f"ask where the cap binds, with --at {cause}=<level> below that",
    )


def _on_the_way(model: FittedModel, cause: str, outcome: str, others: Iterable[str]) -> frozenset[str]:
    """Variables on directed paths from a cause to an outcome, where the question holds others in place."""
    graph = model.blueprint.do({cause, *others})
    return frozenset(one for one in graph.ancestors(outcome) if cause in graph.ancestors(one))


def _units(model: FittedModel, question: Question) -> dict[str, str]:
    return {name: model.units[name] for name in question.everywhere}


def _by_one_law(question: Question, wanted: tuple[float, ...], rng: np.random.Generator) -> Prediction:
    fitted = question.through[0]
    answer = queries.predict(fitted, question.levels)
    if not wanted:
        return answer
    if has_residuals(fitted.fit) or not queries.has_exact_quantiles(fitted):
        found = predict_by_draws(question, wanted, DRAWS, rng)
        return replace(answer, quantiles=found.quantiles, draws=found.draws)
    exact = tuple(queries.exact_quantile(fitted, question.levels, share) for share in wanted)
    return replace(answer, quantiles=exact)
