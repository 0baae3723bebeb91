"""Two laws of one outcome after some trials: both fitted, and what the trials say about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.rival import rival_of
from insitu.orchestrator.design.contest import Contest
from insitu.orchestrator.design.stopping import Misfit
from insitu.orchestrator.estimation.rivals.containment import Placed, contains
from insitu.orchestrator.estimation.rivals.verdict import Comparing, Side, Verdict
from insitu.orchestrator.plan.goals import ComparisonGoal, ParametersGoal
from insitu.orchestrator.steering.sequential import given_up
from insitu.orchestrator.steering.state import Knowledge, knowledge_of, misfit_of

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.records import StoredTrial


@dataclass(frozen=True, slots=True)
class Compared:
    """The state of a comparison after some trials.

    Attributes
    ----------
    law, rival
        What is known of each, as if it were the model's.
    contest
        The same in the terms of the design.
    verdict
        ``None`` while a law is not fitted, or no trial was foretold yet.
    """

    law: Knowledge
    rival: Knowledge
    contest: Contest
    verdict: Verdict | None

    @property
    def valid(self) -> int:
        return self.law.valid

    @property
    def problem(self) -> str:
        """Why a law cannot be fitted; empty if both can."""
        return self.law.problem or self.rival.problem

    def misfit(self, side: Side) -> Misfit | None:
        """Whether replicates contradict one of the laws."""
        knowledge = self.law if side is Side.LAW else self.rival
        fit = knowledge.fits.get(knowledge.composite.outcome)
        return None if fit is None else misfit_of(fit)

    @property
    def indistinguishable(self) -> bool:
        """Whether each law can predict what the other does, at every trial that the plan allows."""
        law, rival = placed(self.contest)
        return contains(law, rival) and contains(rival, law)


class Rivalry:
    """The comparison that a plan asks for; remembers what the laws foretold."""

    def __init__(self, plan: Plan, blueprint: Blueprint) -> None:
        rival = rival_of(plan, blueprint)
        if rival is None or not isinstance(plan.goal, ComparisonGoal):
            raise ValueError("a rivalry is of a plan that compares two laws")
        self.plan = plan
        self.goal = plan.goal
        self._blueprints = (blueprint, rival)
        self._each = ParametersGoal(outcome=plan.goal.outcome, confidence=plan.goal.confidence)
        law, self.rival = (one.reduced().laws[plan.goal.outcome] for one in self._blueprints)
        self._comparing = Comparing(
            law, self.rival, blueprint.variables, plan.goal.confidence, plan.goal.tolerance
        )

    def after(self, stored: Sequence[StoredTrial]) -> Compared:
        """Fit both laws to the trials so far, and weigh them."""
        law, rival = (knowledge_of(self.plan, one, self._each, stored) for one in self._blueprints)
        hopeless, by_time = given_up(stored), self.plan.budget.trials is None
        contest = Contest(*(one.situation(self.plan, hopeless, by_time=by_time) for one in (law, rival)))
        fits = [one.fits.get(self.goal.outcome) for one in (law, rival)]
        verdict = None
        if fits[0] is not None and fits[1] is not None:
            verdict = self._comparing.verdict(stored, (fits[0], fits[1]), placed(contest))
        return Compared(law, rival, contest, verdict)


def placed(contest: Contest) -> tuple[Placed, Placed]:
    """Each law at all trials that the plan allows."""
    law, rival = (
        Placed(
            side.composite.laws[-1],
            side.beliefs[side.composite.outcome].values,
            side.composite.means({name: one.values for name, one in side.beliefs.items()}, side.space.columns()),
        )
        for side in contest.sides
    )
    return law, rival
