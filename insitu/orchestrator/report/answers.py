"""The answer to one question, in a few lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.orchestrator.estimation.questions.asking import Elasticity
from insitu.orchestrator.estimation.questions.counterfactual import Counterfactual
from insitu.orchestrator.estimation.questions.fidelity import Fidelity
from insitu.orchestrator.estimation.questions.queries import Effect, Prediction
from insitu.orchestrator.estimation.questions.support import Place
from insitu.orchestrator.report.wording import count, join, level_list, level_text, number, scaled_interval
from insitu.orchestrator.units import format_quantity, percent


def prediction_text(answer: Prediction) -> str:
    """Write a prediction: the value with the interval of one trial, where, and what it assumes."""
    value = scaled_interval(answer.mean, answer.low, answer.high, answer.unit)
    mean = scaled_interval(answer.mean, answer.mean_low, answer.mean_high, answer.unit)
    asked = {name: level for name, level in answer.levels.items() if name not in answer.defaults}
    given = {name: level for name, level in answer.levels.items() if name in answer.defaults}
    where = f" at {level_list(asked, answer.units, answer.words)}" if asked else ""
    level = percent(answer.confidence, 4)
    if answer.of_quantile is not None:
        which = f"{percent(answer.of_quantile, 4)} quantile of {answer.outcome}"
        lines = [f"{which} = {mean}{where} ({level} confidence interval)"]
        lines += [f"  at the baseline: {level_list(given, answer.units, answer.words)}"] if given else []
    else:
        lines = [
            f"{answer.outcome} = {value}{where} ({level} prediction interval of one trial)",
            f"  mean over many trials {mean}",
        ]
        if given:
            lines[1] += f"; at the baseline: {level_list(given, answer.units, answer.words)}"
    if answer.between:
        lines.append(f"  on the way: {level_list(answer.between, answer.units, answer.words)}")
    for one in answer.quantiles:
        share = percent(one.share, 4)
        lines.append(f"  {share} of trials below {scaled_interval(one.value, one.low, one.high, answer.unit)}")
    lines += _caveats(answer.slack, answer.extrapolated)
    if answer.fidelity is not None:
        lines += fidelity_lines(answer.fidelity)
    return "\n".join(lines)


def effect_text(answer: Effect) -> str:
    """Write an effect in one sentence without a stop, told in the direction in which the outcome grows."""
    change, low, high = answer.change, answer.change_low, answer.change_high
    start, end = answer.low, answer.high
    if change < 0:
        change, low, high = -change, -high, -low
        start, end = end, start
    words = answer.words.get(answer.cause, ())
    first, second = (level_text(level, answer.cause_unit, words) for level in (start, end))
    size = scaled_interval(change, low, high, answer.unit)
    return f"Taking {answer.cause} from {first} to {second} adds {size} to {answer.outcome}"


def effect_conditions(answer: Effect) -> str:
    """Say which interval it is and where the other variables stand."""
    text = f"{percent(answer.confidence, 4)} confidence interval, ± {percent(answer.relative_half_width)}"
    return f"{text}; at {level_list(answer.at, answer.units, answer.words)}" if answer.at else text


def effect_answer_text(answer: Effect) -> str:
    """Write an effect with its conditions, and how far to trust it."""
    lines = [effect_text(answer), f"  {effect_conditions(answer)}"]
    if answer.through:
        lines.append(f"  by way of {join(list(answer.through))}{', too' if answer.direct else ''}")
    lines += _caveats(answer.slack, answer.extrapolated)
    if answer.fidelity is not None:
        lines += fidelity_lines(answer.fidelity)
    return "\n".join(lines)


def elasticity_text(answer: Elasticity) -> str:
    """Write an elasticity, and what it means for one percent."""
    half = (answer.high - answer.low) / 2
    value, low, high = (number(one, half) for one in (answer.value, answer.low, answer.high))
    here = format_quantity(answer.levels[answer.cause], answer.units[answer.cause])
    lines = [
        f"1 % more {answer.cause} than {here} changes {answer.outcome} by {value} % [{low}, {high}]",
        f"  {percent(answer.confidence, 4)} confidence interval; "
        f"{answer.outcome} is {format_quantity(answer.mean, answer.unit)} there",
        f"  at {level_list(answer.levels, answer.units, answer.words)}",
    ]
    lines += _caveats(answer.slack, answer.extrapolated)
    return "\n".join([*lines, *fidelity_lines(answer.fidelity)])


def counterfactual_text(answer: Counterfactual) -> str:
    """Write what a trial would have been like, beside what it was."""
    value = scaled_interval(answer.value, answer.low, answer.high, answer.unit)
    lines = [
        f"Trial {answer.trial} would have had {answer.outcome} = {value} "
        f"with {level_list(answer.changed, answer.units, answer.words)}",
        f"  it had {format_quantity(answer.observed, answer.unit)}"
        + (f" with {level_list(answer.had, answer.units, answer.words)}" if answer.had else ""),
        f"  {percent(answer.confidence, 4)} confidence interval; the trial's own noise is kept",
    ]
    if answer.between:
        lines.append(f"  on the way: {level_list(answer.between, answer.units, answer.words)}")
    if answer.unmeasured:
        lines.append(f"  not measured in the trial, so taken as the laws give it: {join(list(answer.unmeasured))}")
    lines += _caveats(answer.slack, answer.extrapolated)
    return "\n".join([*lines, *fidelity_lines(answer.fidelity)])


def _caveats(slack: Iterable[str], extrapolated: Iterable[str]) -> list[str]:
    return [f"  without effect: {reason}" for reason in slack] + [
        f"  EXTRAPOLATED: {reason}" for reason in extrapolated
    ]


def fidelity_lines(fidelity: Fidelity) -> list[str]:
    """How far an answer can be trusted, and what the grade rests on."""
    like = count(fidelity.like_trials, "trial")
    lines = [f"  fidelity {fidelity.grade}: {_PLACES[fidelity.place]}, {like} at such levels"]
    lines += [f"    {reason}" for reason in fidelity.why]
    return lines + [
        f"    {one.within} of {one.predictions} trials came as foretold by the law of {one.law}, "
        f"typically {percent(one.typical)} off"
        for one in fidelity.past
        if one.predictions
    ]


_PLACES = {
    Place.INSIDE: "inside the support",
    Place.EDGE: "at the edge of the support",
    Place.OUTSIDE: "outside the support",
}
