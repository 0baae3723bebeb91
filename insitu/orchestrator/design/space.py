"""The trials that a plan's factors allow: candidates, of which a design chooses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.at_rest import baseline, hard_to_change, left_alone
from insitu.orchestrator.design.controls import centre_of
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.store.records import Assignment

MOST_CANDIDATES = 10_000
"""Beyond it, candidates are drawn from all combinations; the corners of the space stay."""


@dataclass(frozen=True, slots=True)
class Space:
    """Candidate assignments.

    Attributes
    ----------
    names
        Of the factors.
    levels
        Base units, shape (m, factors); infinity is unlimited.
    free
        Levels of what could be set and is left alone.
    rest
        The assignment of no intervention.
    hard_to_change
        Those of the factors that are to change seldom.
    """

    names: tuple[str, ...]
    levels: Array
    free: tuple[tuple[str, float], ...]
    rest: Assignment
    hard_to_change: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.levels)

    def columns(self) -> dict[str, Array]:
        """Variable to its level in each candidate, shape (m,)."""
        columns = {name: self.levels[:, index] for index, name in enumerate(self.names)}
        return {**columns, **{name: np.full(len(self.levels), level) for name, level in self.free}}

    def assignment(self, candidate: int) -> Assignment:
        """One candidate as trials have it."""
        levels = (float(level) for level in self.levels[candidate])
        return Assignment((*zip(self.names, levels, strict=True), *self.free))

    def centre(self) -> int:
        """The candidate whose levels are nearest to the middle ones."""
        return centre_of(np.column_stack([_ranks(column) for column in self.levels.T]))

    def setting(self, assignment: Assignment) -> tuple[float, ...]:
        """Levels of what is hard to change."""
        levels = assignment.as_dict()
        return tuple(levels[name] for name in self.hard_to_change)

    def settings(self) -> npt.NDArray[np.int64]:
        """Number of each candidate's setting of what is hard to change, shape (m,)."""
        columns = self.levels[:, [self.names.index(name) for name in self.hard_to_change]]
        if not columns.shape[1]:
            return np.zeros(len(self.levels), dtype=np.int64)
        numbers: npt.NDArray[np.int64] = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
        return numbers

    def within(self, setting: tuple[float, ...]) -> Space:
        """The candidates with one setting of what is hard to change, which is no intervention's too."""
        if not setting:
            return self
        at = [self.names.index(name) for name in self.hard_to_change]
        held = dict(zip(self.hard_to_change, setting, strict=True))
        rest = Assignment(tuple((name, held.get(name, level)) for name, level in self.rest.levels))
        same = (self.levels[:, at] == np.array(setting)).all(axis=1)
        return replace(self, levels=self.levels[same], rest=rest)

    def groups(self, assignments: Sequence[Assignment]) -> list[list[Assignment]]:
        """Those with one setting of what is hard to change together, else in the same order."""
        groups: dict[tuple[float, ...], list[Assignment]] = {}
        for one in assignments:
            groups.setdefault(self.setting(one), []).append(one)
        return list(groups.values())

    def find(self, assignment: Assignment) -> int | None:
        """The candidate that is this assignment, if one is."""
        levels = assignment.as_dict()
        same = np.ones(len(self.levels), dtype=bool)
        for index, name in enumerate(self.names):
            same &= self.levels[:, index] == levels.get(name, math.nan)
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) else None


def space_of(plan: Plan, given_up: Mapping[str, Collection[float]] | None = None) -> Space:
    """Every combination of the factors' levels, or a sample of them where there are too many.

    Parameters
    ----------
    given_up
        Variable to levels that could not be held, and are not to be asked for again.
    """
    out = given_up or {}
    kept = [[one for one in factor.levels if one not in out.get(factor.variable, ())] for factor in plan.factors]
    levels = [own or list(factor.levels) for own, factor in zip(kept, plan.factors, strict=True)]
    names = tuple(factor.variable for factor in plan.factors)
    hard = tuple(factor.variable for factor in hard_to_change(plan))
    return Space(names, _combinations(levels, plan.design.seed), left_alone(plan), baseline(plan), hard)


def _combinations(levels: list[list[float]], seed: int) -> Array:
    """Shape (m, factors)."""
    sizes = [len(own) for own in levels]
    if math.prod(sizes) <= MOST_CANDIDATES:
        return np.array(list(itertools.product(*levels)), dtype=np.float64).reshape(-1, len(levels))
    rng = np.random.default_rng([seed, math.prod(sizes) % 2**32])
    ends = [sorted({0, size - 1}) for size in sizes]
    many = len(sizes) > 12  # 2 to the 12th corners are enough to hold a design
    corners = [] if many else list(itertools.product(*ends))
    drawn = np.column_stack([_spread(size, MOST_CANDIDATES - len(corners), rng) for size in sizes])
    chosen = np.vstack([np.array(corners, dtype=np.int64).reshape(-1, len(sizes)), drawn])
    chosen = np.unique(chosen, axis=0)
    return np.column_stack([np.asarray(own)[chosen[:, column]] for column, own in enumerate(levels)])


def _spread(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Each level about equally often, in random order: a Latin hypercube on listed levels."""
    return rng.permutation(np.arange(count) % size)


def _ranks(column: Array) -> Array:
    """Where each level stands among those of its factor, 0 to 1."""
    values, where = np.unique(column, return_inverse=True)
    ranks: Array = where / max(1, len(values) - 1) if len(values) > 1 else np.full(len(column), 0.5)
    return ranks
