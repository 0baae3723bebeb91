"""The answer to a plan's goal in sentences, whatever kind of question it is."""

from __future__ import annotations

import math

from insitu.orchestrator.estimation.answer import Answer, Part
from insitu.orchestrator.plan.goals import EffectGoal, Goal, PredictionGoal, RankingGoal
from insitu.orchestrator.report import verdicts
from insitu.orchestrator.report.wording import interval, join, level_list, percent, scaled_interval
from insitu.orchestrator.units import format_quantity

_MOST_SHOWN = 4
"""Numbers in a headline; all of them are in the table."""


def headline(goal: Goal, answer: Answer, units: dict[str, str]) -> str:
    """The answer in one sentence without a stop.

    Parameters
    ----------
    units
        Of the model's variables.
    """
    if answer.verdict is not None:
        return verdicts.headline(goal.outcome, answer.verdict)
    if not answer.parts:
        return f"Nothing that trials can set changes {goal.outcome}"
    match goal:
        case EffectGoal():
            return _effect(goal.outcome, answer.parts[0], units)
        case RankingGoal():
            ranked = sorted(answer.parts, key=_size, reverse=True)
            shown = [f"{part.wanted.name} ({_value(part)})" for part in ranked[:_MOST_SHOWN]]
            return f"What changes {goal.outcome} most: {', then '.join(shown)}{_more(answer)}"
        case PredictionGoal():
            shown = [f"{_value(part)}{_where(part, units)}" for part in answer.parts[:_MOST_SHOWN]]
            return f"{goal.outcome} is {join(shown)}{_more(answer)}"
    shown = [f"{part.wanted.name} = {_value(part)}" for part in answer.parts[:_MOST_SHOWN]]
    return f"The law of {goal.outcome} has {join(shown)}{_more(answer)}"


def conditions(goal: Goal, answer: Answer, units: dict[str, str]) -> str:
    """Which intervals these are, and where the other variables stand."""
    if answer.verdict is not None:
        return verdicts.conditions(answer.verdict)
    intervals, at_worst = ("intervals", " at worst") if len(answer.parts) > 1 else ("interval", "")
    text = f"{percent(answer.confidence, 4)} confidence {intervals}"
    if math.isfinite(answer.half_width):
        text += f", ± {percent(answer.half_width)}{at_worst}"
    if answer.inflation > 1:
        text += f", widened by {answer.inflation:.3g}, since trials ended when it was narrow enough"
    still = dict(answer.parts[0].wanted.at) if isinstance(goal, (EffectGoal, RankingGoal)) and answer.parts else {}
    return f"{text}; at {level_list(still, units)}" if still else text


def _effect(outcome: str, part: Part, units: dict[str, str]) -> str:
    """Told in the direction in which the outcome grows."""
    wanted, unit = part.wanted, units.get(part.wanted.name, "")
    ends, value, low, high = (wanted.low, wanted.high), part.value, part.low, part.high
    if value < 0:
        ends, value, low, high = (wanted.high, wanted.low), -value, -high, -low
    first, second = (format_quantity(level, unit) for level in ends)
    if part.problem:
        return f"The effect of {wanted.name} on {outcome} is not known: {part.problem}"
    size = scaled_interval(value, low, high, wanted.unit)
    return f"Taking {wanted.name} from {first} to {second} adds {size} to {outcome}"


def _value(part: Part) -> str:
    if part.problem:
        return f"not known: {part.problem}"
    if part.wanted.scale != 1.0 or not part.wanted.unit:
        return interval(part.value, part.low, part.high, part.wanted.unit)
    return scaled_interval(part.value, part.low, part.high, part.wanted.unit)


def _where(part: Part, units: dict[str, str]) -> str:
    return f" at {level_list(dict(part.wanted.at), units)}" if part.wanted.at else ""


def _size(part: Part) -> float:
    return 0.0 if math.isnan(part.value) else abs(part.value)


def _more(answer: Answer) -> str:
    left = len(answer.parts) - _MOST_SHOWN
    return f", and {left} more" if left > 0 else ""
