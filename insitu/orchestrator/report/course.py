"""How an experiment that chooses its trials went: what was known at each look, and what the goal asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from insitu.orchestrator.estimation.answer import Answer, Part
from insitu.orchestrator.plan.goals import EffectGoal, Goal, ParametersGoal, PredictionGoal, RankingGoal
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.report.wording import spell_levels
from insitu.orchestrator.units import percent


@dataclass(frozen=True, slots=True)
class Looked:
    """What was known after a batch.

    Attributes
    ----------
    trials
        Valid ones so far.
    answer
        ``None`` while too little was known for one.
    """

    trials: int
    answer: Answer | None

    @property
    def half_widths(self) -> tuple[float, ...]:
        """Of each number that the goal asks for, relative; empty without an answer."""
        return tuple(part.relative_half_width for part in self.answer.parts) if self.answer is not None else ()


def question(goal: Goal, variables: Mapping[str, Variable]) -> str:
    """What the goal asks, as a sentence."""
    text = _question(goal, variables)
    if goal.relative_half_width is None:
        return f"{text}, with {percent(goal.confidence, 4)} confidence?"
    return f"{text}, to ± {percent(goal.relative_half_width)} with {percent(goal.confidence, 4)} confidence?"


def _question(goal: Goal, variables: Mapping[str, Variable]) -> str:
    match goal:
        case EffectGoal():
            spell = variables[goal.cause].spell
            ends = [
                f"{word} {spell(level)}"
                for word, level in (("from", goal.low), ("to", goal.high))
                if not math.isnan(level)
            ]
            at = f", at {spell_levels(dict(goal.at), variables)}" if goal.at else ""
            over = f" going {' '.join(ends)}" if ends else ""
            return f"How much does {goal.cause}{over} change {goal.outcome}{at}"
        case PredictionGoal(places=(place,)):
            return f"What is {goal.outcome} at {spell_levels(dict(place), variables)}"
        case PredictionGoal():
            return f"What is {goal.outcome} at each of {len(goal.places)} places"
        case ParametersGoal():
            return f"What are the parameters of the law of {goal.outcome}"
        case RankingGoal():
            return f"What changes {goal.outcome} most"
    return f"What is there to know of {goal.outcome}"


def told(answer: Answer, goal: Goal) -> tuple[Part, ...]:
    """The numbers as a reader is told them: effects in the direction in which the outcome grows, largest first."""
    if not isinstance(goal, (EffectGoal, RankingGoal)):
        return answer.parts
    grown = [_growing(part) for part in answer.parts]
    return tuple(sorted(grown, key=lambda part: -math.inf if math.isnan(part.value) else part.value, reverse=True))


def _growing(part: Part) -> Part:
    if not part.value < 0:
        return part
    turned = replace(part.wanted, low=part.wanted.high, high=part.wanted.low)
    return replace(part, wanted=turned, value=-part.value, low=-part.high, high=-part.low)


def part_names(parts: Sequence[Part], goal: Goal, variables: Mapping[str, Variable]) -> tuple[str, ...]:
    """What each number is, so that no two of an answer are called the same."""
    names = []
    for part in parts:
        wanted = part.wanted
        if isinstance(goal, PredictionGoal):
            names.append(spell_levels(dict(wanted.at), variables) or wanted.name)
        elif math.isnan(wanted.low) or wanted.name not in variables:
            names.append(wanted.name)
        else:
            ends = [variables[wanted.name].spell(level) for level in (wanted.low, wanted.high)]
            names.append(f"{wanted.name} from {' to '.join(ends)}")
    return tuple(names)


def standing_still(answer: Answer, goal: Goal, variables: Mapping[str, Variable]) -> str:
    """Where the variables stood that were not asked about; empty where that is part of each number's name."""
    if isinstance(goal, PredictionGoal):
        return ""
    return spell_levels({name: level for part in answer.parts for name, level in part.wanted.at}, variables)


def drawn_looks(looks: Sequence[Looked]) -> tuple[Looked, ...]:
    """Those that had an answer."""
    return tuple(look for look in looks if look.answer is not None and any(map(math.isfinite, look.half_widths)))
