"""Which steering a plan asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.orchestrator.design.kinds.factorial import MAX_TRIALS
from insitu.orchestrator.plan.goals import ComparisonGoal
from insitu.orchestrator.plan.types import SEQUENTIAL
from insitu.orchestrator.steering.endings import Steering
from insitu.orchestrator.steering.fixed import FixedSteering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.design.situation import Situation
    from insitu.orchestrator.estimation.answer import Answer
    from insitu.orchestrator.plan.goals import Goal
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.report.course import Looked
    from insitu.orchestrator.store.records import StoredTrial


def most_trials(plan: Plan, planned: int) -> int:
    """Executions that a plan's budget allows for so many planned trials, replacements included."""
    if plan.budget.trials is not None:
        return plan.budget.trials
    return MAX_TRIALS if plan.design.kind == SEQUENTIAL else 2 * planned


def steering_of(plan: Plan, blueprint: Blueprint, most_trials: int) -> Steering:
    """Find the steering of a plan's design.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """
    if plan.design.kind == SEQUENTIAL and isinstance(plan.goal, ComparisonGoal):
        from insitu.orchestrator.steering.comparison import ComparisonSteering

        return ComparisonSteering(plan, blueprint, most_trials)
    if plan.design.kind == SEQUENTIAL:
        from insitu.orchestrator.steering.sequential import SequentialSteering

        return SequentialSteering(plan, blueprint, most_trials)
    return FixedSteering(plan, most_trials)


def before_any_trial(plan: Plan, blueprint: Blueprint) -> Situation:
    """What a design that is fixed beforehand knows of the laws, and which trials it may choose among."""
    from insitu.orchestrator.steering.state import knowledge_of

    knowledge = knowledge_of(plan, blueprint, asked(plan, blueprint), ())
    return knowledge.situation(plan, {}, by_time=plan.budget.time_s is not None)


def asked(plan: Plan, blueprint: Blueprint) -> Goal:
    """The plan's goal; without one, the parameters of the law that it fits."""
    from insitu.orchestrator.estimation.analysis import outcome_of
    from insitu.orchestrator.plan.goals import ParametersGoal

    return plan.goal or ParametersGoal(outcome=outcome_of(blueprint, None))


def course_of(plan: Plan, blueprint: Blueprint, trials: Sequence[StoredTrial]) -> tuple[Looked, ...]:
    """What was known at each look of a run; nothing of a design that is fixed beforehand."""
    if plan.goal is None or plan.design.kind != SEQUENTIAL or not trials:
        return ()
    if isinstance(plan.goal, ComparisonGoal):  # it has no numbers that become more precise
        return ()
    from insitu.orchestrator.steering.sequential import SequentialSteering

    return SequentialSteering(plan, blueprint, most_trials(plan, len(trials))).course(trials)


def answer_of(plan: Plan, blueprint: Blueprint, trials: Sequence[StoredTrial]) -> Answer | None:
    """What the trials of a run say about its goal; ``None`` without a goal, or while a law cannot be fitted.

    Its intervals are the ones that the run was ended by, so that what is reported is what was judged.
    """
    from insitu.orchestrator.steering.state import knowledge_of

    if plan.goal is None:
        return None
    if isinstance(plan.goal, ComparisonGoal):
        from insitu.orchestrator.steering.comparison import compare

        return compare(plan, blueprint, trials)
    if plan.design.kind == SEQUENTIAL:
        from insitu.orchestrator.steering.sequential import SequentialSteering

        return SequentialSteering(plan, blueprint, most_trials(plan, len(trials))).answer(trials)
    return knowledge_of(plan, blueprint, plan.goal, trials).answer(plan.goal.confidence, 1.0)
