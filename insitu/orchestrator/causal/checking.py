"""Whether a blueprint can answer for a plan."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.plan.goals import ComparisonGoal, EffectGoal
from insitu.orchestrator.plan.located import FaultList, raise_all
from insitu.orchestrator.plan.types import Plan, Role


def check_against(plan: Plan, blueprint: Blueprint, rival: Blueprint | None = None) -> None:
    """Check that the blueprint can answer for the plan.

    Parameters
    ----------
    rival
        The blueprint with the rival in the place of the law that the goal compares it with.

    Raises
    ------
    FaultyFile
        If a factor has no effect in the model, the goal's outcome has no law or its cause does not lead to
        it, or a law needs a parameter of the subject that the plan gives no level.
    InputError
        If a law becomes too large when its latent variables are put in.
    """
    faults = FaultList(plan.path)
    blueprints = [one for one in (blueprint, rival) if one is not None]
    used = {name for one in blueprints for law in one.laws.values() for name in law.parents}
    for factor in plan.factors:
        if factor.variable not in used:
            near = f"use '{factor.variable}' in a law of {plan.model.path}, or remove it from factors"
            faults.add(factor.line, factor.column, f"'{factor.variable}' is in no law, so it has no effect", near)
    _check_goal(plan, blueprint, faults)
    given = {factor.variable for factor in plan.factors}
    model_faults = FaultList(plan.model.path)
    for text in plan.model.laws:
        law = blueprint.laws.get(text.variable)
        for parent in law.parents if law else ():
            if blueprint.variables[parent].role is Role.PARAMETER and parent not in given:
                model_faults.add(
                    text.line,
                    text.column,
                    f"the law of '{text.variable}' needs '{parent}', which the plan gives no level",
                    f"add '{parent}' to factors of {plan.path}",
                )
    if rival is not None and isinstance(plan.goal, ComparisonGoal):
        _check_rival(plan.goal, rival, given, faults)
    raise_all(faults, model_faults)
    for one in blueprints:
        one.reduced()


def _check_rival(goal: ComparisonGoal, rival: Blueprint, given: Collection[str], faults: FaultList) -> None:
    for parent in rival.laws[goal.outcome].parents:
        if rival.variables[parent].role is Role.PARAMETER and parent not in given:
            message = f"the rival needs '{parent}', which the plan gives no level"
            faults.add(goal.rival.line, goal.rival.column, message, f"add '{parent}' to factors")


def _check_goal(plan: Plan, blueprint: Blueprint, faults: FaultList) -> None:
    goal = plan.goal
    if goal is None:
        return
    if goal.outcome not in blueprint.laws:
        hint = f"add a law for it to {plan.model.path}"
        faults.add(goal.line, goal.column, f"the goal's outcome '{goal.outcome}' has no law", hint)
        return
    causes = blueprint.ancestors(goal.outcome)
    for name in goal.named:
        if name not in causes:
            message = f"in the model, '{name}' has no effect on '{goal.outcome}'"
            faults.add(goal.line, goal.column, message, f"what has: {', '.join(sorted(causes)) or 'nothing'}")
    if isinstance(goal, EffectGoal) and blueprint.variables[goal.cause].role is Role.LATENT:
        message = f"nothing can set or measure '{goal.cause}', so its effect cannot be told"
        able = sorted(name for name in causes if blueprint.variables[name].role in (Role.SET, Role.PARAMETER))
        faults.add(goal.line, goal.column, message, f"ask for the effect of {', '.join(able) or 'a factor'}")
