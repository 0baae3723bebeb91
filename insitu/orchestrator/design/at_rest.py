"""What a plan says of trials whatever its design: what rests, and what is hard to change."""

from __future__ import annotations

from insitu.orchestrator.plan.types import Factor, Plan, Role
from insitu.orchestrator.store.records import Assignment


def hard_to_change(plan: Plan) -> tuple[Factor, ...]:
    """Factors that are to change seldom; one that stands at one level does not change at all."""
    return tuple(factor for factor in plan.factors if factor.hard_to_change and len(factor.levels) > 1)


def baseline(plan: Plan) -> Assignment:
    """No intervention: throttles off, parameters at their first level."""
    rests = {factor.variable: _rest(plan, factor.variable) for factor in plan.factors}
    levels = ((f.variable, f.levels[0] if (rest := rests[f.variable]) is None else rest) for f in plan.factors)
    return Assignment((*levels, *left_alone(plan)))


def left_alone(plan: Plan) -> tuple[tuple[str, float], ...]:
    """Variables that could be set but are not factors."""
    factors = {factor.variable for factor in plan.factors}
    rests = {name: _rest(plan, name) for name in plan.model.variables if name not in factors}
    return tuple((name, rest) for name, rest in rests.items() if rest is not None)


def _is_set(plan: Plan, name: str) -> bool:
    return plan.model.variables[name].role is Role.SET


def _rest(plan: Plan, name: str) -> float | None:
    """The level that leaves a variable alone, ``None`` if there is none."""
    return plan.model.variables[name].rest if _is_set(plan, name) else None
