"""What an experiment will find and how long it takes, told before any trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.orchestrator.design.expected import Expected, expected_from
from insitu.orchestrator.design.foresight import Foreseen, foresee
from insitu.orchestrator.design.kinds.local import told_values
from insitu.orchestrator.design.sequential import batch_size
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.steering.choice import asked
from insitu.orchestrator.steering.sequential import SequentialSteering
from insitu.orchestrator.steering.state import Knowledge, knowledge_of

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.causal.target import Wanted
    from insitu.orchestrator.design.situation import Situation
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.records import PlannedTrial, StoredTrial

SPREADS = (0.02, 0.05, 0.1, 0.2, 0.5)
"""One trial's spread relative to what is asked for, for which the number of trials is told."""


@dataclass(frozen=True, slots=True)
class Needed:
    """How many trials a goal takes.

    Attributes
    ----------
    spread
        Standard deviation between trials at the same levels, relative to the number that the goal asks for; as it
        was in an earlier run, if that says what to expect.
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
        Half widths at each look.
    needed
        Trials until the goal is reached; empty where it asks for no precision.
    absolute
        Whether an earlier run told the noise; else half widths are in units of one trial's spread.
    laws
        Those that the answer goes through, causes first. Where no earlier run told the noise, each spreads by one
        base unit of what it gives, or by its mean where the noise is relative to that.
    assumed
        At which values of the parameters the half widths are foreseen, in sentences, where that matters.
    """

    first: int
    batch: int
    most: int
    wanted: tuple[Wanted, ...]
    foreseen: tuple[Foreseen, ...]
    needed: tuple[Needed, ...]
    absolute: bool = False
    laws: tuple[Law, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FixedPreview:
    """What an experiment whose trials are fixed beforehand will tell, if all of them come out.

    Attributes
    ----------
    laws
        Those of `expected`.
    sizes
        Of what is asked for, base units, shape (k,); empty where nothing has told the parameters.
    absolute
        Whether an earlier run told the noise; else it is one base unit of what the law gives.
    seconds
        Of all trials together, set-up included; ``None`` where nothing is known.
    """

    laws: tuple[Law, ...]
    wanted: tuple[Wanted, ...]
    expected: Expected
    sizes: tuple[float, ...]
    absolute: bool
    seconds: float | None


def preview_of(plan: Plan, blueprint: Blueprint, most_trials: int, like: Sequence[StoredTrial] = ()) -> Preview:
    """Foresee a sequential experiment.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    like
        Trials of an earlier run, which say what to expect.
    """
    steering = SequentialSteering(plan, blueprint, most_trials)
    before = _before(plan, blueprint, like)
    situation, looks = before.situation, steering.looks
    parameters = max(len(law.parameters) for law in situation.composite.laws)
    foreseen = foresee(situation, plan.design, looks, parameters)
    asked_for = steering.goal.relative_half_width
    return Preview(
        first=looks.trials[0],
        batch=batch_size(plan.design, situation.composite),
        most=most_trials,
        wanted=situation.target.wanted,
        foreseen=foreseen,
        needed=tuple(_needed(situation, foreseen, asked_for)) if asked_for else (),
        absolute=before.told,
        laws=situation.composite.laws,
        assumed=told_values(situation, "these figures hold"),
    )


def fixed_preview_of(
    plan: Plan, blueprint: Blueprint, trials: Sequence[PlannedTrial], like: Sequence[StoredTrial] = ()
) -> FixedPreview | None:
    """Foresee an experiment whose trials are fixed; `like` as of `preview_of`.

    It is ``None`` if a law needs what is only measured: nobody knows yet what trials will tell of it.
    """
    before = _before(plan, blueprint, like)
    situation, target = before.situation, before.situation.target
    if situation.open:
        return None
    assignments = [trial.assignment for trial in trials]
    values = {name: belief.values for name, belief in situation.beliefs.items()}
    seconds = before.knowledge.seconds(plan, assignments)
    return FixedPreview(
        laws=situation.composite.laws,
        wanted=target.wanted,
        expected=expected_from(situation, assignments, asked(plan, blueprint).confidence),
        sizes=tuple(target.sizes(values).tolist()) if before.told else (),
        absolute=before.told,
        seconds=None if seconds is None else float(seconds.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Before:
    """What is known before the experiment; `told` by an earlier run, or not at all."""

    knowledge: Knowledge
    situation: Situation
    told: bool


def _before(plan: Plan, blueprint: Blueprint, like: Sequence[StoredTrial]) -> _Before:
    knowledge = knowledge_of(plan, blueprint, asked(plan, blueprint), like)
    if like and not knowledge.fits:
        raise InputError(
            f"the run that this one is to be like does not tell what to expect: {knowledge.problem}",
            hint="name another run of the same subject, or leave --like out",
        )
    situation = knowledge.as_before(plan)
    return _Before(knowledge, situation, not any(belief.untold for belief in situation.beliefs.values()))


def _needed(situation: Situation, foreseen: Sequence[Foreseen], asked_for: float) -> list[Needed]:
    beliefs = situation.beliefs
    if any(belief.untold for belief in beliefs.values()):
        return [Needed(spread, _trials(foreseen, [asked_for / spread])) for spread in SPREADS]
    sizes = situation.target.sizes({name: belief.values for name, belief in beliefs.items()})
    noise = beliefs[situation.composite.outcome].noise
    smallest = float(sizes.min(initial=float("inf")))
    return [
        Needed(noise / smallest if smallest else float("inf"), _trials(foreseen, (asked_for * sizes).tolist()))
    ]


def _trials(foreseen: Sequence[Foreseen], limits: Sequence[float]) -> int | None:
    """Trials after which every half width is within its limit; one limit may be for all."""
    for one in foreseen:
        each = limits if len(limits) == len(one.half_widths) else [limits[0]] * len(one.half_widths)
        if all(half <= limit for half, limit in zip(one.half_widths, each, strict=True)):
            return one.trials
    return None
