"""Which steering a plan asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.orchestrator.design.factorial import MAX_TRIALS
from insitu.orchestrator.plan.goals import ComparisonGoal
from insitu.orchestrator.plan.types import SEQUENTIAL
from insitu.orchestrator.steering.endings import Steering
from insitu.orchestrator.steering.fixed import FixedSteering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.estimation.answer import Answer
    from insitu.orchestrator.plan.types import Plan
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
