"""The blueprint with a rival in the place of one law, read and checked as the model's laws are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.expression import spell
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.plan.goals import ComparisonGoal
from insitu.orchestrator.plan.located import FaultList, raise_all

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Plan


def rival_of(plan: Plan, blueprint: Blueprint) -> Blueprint | None:
    """Put the rival of a comparison in the place of the law that it is compared with; ``None`` for other goals.

    Parameters
    ----------
    blueprint
        Of the plan's model.

    Raises
    ------
    FaultyFile
        With every fault of the rival, at its place in the plan: those that a law of a model can have, and that it
        is the model's law.
    """
    goal = plan.goal
    if not isinstance(goal, ComparisonGoal):
        return None
    model, here = plan.model, goal.rival
    # the other laws are sound by themselves, so a fault between one of them and the rival is the rival's
    others = tuple(
        replace(law, line=here.line, column=here.column) for law in model.laws if law.variable != goal.outcome
    )
    kept = {_family(one) for law in others for one in blueprint.laws[law.variable].parameters}
    parameters = (*(one for one in model.parameters if one.name in kept), *goal.rival_parameters)
    found = build_blueprint(replace(model, path=plan.path, laws=(*others, here), parameters=parameters))
    if goal.outcome in blueprint.laws and _same(found.laws[goal.outcome], blueprint.laws[goal.outcome]):
        faults = FaultList(plan.path)
        message = f"the rival is the model's own law of '{goal.outcome}'"
        faults.add(here.line, here.column, message, "write the law that it is to be compared with")
        raise_all(faults)
    return found


def _family(parameter: str) -> str:
    """What a parameter is called without its category."""
    return parameter.partition("[")[0]


def _same(rival: Law, law: Law) -> bool:
    """Whether two laws say the same in the same words; what is said in other words, predictions show."""
    alike = (rival.link, rival.noise, rival.bounds) == (law.link, law.noise, law.bounds)
    return alike and spell(rival.expression) == spell(law.expression)
