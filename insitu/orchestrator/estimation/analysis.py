"""All that a report needs from the trials of a run, in one call that never fails for want of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import GoalNotReached, InputError
from insitu.orchestrator.estimation.checks.graph_check import check_graph
from insitu.orchestrator.estimation.checks.graph_findings import GraphCheck
from insitu.orchestrator.estimation.fit import Fit, FittedLaws, NotFitted
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.questions.curves import Curve, dose_response
from insitu.orchestrator.estimation.questions.queries import Effect, effect
from insitu.orchestrator.plan.goals import EffectGoal, Goal
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.store.records import StoredTrial

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Blueprint


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the trials say.

    Attributes
    ----------
    fit
        ``None`` with the reason in `problem` and what to do in `remedy`.
    effect
        The goal's effect over the range that was tried; ``None`` without a goal, or with the reason in
        `effect_problem`.
    graph
        Whether the trials contradict the graph; ``None`` without a fit.
    """

    outcome: str
    fit: Fit | None
    problem: str = ""
    remedy: str = ""
    effect: Effect | None = None
    effect_problem: str = ""
    curves: tuple[Curve, ...] = ()
    graph: GraphCheck | None = None


def analyse(blueprint: Blueprint, trials: Sequence[StoredTrial], goal: Goal | None) -> Analysis:
    """Fit the law of the goal's outcome, or without a goal the first law of a measured variable.

    Raises
    ------
    InputError
        If the model has no such law.
    """
    outcome = outcome_of(blueprint, goal)
    if outcome not in blueprint.laws:
        raise InputError(f"the model has no law for {outcome}", hint="add one under `laws:`")
    blueprint = blueprint.reduced()
    law = blueprint.laws[outcome]
    confidence = goal.confidence if goal is not None else 0.95
    try:
        fit = fit_law(law, trials, confidence, variables=blueprint.variables)
    except GoalNotReached as error:
        return Analysis(outcome, None, error.message, error.hint or "")
    words = {name: one.words for name, one in blueprint.variables.items() if one.categories}
    curves = dose_response(fit, law, words=words)
    whole = Analysis(outcome, fit, curves=curves, graph=check_graph(blueprint, trials))
    if not isinstance(goal, EffectGoal):
        return whole
    try:
        support = fit.support_of(goal.cause)
        ends = support.requested if len(support.requested) > 1 else (support.low, support.high)
        answer = effect(fit, law, goal.cause, ends[0], ends[-1], _others(fit, goal.cause))
    except KeyError:
        reason = f"the law of {outcome} does not mention {goal.cause}, so its effect is none by assumption"
        return replace(whole, effect_problem=reason)
    except InputError as error:
        return replace(whole, effect_problem=error.message)
    return replace(whole, effect=answer)


def _others(fit: Fit, cause: str) -> dict[str, float]:
    """Levels for variables that the baseline says nothing about: the middle one tried."""
    return {
        support.variable: support.requested[len(support.requested) // 2]
        for support in fit.support
        if support.variable != cause and support.variable not in fit.baseline and support.requested
    }


def outcome_of(blueprint: Blueprint, goal: Goal | None) -> str:
    """The variable whose law a run fits: the goal's outcome, or without a goal the first measured one with a law.

    Raises
    ------
    InputError
        If the model has no law of a measured variable.
    """
    if goal is not None:
        return goal.outcome
    for name in blueprint.laws:
        if blueprint.variables[name].role is Role.MEASURED:
            return name
    raise InputError("no measured variable of the model has a law", hint="add one under `laws:`")


def fit_all(blueprint: Blueprint, trials: Sequence[StoredTrial], confidence: float = 0.95) -> FittedLaws:
    """Fit every law of a measured variable, as far as the trials tell its parameters.

    Latent variables with a law are put into the laws of their children first. A variable that was set in a trial
    leaves its own law there, and informs all others.

    Raises
    ------
    InputError
        If a prior that a law names is not about it.
    """
    reduced = blueprint.reduced()
    fits: dict[str, Fit] = {}
    not_fitted: list[NotFitted] = []
    for name, law in reduced.laws.items():
        if reduced.variables[name].role is not Role.MEASURED:
            continue
        try:
            fits[name] = fit_law(law, trials, confidence, variables=reduced.variables)
        except GoalNotReached as error:
            not_fitted.append(NotFitted(name, error.message, error.hint or ""))
    return FittedLaws(fits, tuple(not_fitted))
