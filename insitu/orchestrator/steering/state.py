"""What is known after some trials: fitted laws, in the terms of the design and of the goal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target, target_of
from insitu.orchestrator.design.belief import Belief, nominal
from insitu.orchestrator.design.controls import Check, lost_checks
from insitu.orchestrator.design.setup import setup_seconds
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.design.space import Space, space_of
from insitu.orchestrator.design.stopping import Look, Misfit
from insitu.orchestrator.errors import GoalNotReached
from insitu.orchestrator.estimation.answer import Answer, answer
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.data import achieved_levels, can_be_fitted
from insitu.orchestrator.estimation.fitting.prior_files import prior_of
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.store.records import Assignment, Purpose, StoredTrial, TrialState

if TYPE_CHECKING:
    from collections.abc import Collection

    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.design.looks import Looks
    from insitu.orchestrator.plan.goals import Goal
    from insitu.orchestrator.plan.types import Plan


_LEAST_S = 1e-3
"""No trial takes less, whatever a law says."""


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
        shares = [fit.prior.share for fit in self.fits.values() if fit.prior is not None]
        return Look(self.valid, width, self._misfit(), df, disturbed, max(shares, default=0.0))

    def _misfit(self) -> Misfit | None:
        """The worst of the laws' tests of lack of fit."""
        found = [one for fit in self.fits.values() if (one := misfit_of(fit)) is not None]
        return min(found, key=lambda one: one.p_value, default=None)

    def situation(self, plan: Plan, given_up: Mapping[str, Collection[float]], *, by_time: bool) -> Situation:
        """What the choice of the next trials depends on.

        Parameters
        ----------
        by_time
            Whether it depends on what trials take.
        """
        space = space_of(plan, given_up)
        beliefs = self._beliefs()
        return Situation(
            space=space,
            composite=self.composite,
            beliefs=beliefs,
            target=self.target,
            tried=[trial.planned.assignment for trial in self.trials],
            seconds=self._seconds(plan, space, beliefs) if by_time else None,
            lost=lost_checks(len(self.trials), self._checks()),
        )

    def _checks(self) -> Iterator[Check]:
        """What the valid trials among those that check the law are there for."""
        for trial in self.trials:
            purpose = trial.planned.purpose
            if trial.state is TrialState.VALID and purpose not in (None, Purpose.INFORMING):
                yield Check(purpose)

    def as_before(self, plan: Plan) -> Situation:
        """A situation without any trial, but with the laws and the noise that these trials told."""
        found = self.situation(plan, {}, by_time=False)
        beliefs = {name: replace(belief, levels={}) for name, belief in found.beliefs.items()}
        return replace(found, beliefs=beliefs, tried=(), lost=())

    def seconds(self, plan: Plan, assignments: Sequence[Assignment]) -> Array | None:
        """What trials with these assignments take, shape (n,); ``None`` while nothing is known."""
        space = space_of(plan)
        levels = [[one.as_dict()[name] for name in space.names] for one in assignments]
        return self._seconds(plan, replace(space, levels=np.array(levels)), self._beliefs())

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
        prior = prior_of(law)
        root = None if prior is None else prior.rows(law)
        known = None if root is None else root.T @ root
        fit = self.fits.get(variable)
        if fit is not None:
            found = {estimate.name: estimate.base for estimate in fit.estimates}
            values = np.array([found.get(name, 0.0) for name in law.parameters])
            return Belief(law, values, _noise(fit), seen, known)
        values, noise = nominal(law), 1.0
        if prior is not None:
            values = np.where(np.isnan(there := prior.known_values(law)), values, there)
            noise = prior.noise if prior.noise > 0 else noise
        return Belief(law, values, noise, seen, known, untold=prior is None)

    def _seconds(self, plan: Plan, space: Space, beliefs: Mapping[str, Belief]) -> Array | None:
        """What a trial of each candidate takes, set-up included; ``None`` while nothing is known."""
        walls = self._walls(plan, space, beliefs)
        if walls is None:
            return None
        own = [name for name in space.names if plan.model.variables[name].role is Role.PARAMETER]
        records = [trial.record for trial in self.trials if trial.record is not None]
        setups = setup_seconds(
            space,
            own,
            [trial.planned.assignment for trial in self.trials if trial.record is not None],
            [max(0.0, one.duration_s - one.measurements.get("wall_time", 0.0)) for one in records],
            plan.design.setup_s or 0.0,
        )
        return np.maximum(walls + setups, _LEAST_S)

    def _walls(self, plan: Plan, space: Space, beliefs: Mapping[str, Belief]) -> Array | None:
        """What the subject takes in a trial of each candidate."""
        walls = [
            trial.record.measurements.get("wall_time", 0.0) for trial in self.trials if trial.record is not None
        ]
        is_time = self.blueprint.variables[self.composite.outcome].source == "wall_time"
        if is_time and not any(belief.untold for belief in beliefs.values()) and (self.fits or not walls):
            mean = self.composite.mean({name: one.values for name, one in beliefs.items()}, space.columns())
            longest = max(walls, default=plan.guards.trial_timeout_s)
            shortest = min(walls, default=0.0) / 2
            known: Array = np.clip(np.nan_to_num(mean, nan=longest), shortest, plan.guards.trial_timeout_s)
            return known
        return np.full(len(space), statistics.median(walls)) if walls else None


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


def misfit_of(fit: Fit) -> Misfit | None:
    """What the test of lack of fit says of one law; ``None`` where there is no test."""
    test = fit.lack_of_fit
    if test is None or not fit.points:
        return None
    mean_square = test.pure_error_sd**2 * max(test.f - 1.0, 0.0)
    size = math.sqrt(mean_square * test.df_lack / fit.n)
    typical = statistics.fmean(abs(point.observed) for point in fit.points)
    sentence = fit.missing_term.sentence if fit.missing_term is not None else ""
    return Misfit(test.p_value, size / typical if typical else math.inf, sentence)
