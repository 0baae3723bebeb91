"""The answer to a plan's goal in sentences, whatever kind of question it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from insitu.orchestrator.estimation.answer import Answer, Part
from insitu.orchestrator.plan.goals import EffectGoal, Goal, PredictionGoal, RankingGoal
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.report import verdicts
from insitu.orchestrator.report.course import standing_still, told
from insitu.orchestrator.report.wording import interval, join, scaled_interval, spell_levels
from insitu.orchestrator.units import percent

_MOST_SHOWN = 4
"""Numbers in a headline; all of them are in the table."""


def headline(goal: Goal, answer: Answer, variables: Mapping[str, Variable]) -> str:
    """The answer in one sentence without a stop.

    Parameters
    ----------
    variables
        The model's.
    """
    if answer.verdict is not None:
        return verdicts.headline(goal.outcome, answer.verdict)
    if not answer.parts:
        return f"Nothing that trials can set changes {goal.outcome}"
    match goal:
        case EffectGoal():
            return _effect(goal.outcome, told(answer, goal)[0], variables)
        case RankingGoal():
            shown = [f"{part.wanted.name} ({_size(part)})" for part in told(answer, goal)[:_MOST_SHOWN]]
            return f"What changes {goal.outcome} most: {', then '.join(shown)}{_more(answer)}"
        case PredictionGoal() if len(answer.parts) > 1:
            known = sorted((part for part in answer.parts if not part.problem), key=lambda part: part.value)
            ends = [_size(part) for part in (known[0], known[-1])] if known else ["not known"]
            return f"{goal.outcome} is {' to '.join(dict.fromkeys(ends))} at the {len(answer.parts)} places"
        case PredictionGoal():
            shown = [f"{_value(part)}{_where(part, variables)}" for part in answer.parts[:_MOST_SHOWN]]
            return f"{goal.outcome} is {join(shown)}{_more(answer)}"
    shown = [f"{part.wanted.name} = {_value(part)}" for part in answer.parts[:_MOST_SHOWN]]
    return f"The law of {goal.outcome} has {join(shown)}{_more(answer)}"


def conditions(goal: Goal, answer: Answer, variables: Mapping[str, Variable]) -> str:
    """Which intervals these are, and where the other variables stand."""
    if answer.verdict is not None:
        return verdicts.conditions(answer.verdict)
    intervals, at_worst = ("intervals", " at worst") if len(answer.parts) > 1 else ("interval", "")
    text = f"{percent(answer.confidence, 4)} confidence {intervals}"
    if math.isfinite(answer.half_width):
        text += f", ± {percent(answer.half_width)}{at_worst}"
    if answer.inflation > 1:
        text += f", widened by {answer.inflation:.3g}, as for any run that may end early"
    still = standing_still(answer, goal, variables)
    return f"{text}; at {still}" if still else text


def _effect(outcome: str, part: Part, variables: Mapping[str, Variable]) -> str:
    """Told in the direction in which the outcome grows."""
    wanted = part.wanted
    if part.problem:
        return f"The effect of {wanted.name} on {outcome} is not known: {part.problem}"
    first, second = (variables[wanted.name].spell(level) for level in (wanted.low, wanted.high))
    size = scaled_interval(part.value, part.low, part.high, wanted.unit)
    return f"Taking {wanted.name} from {first} to {second} adds {size} to {outcome}"


def _value(part: Part) -> str:
    if part.problem:
        return f"not known: {part.problem}"
    if part.wanted.scale != 1.0 or not part.wanted.unit:
        return interval(part.value, part.low, part.high, part.wanted.unit)
    return scaled_interval(part.value, part.low, part.high, part.wanted.unit)


def _where(part: Part, variables: Mapping[str, Variable]) -> str:
    return f" at {spell_levels(dict(part.wanted.at), variables)}" if part.wanted.at else ""


def _size(part: Part) -> str:
    return f"not known: {part.problem}" if part.problem else _value(part).partition(" [")[0]


def _more(answer: Answer) -> str:
    left = len(answer.parts) - _MOST_SHOWN
    return f", and {left} more" if left > 0 else ""
