"""What a sequential experiment will do and find, told before any trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.orchestrator.design.foresight import Foreseen, foresee
from insitu.orchestrator.design.sequential import batch_size
from insitu.orchestrator.steering.sequential import SequentialSteering
from insitu.orchestrator.steering.state import knowledge_of

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.causal.target import Wanted
    from insitu.orchestrator.plan.types import Plan

SPREADS = (0.02, 0.05, 0.1, 0.2, 0.5)
"""One trial's spread relative to what is asked for, for which the number of trials is told."""


@dataclass(frozen=True, slots=True)
class Needed:
    """How many trials a goal takes.

    Attributes
    ----------
    spread
        Standard deviation between trials at the same levels, relative to the number that the goal asks for.
    trials
        Valid ones; ``None`` if the budget is not enough.
    """

    spread: float
    trials: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The course of a sequential experiment whose trials all come out.

    Attributes
    ----------
    first, batch, most
        Trials before the first look, between two looks, and in all.
    foreseen
        Half widths at each look, in units of one trial's spread.
    needed
        Trials until the goal is reached; empty where it asks for no precision.
    """

    first: int
    batch: int
    most: int
    wanted: tuple[Wanted, ...]
    foreseen: tuple[Foreseen, ...]
    needed: tuple[Needed, ...]


def preview_of(plan: Plan, blueprint: Blueprint, most_trials: int) -> Preview:
    """Foresee a sequential experiment.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """
    steering = SequentialSteering(plan, blueprint, most_trials)
    knowledge = knowledge_of(plan, blueprint, steering.goal, ())
    looks = steering.looks
    situation = knowledge.situation(plan, {}, by_time=False)
    parameters = max(len(law.parameters) for law in knowledge.composite.laws)
    foreseen = foresee(situation, plan.design, looks, parameters)
    asked = steering.goal.relative_half_width
    return Preview(
        first=looks.trials[0],
        batch=batch_size(plan.design, knowledge.composite),
        most=most_trials,
        wanted=knowledge.target.wanted,
        foreseen=foreseen,
        needed=tuple(Needed(spread, _trials(foreseen, asked, spread)) for spread in SPREADS) if asked else (),
    )


def _trials(foreseen: Sequence[Foreseen], asked: float, spread: float) -> int | None:
    return next((one.trials for one in foreseen if max(one.half_widths, default=0.0) * spread <= asked), None)
