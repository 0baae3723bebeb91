"""Numbers of a goal that the trials of a plan do not tell, or only far from their levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.orchestrator.design.asked import Asked
from insitu.orchestrator.design.estimability import forecast, tells
from insitu.orchestrator.design.sequential import out_of_reach as never_reached
from insitu.orchestrator.doubts.doubt import Doubt, goal_place
from insitu.orchestrator.doubts.fits import known_rows
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.goals import EffectGoal, PredictionGoal
from insitu.orchestrator.plan.types import SEQUENTIAL, Plan, Role
from insitu.orchestrator.steering.choice import before_any_trial
from insitu.orchestrator.steering.sequential import unidentifiable
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import PlannedTrial


def about_the_cause(experiment: Experiment, goal: EffectGoal, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """An effect is a difference between two levels."""
    plan, cause = experiment.plan, goal.cause
    levels = {trial.assignment.as_dict()[cause] for trial in trials}
    if len(levels) > 1:
        yield from _about_one_level(plan, goal, levels)
        return
    variable = plan.model.variables[cause]
    doubt = Doubt(
        f"{cause} is {variable.spell(levels.pop())} in every trial, so they show no effect of it",
        f"give {cause} another level",
    )
    if unset := [one for one in experiment.left_unset if one.variable == cause]:
        why = f"{cause} is left as it is in every trial, since {unset[0].reason}: they show no effect of it"
        doubt = Doubt(why, f"{unset[0].remedy}; or ask for the effect of a variable that can be set here")
    if cause in {left.variable for left in plan.factors if left.levels == (variable.rest,)} and not _is_precise(
        plan
    ):
        yield doubt
        return
    raise InputError(f"{goal_place(plan)}{doubt.message}", hint=doubt.hint)


def _about_one_level(plan: Plan, goal: EffectGoal, levels: set[float]) -> Iterator[Doubt]:
    """One level, and trials without it, whose level is the machine's and so not known beforehand."""
    factor = next(one for one in plan.factors if one.variable == goal.cause)
    if len(factor.levels) > 1 or math.inf not in levels or not (math.isnan(goal.low) or math.isnan(goal.high)):
        return
    spelt = plan.model.variables[goal.cause].spell(factor.levels[0])
    yield Doubt(
        f"{goal_place(plan)}{goal.cause} has the one level {spelt}: its effect will be that of lifting it, up to "
        "what this machine gives in the few trials without intervention; no trials can be chosen for that before",
        f"give {goal.cause} another level",
    )


def _is_precise(plan: Plan) -> bool:
    """Whether a plan is after a number, so that it fails without one."""
    asks = plan.goal is not None and plan.goal.relative_half_width is not None
    return asks or plan.design.kind in (SEQUENTIAL, "c_optimal")


def check_asked(experiment: Experiment, asked: Asked, trials: Sequence[PlannedTrial]) -> None:
    """Refuse a goal whose numbers depend on nothing that trials could tell."""
    plan, goal = experiment.plan, experiment.plan.goal
    assert goal is not None
    place, wanted = goal_place(plan), asked.target.wanted
    if not wanted:
        raise InputError(f"{place}no factor has two levels, so there are no causes to rank", hint="add levels")
    if not asked.depends and any(one.low != one.high for one in wanted):
        what = f"what the goal asks of {goal.outcome}"
        if isinstance(goal, EffectGoal):
            low, high = (plan.model.variables[goal.cause].spell(one) for one in (wanted[0].low, wanted[0].high))
            what = f"by the laws, what {goal.cause} does to {goal.outcome} from {low} to {high}"
        raise InputError(
            f"{place}{what} is the same whatever their parameters are, so no trial tells anything of it",
            hint=f"see what the laws on the way to {goal.outcome} give there, such as a factor of zero",
        )
    if not _is_precise(plan):
        return
    mixed: tuple[str, ...] = ()
    situation = before_any_trial(plan, experiment.blueprint)
    if plan.design.kind == SEQUENTIAL and not situation.open:
        mixed = never_reached(situation)
    for law in asked.target.composite.laws:
        slopes, known = asked.slopes[law.variable], known_rows(law)
        if mixed or tells(law, trials, experiment.blueprint.variables, slopes, known=known):
            continue
        silent = forecast(law, trials, experiment.blueprint.variables, at_best=True, known=known).silent
        mixed = tuple(name for name in silent if slopes[:, law.parameters.index(name)].any())
    if mixed:
        hopeless = unidentifiable(mixed)
        raise InputError(f"{place}{hopeless.text}", hint="allow further levels, or ask for what does not need it")


def about_places(plan: Plan) -> Iterator[Doubt]:
    """Levels of the goal that the trials will not reach."""
    match plan.goal:
        case EffectGoal():
            asked = [*plan.goal.at, (plan.goal.cause, plan.goal.low), (plan.goal.cause, plan.goal.high)]
        case PredictionGoal():
            asked = [one for place in plan.goal.places for one in place]
        case _:
            return
    factors = {factor.variable: factor for factor in plan.factors}
    for name, level in dict.fromkeys(asked):
        variable = plan.model.variables[name]
        tried = [one for one in factors[name].levels if math.isfinite(one)] if name in factors else []
        if not tried or variable.categories or not math.isfinite(level):
            continue
        # a cap above its levels is as without a cap, which is tried as well
        is_cap = variable.role is Role.SET and variable.rest == math.inf
        if level < min(tried) or (level > max(tried) and not is_cap):
            shown, low, high = (format_quantity(one, variable.unit) for one in (level, min(tried), max(tried)))
            reach = f"{low} to {high}" if len(tried) > 1 else low
            yield Doubt(
                f"{goal_place(plan)}the goal asks about {name} = {shown}, beyond the levels of the trials, "
                f"{reach}: the answer will be extrapolated",
                f"give {name} levels that reach it, or ask about one among them",
            )
