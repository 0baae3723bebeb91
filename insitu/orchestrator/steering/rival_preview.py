"""How many trials a comparison of two laws takes, told before any of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.contest import Contest, contest_batch_size, first_contest_size, plan_contest
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.estimation.rivals.containment import Placed, contains, least_rise, nearest_values
from insitu.orchestrator.estimation.rivals.foretelling import SPARE
from insitu.orchestrator.estimation.rivals.verdict import Side
from insitu.orchestrator.steering.contest import Rivalry, placed

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.records import Assignment

SPREADS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""One trial's spread relative to the difference of the laws, for which the number of trials is told."""
_FURTHEST = 100
"""Trials beyond which nothing is foreseen."""
_TYPICAL = 0.2
"""The spread with which the trials are chosen that all spreads are then judged by."""


@dataclass(frozen=True, slots=True)
class Decided:
    """How many trials a decision takes.

    Attributes
    ----------
    spread
        Standard deviation between trials at the same levels, relative to the difference of the laws.
    if_law, if_rival
        Valid trials, if that law holds; ``None`` where the budget, or what can be foreseen, is not enough.
    """

    spread: float
    if_law: int | None
    if_rival: int | None


@dataclass(frozen=True, slots=True)
class RivalPreview:
    """The course of a comparison whose trials all come out.

    Attributes
    ----------
    first, batch, most
        Trials before the first look, between two looks, and in all.
    containing
        The law that contains the other, so that the difference is the least that matters; ``None`` if neither
        does, and it is the largest at any allowed trial, for nominal parameters.
    tolerance
        As of the goal.
    decided
        Empty where the laws differ in nothing but how trials spread.
    """

    first: int
    batch: int
    most: int
    containing: Side | None
    tolerance: float
    decided: tuple[Decided, ...]


def rival_preview_of(plan: Plan, blueprint: Blueprint, most_trials: int) -> RivalPreview:
    """Foresee a comparison.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """
    rivalry = Rivalry(plan, blueprint)
    contest = rivalry.after(()).contest
    both = placed(contest)
    within = [contains(both[0], both[1]), contains(both[1], both[0])]
    containing = Side.LAW if within[0] else Side.RIVAL if within[1] else None
    tolerance = rivalry.goal.tolerance
    needed = -math.log1p(-rivalry.goal.confidence)
    most = min(most_trials, _FURTHEST)
    courses = [] if _same_means(*both) else [_Course(contest, truth, containing, tolerance) for truth in Side]
    taken = [course.trials(plan, most, needed) for course in courses]
    return RivalPreview(
        first=first_contest_size(contest),
        batch=contest_batch_size(contest, plan.design),
        most=most_trials,
        containing=containing,
        tolerance=tolerance,
        decided=tuple(Decided(*one) for one in zip(SPREADS, *taken, strict=True)) if taken else (),
    )


def _same_means(law: Placed, rival: Placed) -> bool:
    """Whether two laws differ in nothing but how trials spread."""
    alike = replace(rival, law=replace(rival.law, noise=law.law.noise))
    return contains(law, alike) and contains(alike, law)


