"""What is known after some trials: fitted laws, in the terms of the design and of the goal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target, target_of
from insitu.orchestrator.design.belief import Belief, nominal
from insitu.orchestrator.design.sequential import Situation
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.design.stopping import Look, Misfit
from insitu.orchestrator.errors import GoalNotReached
from insitu.orchestrator.estimation.answer import Answer, answer
from insitu.orchestrator.estimation.data import achieved_levels, can_be_fitted
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.refit import fit_law
from insitu.orchestrator.store.records import StoredTrial, TrialState

if TYPE_CHECKING:
    from collections.abc import Collection

    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.design.looks import Looks
    from insitu.orchestrator.plan.goals import Goal
    from insitu.orchestrator.plan.types import Plan


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The state of an experiment after some trials.

    Attributes
    ----------
    fits
        By the variable that the law gives; empty while one of them cannot be fitted, with the reason in `problem`.
    """

    blueprint: Blueprint
    target: Target
    trials: tuple[StoredTrial, ...]
    fits: Mapping[str, Fit]
    problem: str = ""

    @property
    def composite(self) -> Composite:
        return self.target.composite

    @property
    def valid(self) -> int:
        """Trials from which something can be learnt: valid ones whose outcome is a number that can be fitted."""
        source = self.blueprint.variables[self.composite.outcome].source or ""
        valid = [one.record for one in self.trials if one.state is TrialState.VALID and one.record is not None]
        return sum(can_be_fitted(record.measurements.get(source, math.nan)) for record in valid)

    def answer(self, confidence: float, inflation: float) -> Answer | None:
        """The goal's answer; ``None`` while a law is not fitted."""
        if not self.fits:
            return None
        return answer(self.target, self.fits, confidence, inflation)

    def look(self, goal: Goal, looks: Looks, *, disturbed: bool) -> Look:
        """What a stopping rule needs to know; `disturbed` is whether others spoilt the whole batch."""
        found = self.answer(goal.confidence, looks.inflation)
        width = found.half_width if found is not None and self.valid >= looks.trials[0] else math.inf
        df = min((fit.df for fit in self.fits.values()), default=math.inf)
        return Look(self.valid, width, self._misfit(), df, disturbed)

    def _misfit(self) -> Misfit | None:
        """The worst of the laws' tests of lack of fit."""
        found = [one for fit in self.fits.values() if (one := _misfit_of(fit)) is not None]
        return min(found, key=lambda one: one.p_value, default=None)

    def situation(self, plan: Plan, given_up: Mapping[str, Collection[float]], *, by_time: bool) -> Situation:
        """What the choice of the next trials depends on."""
        space = space_of(plan, given_up)
        beliefs = self._beliefs()
        return Situation(
            space=space,
            composite=self.composite,
            beliefs=beliefs,
            target=self.target,
            tried=[trial.planned.assignment for trial in self.trials],
            seconds=self._seconds(plan, space.columns(), beliefs) if by_time else None,
        )

    def _beliefs(self) -> dict[str, Belief]:
        levels = [
            achieved_levels(trial, self.blueprint.variables)
            for trial in self.trials
            if trial.state is TrialState.VALID
        ]
        return {law.variable: self._belief(law.variable, levels) for law in self.composite.laws}

    def _belief(self, variable: str, levels: Sequence[Mapping[str, float]]) -> Belief:
        law = next(one for one in self.composite.laws if one.variable == variable)
        seen = {name: np.array([one.get(name, math.nan) for one in levels]) for name in law.parents}
        fit = self.fits.get(variable)
        if fit is None:
            return Belief(law, nominal(law), 1.0, seen)
        known = {estimate.name: estimate.base for estimate in fit.estimates}
        return Belief(law, np.array([known.get(name, 0.0) for name in law.parameters]), _noise(fit), seen)

    def _seconds(self, plan: Plan, columns: Mapping[str, Array], beliefs: Mapping[str, Belief]) -> Array | None:
        """What a trial of each candidate takes; ``None`` before any trial."""
        durations = [trial.record.duration_s for trial in self.trials if trial.record is not None]
        if not durations:
            return None
        count = len(next(iter(columns.values())))
        outcome = self.blueprint.variables[self.composite.outcome]
        if outcome.source != "wall_time" or not self.fits:
            return np.full(count, statistics.median(durations))
        walls = [
            trial.record.measurements.get("wall_time", 0.0) for trial in self.trials if trial.record is not None
        ]
        around_s = max(0.0, statistics.median(d - w for d, w in zip(durations, walls, strict=True)))
        mean = self.composite.mean({name: one.values for name, one in beliefs.items()}, columns)
        shortest = min(walls, default=0.0) / 2
        seconds: Array = (
            np.clip(np.nan_to_num(mean, nan=max(walls)), shortest, plan.guards.trial_timeout_s) + around_s
        )
        return np.maximum(seconds, 1e-3)


def knowledge_of(plan: Plan, blueprint: Blueprint, goal: Goal, stored: Sequence[StoredTrial]) -> Knowledge:
    """Fit every law that the goal needs to the trials so far."""
    blueprint = blueprint.reduced()
    before = target_of(goal, blueprint, plan.factors)
    fits: dict[str, Fit] = {}
    for law in before.composite.laws:
        try:
            fits[law.variable] = fit_law(law, stored, goal.confidence, variables=blueprint.variables)
        except GoalNotReached as error:
            return Knowledge(blueprint, before, tuple(stored), {}, error.message)
    standing: dict[str, float] = {}
    for fit in fits.values():
        standing.update(fit.baseline)
    return Knowledge(blueprint, target_of(goal, blueprint, plan.factors, standing), tuple(stored), fits)


def _noise(fit: Fit) -> float:
    """Standard deviation of one trial; where all agree exactly, next to none of what was measured."""
    typical = statistics.median(abs(point.observed) for point in fit.points) if fit.points else 1.0
    return max(fit.sigma, 1e-9 * typical) or 1.0  # all zero: no trial tells more than another


def _misfit_of(fit: Fit) -> Misfit | None:
    test = fit.lack_of_fit
    if test is None or not fit.points:
        return None
    mean_square = test.pure_error_sd**2 * max(test.f - 1.0, 0.0)
    size = math.sqrt(mean_square * test.df_lack / fit.n)
    typical = statistics.fmean(abs(point.observed) for point in fit.points)
    sentence = fit.missing_term.sentence if fit.missing_term is not None else ""
    return Misfit(test.p_value, size / typical if typical else math.inf, sentence)
