"""Between which levels an effect lies that a question gives none for, and where other variables stand then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.target import target_of
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.store.records import StoredTrial, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.estimation.questions.model import FittedModel
    from insitu.orchestrator.plan.types import Plan


@dataclass(frozen=True, slots=True)
class Ends:
    """Base units; ``None`` where nothing says.

    Attributes
    ----------
    at
        Levels of other variables.
    """

    low: float | None = None
    high: float | None = None
    at: Mapping[str, float] = field(default_factory=dict)


def usual_ends(plan: Plan, model: FittedModel, trials: Sequence[StoredTrial], cause: str, outcome: str) -> Ends:
    """Those of the plan's goal, where it asks for an effect of the cause; else the ends of what trials asked for.

    What the goal says of other variables counts only where the outcome is its, too: then the question is the goal.
    """
    goal = plan.goal
    if not isinstance(goal, EffectGoal) or goal.cause != cause:
        return _asked_for(trials, cause)
    standing: dict[str, float] = {}
    for one in model.laws.values():
        standing.update(one.fit.baseline)
    wanted = target_of(goal, model.blueprint, plan.factors, standing).wanted[0]
    causes = model.blueprint.ancestors(outcome)
    at = {name: level for name, level in goal.at if name in causes and goal.outcome == outcome}
    return Ends(wanted.low, wanted.high, at)


def _asked_for(trials: Sequence[StoredTrial], cause: str) -> Ends:
    """The lowest and the highest level of valid trials; where they had one alone, unlimited is the other."""
    assigned = [one.planned.assignment.as_dict() for one in trials if one.state is TrialState.VALID]
    levels = sorted({levels[cause] for levels in assigned if cause in levels})
    finite = [level for level in levels if math.isfinite(level)]
    chosen = finite if len(finite) > 1 else levels
    return Ends(chosen[0], chosen[-1]) if len(chosen) > 1 else Ends()
