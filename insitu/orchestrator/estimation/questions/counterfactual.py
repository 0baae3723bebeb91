"""What a trial would have been like, had some of its levels been others: its own noise is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fit import SupportRange
from insitu.orchestrator.estimation.questions import queries
from insitu.orchestrator.estimation.questions.abduction import FoundTrial, abduct
from insitu.orchestrator.estimation.questions.columns import Interval, PerColumn
from insitu.orchestrator.estimation.questions.fidelity import Fidelity, judge
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.question import Question, check_names, pose, resolve
from insitu.orchestrator.estimation.questions.simulation import (
    ParameterDraws,
    draw_parameters,
    estimates_of,
    mean_of,
)
from insitu.orchestrator.store.records import LevelVerdict

_PARAMETER_DRAWS = 4000


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A trial as it was, and as it would have been.

    Attributes
    ----------
    observed
        The outcome as it was measured.
    value, low, high
        As it would have been, with its confidence interval: all that is not known is the laws' parameters.
    changed, had
        Levels that the question changes: as they would have been, and as they were.
    between
        Measured variables on the way to the outcome, as they would have been.
    unmeasured
        Variables on the way that were not measured in the trial, and so are taken to be as their laws give them.
    """

    trial: int
    outcome: str
    unit: str
    confidence: float
    observed: float
    value: float
    low: float
    high: float
    changed: dict[str, float]
    had: dict[str, float]
    between: dict[str, float]
    unmeasured: tuple[str, ...]
    units: dict[str, str]
    slack: tuple[str, ...]
    extrapolated: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    fidelity: Fidelity


def counterfactual(
    model: FittedModel,
    found: FoundTrial,
    outcome: str,
    do: Mapping[str, float],
    rng: np.random.Generator,
    *,
    extrapolate: bool = False,
) -> Counterfactual:
    """Say what a trial would have been like under do(variable := level).

    Everything that the question does not change, and that does not follow from what it changes, stays as it was
    measured; the noise of the trial stays with each law, relative where the law's noise is.

    Raises
    ------
    OutsideSupport
        If the levels would have been outside the data's support.
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        If a name or a level is not what it should be.
    """
    check_names(model, outcome, do)
    slack: list[str] = []
    changed = {name: _level(model, found, name, level, slack) for name, level in do.items()}
    stays = _what_stays(model, outcome, found, changed)
    question = pose(model, outcome, {}, found={**stays, **changed}, extrapolate=extrapolate)
    before = {**question.levels, **found.levels}
    estimated = _carried(question, before, estimates_of(question.through))
    answer = _interval(question, before, float(estimated[outcome][0]), rng)
    return Counterfactual(
        trial=found.number,
        outcome=outcome,
        unit=model.units[outcome],
        confidence=question.through[-1].fit.confidence,
        observed=found.levels[outcome],
        value=answer.value,
        low=answer.low,
        high=answer.high,
        changed=changed,
        had={name: found.levels[name] for name in changed if name in found.levels},
        between={name: float(values[0]) for name, values in estimated.items() if name != outcome},
        unmeasured=tuple(one.variable for one in question.through if one.variable not in before),
        units={name: model.units[name] for name in {**question.everywhere, **changed}},
        slack=tuple(slack),
        extrapolated=question.outside,
        words=model.words,
        fidelity=judge(model, question.through, question.supports()),
    )


def _level(model: FittedModel, found: FoundTrial, name: str, level: float, slack: list[str]) -> float:
    """Where a variable would have stood; what the subject used in this very trial, if nothing held it there."""
    span = _span(model, name)
    record = next((one for one in found.record.levels if one.variable == name), None)
    free = record is not None and record.verdict in (LevelVerdict.UNSET, LevelVerdict.SLACK)
    if span is not None and free and name in found.levels:
        span = replace(span, natural=found.levels[name])
    return resolve(model, span, name, level, slack)


def _span(model: FittedModel, name: str) -> SupportRange | None:
    return next((span for one in model.laws.values() for span in one.fit.support if span.variable == name), None)


def _what_stays(
    model: FittedModel, outcome: str, found: FoundTrial, changed: Mapping[str, float]
) -> dict[str, float]:
    """Levels of the trial that do not follow from what is changed."""
    causes = model.blueprint.ancestors(outcome)
    return {
        name: level
        for name, level in found.levels.items()
        if name in causes and name not in changed and not model.blueprint.ancestors(name) & set(changed)
    }


def _interval(question: Question, before: Mapping[str, float], value: float, rng: np.random.Generator) -> Interval:
    """In closed form where the noise of one law is added: then it cancels, and a contrast is left."""
    last = question.through[-1]
    if len(question.through) == 1 and not last.law.relative_noise:
        change = queries.contrast(last, before, question.levels)
        return Interval(value, value + change.low - change.value, value + change.high - change.value)
    parameters = draw_parameters(question.through, _PARAMETER_DRAWS, rng)
    drawn = _carried(question, before, parameters)[question.outcome]
    return PerColumn(drawn, drawn, drawn).around(value, last.fit.confidence)


def _carried(question: Question, before: Mapping[str, float], parameters: ParameterDraws) -> dict[str, Array]:
    """Every variable that the question's laws give, with the trial's noise, each of shape (k,)."""
    levels: dict[str, Array | float] = dict(question.levels)
    carried: dict[str, Array] = {}
    noise = abduct(question.through, parameters.values, before)
    for one in question.through:
        mean = mean_of(one, parameters.values[one.variable], levels)
        levels[one.variable] = carried[one.variable] = noise[one.variable].on(mean)
    return carried