class _Course:
    """The trials that one law, if it holds, leads to, and what they are expected to say against the other.

    Notes
    -----
    With m trials foretold, noise s, and L the least sum of squares by which the other law, of q parameters, misses
    the true one, the expected logarithm of the evidence is near
    ``m/2 log(((m - q) s^2 + L) / (m s^2)) - 1/2 sum log(1 + h) - sum 1 / (2 df)``, with h the leverage of each
    trial before it came and df the degrees of freedom that its noise was foretold with.
    """

    def __init__(self, contest: Contest, truth: Side, containing: Side | None, tolerance: float) -> None:
        self.truth = truth
        self.tolerance = tolerance
        self.small_is_true = containing is truth.other
        own, other = placed(contest) if truth is Side.LAW else placed(contest)[::-1]
        everywhere = np.asarray(np.isfinite(np.column_stack([own.means, other.means])).all(axis=1))
        self.own, self.everywhere = own, everywhere
        near = replace(other, values=nearest_values(other, own.means, everywhere))
        self.other = near
        away, size = np.abs(own.means - near.means)[everywhere], np.abs(near.means)[everywhere]
        self.scale = float(away.max(initial=0.0))
        """What the noise is relative to, base units."""
        self.shrunk = 1.0
        if containing is not None:
            matters = tolerance * float(np.median(size))
            self.shrunk = matters / self.scale if containing is truth and self.scale else 0.0
            self.scale = matters
        believed = _believed(contest, truth, own.values, near.values)
        noise = _TYPICAL * max(self.scale, 1e-300)
        self.contest = Contest(*(_with(side, noise=noise) for side in believed.sides))

    def trials(self, plan: Plan, most: int, needed: float) -> list[int | None]:
        """How many each of `SPREADS` takes."""
        found: list[int | None] = [None] * len(SPREADS)
        assignments: list[Assignment] = []
        size = first_contest_size(self.contest)
        block = 1
        while None in found and len(assignments) + size <= most:
            now = self._after(assignments)
            batch = plan_contest(now, plan.design, size, block, len(assignments) + 1)
            assignments += [planned.assignment for planned in batch]
            for place, spread in enumerate(SPREADS):
                if found[place] is None and self._evidence(assignments, spread * self.scale) >= needed:
                    found[place] = len(assignments)
            size, block = contest_batch_size(self.contest, plan.design), block + 1
        return found

    def _after(self, assignments: Sequence[Assignment]) -> Contest:
        """The contest after trials without noise: the other law is fitted to what the true one gives."""
        if not assignments:
            return self.contest
        index = [self._place(one) for one in assignments]
        levels = {name: column[index] for name, column in self.other.levels.items()}
        tried = replace(self.other, levels=levels)
        near = nearest_values(tried, self.own.means[index], np.ones(len(index), dtype=np.bool_))
        found = _believed(self.contest, self.truth, self.own.values, near)
        return Contest(*(_tried(side, assignments) for side in found.sides))

    def _evidence(self, assignments: Sequence[Assignment], noise: float) -> float:
        own, other = self.own.law, self.other.law
        begin = max(len(own.parameters), len(other.parameters)) + SPARE
        count = len(assignments) - begin
        left = count - len(other.parameters)
        if left < 1 or noise <= 0:
            return -math.inf
        index = [self._place(one) for one in assignments]
        unit = np.abs(self.own.means[index]) if own.relative_noise else np.ones(len(index))
        unit = unit / (float(np.median(unit)) or 1.0)
        missed = self._missed(index[begin:], unit[begin:])
        rows = self.own.slopes[index] / unit[:, None]
        grown = sum(math.log1p(_leverage(rows[:one], rows[one])) for one in range(begin, len(index)))
        vague = sum(1 / (one - len(own.parameters)) for one in range(begin, len(index)))
        fits = count / 2 * math.log((left * noise**2 + missed) / (count * noise**2))
        return fits - (grown + vague) / 2

    def _missed(self, later: Sequence[int], unit: Array) -> float:
        """The least squares by which the other law misses the true one at some trials."""
        rows = self.other.slopes[later] / unit[:, None]
        if self.small_is_true:
            lengths = np.linalg.norm(rows, axis=0)
            if not lengths.all() or np.linalg.matrix_rank(rows / lengths) < rows.shape[1]:
                return 0.0
            inverse = np.linalg.inv((rows / lengths).T @ (rows / lengths)) / np.outer(lengths, lengths)
            return least_rise(self.other, self.own, inverse, self.tolerance)
        lengths = np.linalg.norm(rows, axis=0)
        rows = rows / np.where(lengths > 0, lengths, 1.0)
        away = (self.own.means - self.other.means)[later] / unit * self.shrunk
        rest = away - rows @ np.linalg.lstsq(rows, away, rcond=None)[0]
        return float(rest @ rest)

    def _place(self, assignment: Assignment) -> int:
        """The candidate that an assignment is; for a trial without any intervention, the middle one."""
        space = self.contest.law.space
        found = space.find(assignment)
        return space.centre() if found is None else found


def _believed(contest: Contest, truth: Side, own: Array, near: Array) -> Contest:
    """The contest with fits as they would be if one law held."""
    values = {truth: own, truth.other: near}
    return Contest(*(_with(one, values=values[side]) for one, side in zip(contest.sides, Side, strict=True)))


def _with(side: Situation, values: Array | None = None, noise: float | None = None) -> Situation:
    name = side.composite.outcome
    belief = side.beliefs[name]
    changed = replace(
        belief,
        values=belief.values if values is None else values,
        noise=belief.noise if noise is None else noise,
    )
    return replace(side, beliefs={**side.beliefs, name: changed})


def _tried(side: Situation, assignments: Sequence[Assignment]) -> Situation:
    """The situation after trials that held the levels they were asked for."""
    if not assignments:
        return side
    levels = {name: np.array([one.as_dict()[name] for one in assignments]) for name in side.space.columns()}
    known = side.composite.means({name: one.values for name, one in side.beliefs.items()}, levels)
    beliefs = {
        name: replace(belief, levels={parent: np.asarray(known[parent]) for parent in belief.law.parents})
        for name, belief in side.beliefs.items()
    }
    return replace(side, beliefs=beliefs, tried=tuple(assignments))


def _leverage(before: Array, row: Array) -> float:
    lengths = np.linalg.norm(before, axis=0)
    scaled = before / np.where(lengths > 0, lengths, 1.0)
    here = row / np.where(lengths > 0, lengths, 1.0)
    return float(here @ np.linalg.pinv(scaled.T @ scaled) @ here)


__all__ = ["SPREADS", "Decided", "RivalPreview", "rival_preview_of"]
