"""The answer to one question, in a line or two for the terminal."""

from __future__ import annotations

from insitu.orchestrator.estimation.queries import Effect, Prediction
from insitu.orchestrator.report.wording import level_list, percent, scaled_interval
from insitu.orchestrator.units import format_quantity


def prediction_text(answer: Prediction) -> str:
    """Write a prediction: the value with the interval of one trial, where, and what it assumes."""
    value = scaled_interval(answer.mean, answer.low, answer.high, answer.unit)
    mean = scaled_interval(answer.mean, answer.mean_low, answer.mean_high, answer.unit)
    asked = {name: level for name, level in answer.levels.items() if name not in answer.defaults}
    given = {name: level for name, level in answer.levels.items() if name in answer.defaults}
    where = f" at {level_list(asked, answer.units)}" if asked else ""
    level = percent(answer.confidence, 4)
    lines = [
        f"{answer.outcome} = {value}{where} ({level} prediction interval of one trial)",
        f"  mean over many trials {mean}",
    ]
    if given:
        lines[1] += f"; at the baseline: {level_list(given, answer.units)}"
    lines += [f"  EXTRAPOLATED: {reason}" for reason in answer.extrapolated]
    return "\n".join(lines)


def effect_text(answer: Effect) -> str:
    """Write an effect in one sentence without a stop, told in the direction in which the outcome grows."""
    change, low, high = answer.change, answer.change_low, answer.change_high
    start, end = answer.low, answer.high
    if change < 0:
        change, low, high = -change, -high, -low
        start, end = end, start
    first, second = (format_quantity(level, answer.cause_unit) for level in (start, end))
    size = scaled_interval(change, low, high, answer.unit)
    return f"Taking {answer.cause} from {first} to {second} adds {size} to {answer.outcome}"


def effect_conditions(answer: Effect) -> str:
    """Say which interval it is and where the other variables stand."""
    text = f"{percent(answer.confidence, 4)} confidence interval, ± {percent(answer.relative_half_width)}"
    return f"{text}; at {level_list(answer.at, answer.units)}" if answer.at else text
