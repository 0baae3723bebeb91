"""What speaks against a plan although it can be executed: a goal out of reach is an error, the rest are doubts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.injectors.processors import sharing_is_known
from insitu.orchestrator.design.asked import asked_of
from insitu.orchestrator.doubts.doubt import Doubt, goal_place
from insitu.orchestrator.doubts.fits import about_the_fit
from insitu.orchestrator.doubts.goals import about_places, about_the_cause, check_asked
from insitu.orchestrator.doubts.sizes import about_time, check_rival, check_size
from insitu.orchestrator.doubts.windows import about_windows
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.analysis import outcome_of
from insitu.orchestrator.experiment import possible_trials
from insitu.orchestrator.plan.goals import ComparisonGoal, EffectGoal
from insitu.orchestrator.plan.inventory import Inventory
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.reasoning import reason_about
from insitu.orchestrator.steering.choice import asked as asked_goal

if TYPE_CHECKING:
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import PlannedTrial


def doubts_of(experiment: Experiment, inventory: Inventory | None) -> tuple[Doubt, ...]:
    """Look at the trials that a plan may ask for before any is executed.

    Raises
    ------
    InputError
        If the plan has a goal, and no result of these trials could answer it.
    """
    reasoning = reason_about(experiment.plan, experiment.blueprint)
    if reasoning is not None and reasoning.obstacle:
        raise InputError(f"{goal_place(experiment.plan)}{reasoning.obstacle}", hint=reasoning.remedy)
    check_size(experiment)
    trials = possible_trials(experiment.plan, experiment.blueprint)
    check_rival(experiment, trials)
    fit = (*_about_the_fits(experiment, trials), *_about_speed(experiment), *about_time(experiment, trials))
    return (*fit, *about_places(experiment.plan), *about_windows(experiment, inventory))


def _about_the_fits(experiment: Experiment, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """Every law between what trials set and the outcome has to be fitted; that of the outcome comes first."""
    plan, blueprint = experiment.plan, experiment.blueprint.reduced()
    outcome = outcome_of(experiment.blueprint, plan.goal)
    asked = asked_of(asked_goal(plan, experiment.blueprint), blueprint, plan.factors)
    for law in reversed(asked.target.composite.laws):
        if law.variable == outcome or _is_needed(plan):
            yield from about_the_fit(experiment, law, trials, asked)
    if isinstance(plan.goal, EffectGoal):
        yield from about_the_cause(experiment, plan.goal, trials)
    if _is_needed(plan):
        check_asked(experiment, asked, trials)


def _is_needed(plan: Plan) -> bool:
    """Whether laws before that of the outcome have to be fitted: a comparison looks at the outcome's alone."""
    return plan.goal is not None and not isinstance(plan.goal, ComparisonGoal)


def _about_speed(experiment: Experiment) -> Iterator[Doubt]:
    """Whether the speed of the processors is looked at, if the plan says how slow they may be."""
    if math.isfinite(experiment.plan.tolerated_slowdown) and sharing_is_known(experiment.here.processors):
        yield Doubt(
            "tolerated_slowdown sets no trial aside here: this machine shows which processors are threads of one "
            "core, and its own threads would slow each other; others on them count as other processes",
            "leave it out",
        )
