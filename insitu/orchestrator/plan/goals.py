"""What a user wants to know, and how precisely: the question of a plan, resolved against its model.

Each kind of question is a class of its own, so that what belongs to one kind cannot be asked of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from insitu.orchestrator.plan.model_types import LawText, ParameterText

Levels = tuple[tuple[str, float], ...]
"""Variable to base-unit level, in the order of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A question about one outcome.

    Attributes
    ----------
    outcome
        The measured variable that is asked about.
    relative_half_width
        Half width of each interval relative to its estimate; ``None`` if no precision is asked for.
    confidence
        Of all intervals, between 0.5 and 1.
    line, column
        Where the plan states it; 0 if it was not read from a file.
    """

    outcome: str
    relative_half_width: float | None = None
    confidence: float = 0.95
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    @property
    def named(self) -> tuple[str, ...]:
        """Variables that the question gives a level, or asks the effect of."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectGoal(Goal):
    """How much the outcome's mean changes when the cause goes from one level to another.

    Attributes
    ----------
    low, high
        The two levels, base units; not a number: the ends of what trials may set.
    at
        Levels of other variables; those left out stand where they do without an intervention, or in the middle.
    """

    cause: str
    low: float = math.nan
    high: float = math.nan
    at: Levels = ()

    @property
    def named(self) -> tuple[str, ...]:
        return (self.cause, *(name for name, _ in self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionGoal(Goal):
    """The outcome's mean at given levels; the precision is asked for at each of the places."""

    places: tuple[Levels, ...]

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for place in self.places for name, _ in place))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersGoal(Goal):
    """Every parameter of the outcome's law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingGoal(Goal):
    """Which causes change the outcome most over what trials may set, and in which order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonGoal(Goal):
    """Which of two laws gives the outcome: the model's, or a rival.

    Attributes
    ----------
    rival
        The other law, with its place in the plan.
    rival_parameters
        What the plan says of the rival's parameters; those of the model are not meant.
    tolerance
        Part of the outcome below which a difference of the laws does not matter. It decides for a law that is
        contained in the other: no trials can show that what it leaves out is exactly nothing.
    confidence
        One minus the probability of choosing the wrong law, however often one looks.
    """

    rival: LawText
    rival_parameters: tuple[ParameterText, ...] = ()
    tolerance: float = 0.1
