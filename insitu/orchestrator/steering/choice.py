"""Which steering a plan asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.orchestrator.plan.types import SEQUENTIAL
from insitu.orchestrator.steering.endings import Steering
from insitu.orchestrator.steering.fixed import FixedSteering

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.types import Plan

def steering_of(plan: Plan, blueprint: Blueprint, most_trials: int) -> Steering:
    """Find the steering of a plan's design.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """
    if plan.design.kind == SEQUENTIAL:
        from insitu.orchestrator.steering.sequential import SequentialSteering

        return SequentialSteering(plan, blueprint, most_trials)
    return FixedSteering(plan, most_trials)
