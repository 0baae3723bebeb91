"""How far an answer can be trusted: where the question lies, and what became of earlier predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.questions.model import FittedLaw, FittedModel
from insitu.orchestrator.estimation.questions.past_errors import PastErrors
from insitu.orchestrator.estimation.questions.support import Place, Support

FEW_PREDICTIONS = 5
TYPICAL_FAIR, TYPICAL_POOR = 0.1, 0.3
CHANCE_FAIR, CHANCE_POOR = 0.05, 0.01


class Grade(StrEnum):
    """One word for it."""

    GOOD = "good"
    """Nothing speaks against the answer."""
    FAIR = "fair"
    """Something is missing to trust it fully; `Fidelity.why` says what."""
    POOR = "poor"
    """The answer may be wrong by more than its interval says."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How far an answer can be trusted.

    Attributes
    ----------
    why
        What the grade rests on where it is not good.
    place
        Of the question that lies farthest out, where there are several.
    past
        Of each law that the answer goes through.
    like_trials
        Trials at such levels; of the question that has fewest.
    """

    grade: Grade
    why: tuple[str, ...]
    place: Place
    past: tuple[PastErrors, ...]
    like_trials: int


def judge(model: FittedModel, laws: Sequence[FittedLaw], supports: Sequence[Support]) -> Fidelity:
    """Grade an answer.

    Parameters
    ----------
    laws
        Those that the answer goes through.
    supports
        Where each question lies for each law.

    Notes
    -----
    *Poor*: outside the trials; or a law's earlier predictions were typically off by more than 30 %; or chance
    would show so much lack of fit, or so few predictions within their intervals, once in a hundred times. *Fair*:
    at the edge; no trial at such levels; a parameter at a bound; fewer than five earlier predictions; off by more
    than 10 %; once in twenty times; or two laws on the way have a hidden common cause. Else *good*.
    """
    past = tuple(model.past[one.variable] for one in laws)
    like = min((one.like_trials for one in supports), default=0)
    places = [one.place for one in supports]
    place = next((one for one in (Place.OUTSIDE, Place.EDGE) if one in places), Place.INSIDE)
    poor = [reason for one in supports if one.place is Place.OUTSIDE for reason in one.why]
    fair = [reason for one in supports if one.place is Place.EDGE for reason in one.why]
    for law, record in zip(laws, past, strict=True):
        fair += _at_bounds(law.fit)
        if law.fit.quantile is not None:
            fair.append(
                f"the law of {law.variable} gives its {100 * law.fit.quantile:g} % quantile, and not the mean"
            )
        if law.fit.finding(Check.CONSTANT) is not None:
            poor.append(f"{law.variable} was the same in every trial, so its interval knows of no noise")
        test = law.fit.lack_of_fit
        if test is not None and test.p_value < CHANCE_FAIR:
            sure = test.p_value < CHANCE_POOR
            (poor if sure else fair).append(
                f"the trials {'reject' if sure else 'doubt'} the law of {law.variable}"
            )
        _judge_record(record, poor, fair)
    fair += _moving_together(model, laws)
    if like == 0 and place is not Place.OUTSIDE:
        fair.append("no trial had such levels")
    grade = Grade.POOR if poor else Grade.FAIR if fair else Grade.GOOD
    return Fidelity(grade, tuple(dict.fromkeys([*poor, *fair])), place, past, like)


def _at_bounds(fit: Fit) -> list[str]:
    """Parameters that the intervals of means and effects take for known, and where they may be by their own."""
    told = []
    for one in fit.estimates:
        if one.name in fit.at_bound:
            below, above = one.reported - one.reported_low, one.reported_high - one.reported
            far = one.reported_low if below > above else one.reported_high
            unit = f" {one.unit}" if one.unit else ""
            told.append(
                f"{one.name} stands at its bound, {one.reported:.3g}{unit}, which this interval takes for known; "
                f"by its own interval it may be {far:.3g}{unit}"
            )
    return told


def _moving_together(model: FittedModel, laws: Sequence[FittedLaw]) -> list[str]:
    """Noise of several laws is drawn for each by itself."""
    given = {one.variable for one in laws}
    return [
        f"{first} and {second} have a cause in common that is not in the model, which the spread leaves out"
        for first, second in model.blueprint.confounded
        if {first, second} <= given
    ]


def _judge_record(record: PastErrors, poor: list[str], fair: list[str]) -> None:
    if record.predictions < FEW_PREDICTIONS:
        tested = f"only {record.predictions}" if record.predictions else "no"
        fair.append(f"{tested} trials of {record.law} could be foretold from those before")
    if math.isfinite(record.typical) and record.typical > TYPICAL_FAIR:
        worse = poor if record.typical > TYPICAL_POOR else fair
        worse.append(f"earlier predictions of {record.law} were typically {100 * record.typical:.0f} % off")
    if record.chance < CHANCE_FAIR:
        worse = poor if record.chance < CHANCE_POOR else fair
        worse.append(
            f"only {record.within} of {record.predictions} trials of {record.law} came to lie in the intervals "
            "foretold for them"
        )
