"""Budgets and laws that are too small or too large for a design."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.composite import compose
from insitu.orchestrator.design.contest import first_contest_size
from insitu.orchestrator.design.estimability import forecast
from insitu.orchestrator.design.sequential import first_batch_size
from insitu.orchestrator.doubts.doubt import Doubt, counted, goal_place
from insitu.orchestrator.doubts.fits import no_fit
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.goals import ComparisonGoal
from insitu.orchestrator.plan.types import SEQUENTIAL
from insitu.orchestrator.steering.comparison import out_of_reach
from insitu.orchestrator.steering.contest import Rivalry
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import PlannedTrial


MOST_PARAMETERS = 100
"""Of all laws that the goal of a sequential design goes through: beyond, the choice of trials takes minutes."""

LEAST_TRIAL_S = 0.005
"""A trial takes no less: measured with a program that does nothing, and nothing held, 6 ms."""


def check_size(experiment: Experiment) -> None:
    """A sequential design weighs all parameters at once, and looks first when the noise is known a little."""
    plan = experiment.plan
    if plan.design.kind != SEQUENTIAL or plan.goal is None:
        return
    factors = [factor.variable for factor in plan.factors]
    composite = compose(experiment.blueprint.reduced(), plan.goal.outcome, factors)
    size = sum(len(law.parameters) for law in composite.laws)
    if size > MOST_PARAMETERS:
        raise InputError(
            f"{goal_place(plan)}{plan.goal.outcome} goes through {counted(len(composite.laws), 'law')} with "
            f"{size} parameters, and a sequential design chooses trials for {MOST_PARAMETERS} at most",
            hint="leave variables on the way out of the model, or list levels with design: {kind: factorial}",
        )
    least = first_batch_size(composite)
    if plan.budget.trials is not None and plan.budget.trials < least:
        parameters = max(len(law.parameters) for law in composite.laws)
        raise InputError(
            f"{goal_place(plan)}a budget of {plan.budget.trials} trials is too few for a law of "
            f"{counted(parameters, 'parameter')}: the first look at its precision takes {least}",
            hint=f"raise budget.trials to {least} or more",
        )


def check_rival(experiment: Experiment, trials: Sequence[PlannedTrial]) -> None:
    """Of a comparison, the rival needs as much as the law, and the two have to differ somewhere."""
    plan = experiment.plan
    if not isinstance(plan.goal, ComparisonGoal):
        return
    rivalry = Rivalry(plan, experiment.blueprint)
    before = rivalry.after(())
    place = f"{plan.path}:{plan.goal.rival.line}:{plan.goal.rival.column}: " if plan.goal.rival.line else ""
    if (hopeless := out_of_reach(before)) is not None:
        raise InputError(f"{place}{hopeless.text}", hint=hopeless.next_step)
    least = first_contest_size(before.contest)
    if plan.design.kind == SEQUENTIAL and plan.budget.trials is not None and plan.budget.trials < least:
        raise InputError(
            f"{place}a budget of {plan.budget.trials} trials is too few for the rival: "
            f"the first look takes {least}",
            hint=f"raise budget.trials to {least} or more",
        )
    if plan.design.kind == SEQUENTIAL or not rivalry.rival.parents:
        return  # all that is allowed has been looked at, or one parameter alone is told by any trials
    found = forecast(rivalry.rival, trials, experiment.blueprint.variables, at_best=True)
    if not found.can_be_fitted:
        doubt = no_fit(plan.goal.outcome, found, experiment, trials)
        message = doubt.message.replace(f"the law of {plan.goal.outcome}", "the rival", 1)
        raise InputError(f"{place}{message}", hint=doubt.hint)


def about_time(experiment: Experiment, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """A budget of time in which nothing can be found."""
    plan, budget_s = experiment.plan, experiment.plan.budget.time_s
    if budget_s is None:
        return
    count, which = len(trials), "of the design"
    if plan.design.kind == SEQUENTIAL and plan.goal is not None:
        factors = [factor.variable for factor in plan.factors]
        count = first_batch_size(compose(experiment.blueprint.reduced(), plan.goal.outcome, factors))
        which = "before the first look"
    least_s = LEAST_TRIAL_S + (plan.design.setup_s or 0.0)
    if count * least_s > budget_s:
        what = "one trial" if least_s > budget_s else f"the {counted(count, 'trial')} {which}"
        takes_s = least_s if least_s > budget_s else count * least_s
        yield Doubt(
            f"the budget of {format_quantity(budget_s, 's')} has no room for {what}: that takes "
            f"{format_quantity(takes_s, 's')} or more",
            "raise budget.time",
        )
