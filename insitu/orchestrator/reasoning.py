"""Whether the trials of a plan can tell what its goal asks for, by the graph of its model alone; in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.answers import NotIdentifiable
from insitu.orchestrator.causal.explanation import explain
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.projection import graph_of
from insitu.orchestrator.plan.goals import EffectGoal, Goal
from insitu.orchestrator.plan.types import Role

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.types import Plan


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What identification says about a plan's goal.

    Attributes
    ----------
    sentences
        The reasoning, for a reader.
    obstacle
        Why the goal cannot be answered by this plan; empty if it can.
    remedy
        What would help.
    """

    sentences: tuple[str, ...]
    obstacle: str = ""
    remedy: str = ""


def reason_about(plan: Plan, blueprint: Blueprint) -> Reasoning | None:
    """Decide whether the goal is identified; ``None`` without a goal."""
    goal = plan.goal
    if goal is None:
        return None
    graph = graph_of(blueprint)
    causes = _causes(plan, goal, blueprint)
    if not causes:
        return None
    measured = [name for name in graph.vertices if blueprint.variables[name].role is Role.MEASURED]
    set_by_trials = [factor.variable for factor in plan.factors if factor.variable in graph.vertices]
    answer = identify(graph, causes, [goal.outcome], measured=measured, settable=set_by_trials)
    sentences = explain(graph, answer)
    if isinstance(answer, NotIdentifiable):
        able = ", ".join(answer.would_help)
        remedy = f"it would be told if trials set {able}" if able else "measure the outcome"
        return Reasoning(sentences, " ".join(sentences), remedy)
    if mixed := _mixed_up(blueprint, set(set_by_trials), goal):
        cause, effect = mixed
        why = f"'{cause}' and '{effect}' share a hidden cause, so a fit of the law of '{effect}' mixes it in"
        return Reasoning(sentences, why, f"give '{effect}' a law in what trials set, without '{cause}'")
    return Reasoning(sentences)


def _causes(plan: Plan, goal: Goal, blueprint: Blueprint) -> list[str]:
    """What the question sets: the cause of an effect, else every factor that leads to the outcome."""
    if isinstance(goal, EffectGoal):
        return [goal.cause]
    before = blueprint.ancestors(goal.outcome)
    return [factor.variable for factor in plan.factors if factor.variable in before]


def _mixed_up(blueprint: Blueprint, held: set[str], goal: Goal) -> tuple[str, str] | None:
    """A measured variable and one in whose law it stands, with a hidden cause of both that no trial removes."""
    reduced = blueprint.reduced()
    under_do = reduced.do(name for name in held if name in reduced.variables)
    needed = {goal.outcome, *under_do.ancestors(goal.outcome)}
    for name, law in reduced.laws.items():
        if name not in needed or name in held:
            continue
        for parent in law.parents:
            pair = {name, parent}
            if parent not in held and any(pair == set(both) for both in reduced.confounded):
                return parent, name
    return None
