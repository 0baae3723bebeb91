"""The search behind exact designs: trials in blocks with an effect of their own, exchanged until nothing helps.

Independent trials are one block without an effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.information import Coordinates, inverse
from insitu.orchestrator.design.optimality.innovation import Others, innovations
from insitu.orchestrator.design.optimality.knowledge import Knowledge

Integers = NDArray[np.int64]
Chosen = list[list[int]]
"""Candidates of the new trials of each block."""

SMALLEST_GAIN = 1e-6
"""A fall of a loss that is a smaller part of what all trials gain comes from the ridge or from rounding."""
_LEAST_GAINED = 1e-9
_MOST_PASSES = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """What counts as better.

    Attributes
    ----------
    begin
        The loss without any of the trials that are looked for.
    """

    criterion: Criterion
    begin: float

    @classmethod
    def of(cls, criterion: Criterion, information: Array) -> Progress:
        return cls(criterion, criterion.loss(inverse(information)))

    def gain(self, before: float, after: float) -> float:
        return float(self.criterion.gains(before, np.array(after)))

    def is_better(self, before: float, after: float) -> bool:
        """Whether a loss falls by more than `SMALLEST_GAIN` of all that was gained, or of one if that is less."""
        gained = max(self.gain(self.begin, before), _LEAST_GAINED)
        return self.gain(before, after) > SMALLEST_GAIN * min(1.0, gained)


class Search:
    """Exchange among the candidates of `space`; a fresh one for each design.

    Parameters
    ----------
    space
        Its information includes what the blocks' earlier trials tell.
    criterion
        In the coordinates of `space`.
    earlier
        Rows of each block's earlier trials in these coordinates, shape (n, k, q).
    settings
        Setting of each candidate that all trials of a block must have in common.
    repeats
        The most trials of one candidate.
    """

    def __init__(
        self,
        space: Coordinates,
        criterion: Criterion,
        trials: Sequence[int],
        *,
        variance_ratio: float = 0.0,
        earlier: Sequence[Array] | None = None,
        settings: Integers | None = None,
        repeats: int | None = None,
    ) -> None:
        self._space = space
        self._criterion = criterion
        self._trials = tuple(trials)
        self._ratio = variance_ratio
        none = np.zeros((0, *space.rows.shape[1:]))
        self._earlier = tuple(earlier) if earlier is not None else (none,) * len(self._trials)
        labels = np.zeros(len(space.rows), dtype=np.int64) if settings is None else settings
        self._of_setting = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        self._setting = np.unique(labels, return_inverse=True)[1]
        self._most = repeats if repeats is not None else max(1, sum(self._trials))

    def run(
        self,
        rng: np.random.Generator,
        starts: int,
        *,
        first: Chosen | None = None,
        shares: Array | None = None,
    ) -> Chosen:
        """The best design of those that `starts` designs lead to: `first`, the greedy one, and random ones.

        Parameters
        ----------
        shares
            Probabilities of the candidates in every other random design, shape (m,).
        """
        progress = Progress.of(self._criterion, self._space.information)
        known = [self.greedy()] if first is None else [first, self.greedy()]
        best = self.climb(known[0])
        for start in range(1, starts):
            drawn = self.random(rng, shares if start % 2 else None)
            climbed = self.climb(known[start] if start < len(known) else drawn)
            if progress.is_better(self.loss(best), self.loss(climbed)):
                best = climbed
        return best

    def greedy(self) -> Chosen:
        """The trials that tell most, one after the other."""
        knowledge = Knowledge.of(self._space.rows, self._space.information, self._criterion)
        held = np.zeros(len(self._setting), dtype=np.int64)
        chosen: Chosen = []
        for number, count in enumerate(self._trials):
            block: list[int] = []
            for _ in range(count):
                others = self._others(number, block)
                losses = knowledge.losses(self._criterion, others=others)
                losses[held >= self._most] = math.inf
                if block:
                    losses[self._setting != self._setting[block[0]]] = math.inf
                block.append(int(np.argmin(losses)))
                held[block[-1]] += 1
                knowledge = knowledge.with_trial(others.innovation(self._space.rows[block[-1]]))
            chosen.append(block)
        return chosen

    def random(self, rng: np.random.Generator, shares: Array | None = None) -> Chosen:
        """A random design; with `shares`, of candidates with these probabilities while there are such."""
        likely = np.ones(len(self._setting)) if shares is None else shares + 1e-9
        left = np.full(len(self._setting), self._most)
        chosen: Chosen = []
        for count in self._trials:
            setting = self._of_setting[int(rng.integers(len(self._of_setting)))]
            picked: list[int] = []
            for _ in range(count):
                free = setting[left[setting] > 0]
                picked.append(int(rng.choice(free, p=likely[free] / likely[free].sum())))
                left[picked[-1]] -= 1
            chosen.append(picked)
        return chosen

    def loss(self, chosen: Chosen) -> float:
        return self._criterion.loss(inverse(self._information(chosen)))

    def climb(self, start: Chosen) -> Chosen:
        """Exchange until no exchange helps; never to a design worse than the start."""
        chosen = [list(block) for block in start]
        softened = self._criterion.softened()
        for criterion in dict.fromkeys((softened, self._criterion)):
            self._climb(chosen, criterion)
        return chosen if self.loss(chosen) <= self.loss(start) else start

    def _climb(self, chosen: Chosen, criterion: Criterion) -> None:
        for _ in range(_MOST_PASSES):
            moved = self._exchange_trials(chosen, criterion)
            if not moved and len(self._of_setting) > 1:
                moved = self._exchange_blocks(chosen, criterion)
            if not moved:
                break

    def told(self, chosen: Chosen) -> Array:
        """Rows of independent trials that inform as much as the new ones, shape (n, k, q)."""
        parts = [
            innovations(np.concatenate([earlier, self._space.rows[block]]), self._ratio)[len(earlier) :]
            if self._ratio
            else self._space.rows[block]
            for earlier, block in zip(self._earlier, chosen, strict=True)
        ]
        return np.concatenate(parts)

    def _information(self, chosen: Chosen) -> Array:
        flat = self.told(chosen).reshape(-1, self._space.parameters)
        information: Array = self._space.information + flat.T @ flat
        return information

    def _exchange_trials(self, chosen: Chosen, criterion: Criterion) -> bool:
        """Take each trial out once, and put the best candidate in; whether anything changed."""
        progress = Progress.of(criterion, self._space.information)
        information, moved = self._information(chosen), False
        knowledge = Knowledge.of(self._space.rows, information, criterion)
        held = np.bincount([one for block in chosen for one in block], minlength=len(self._setting))
        loss = criterion.loss(knowledge.covariance)
        for number, block in enumerate(chosen):
            stays: set[int] = set()  # candidates that were tried since this block last changed
            for place, candidate in enumerate(block):
                if candidate in stays:
                    continue
                others = self._others(number, block[:place] + block[place + 1 :])
                leaving = others.innovation(self._space.rows[candidate])
                allowed = self._of_setting[self._setting[candidate]]
                among = allowed if len(self._of_setting) > 1 else None
                losses = knowledge.losses(criterion, leaving=leaving, others=others, among=among)
                losses[(held[allowed] >= self._most) & (allowed != candidate)] = math.inf
                best = int(allowed[np.argmin(losses)])
                entering = others.innovation(self._space.rows[best])
                exchanged = information + entering.T @ entering - leaving.T @ leaving
                reached = criterion.loss(inverse(exchanged)) if progress.is_better(loss, losses.min()) else loss
                if not progress.is_better(loss, reached):  # what was foreseen may be rounding
                    stays.add(candidate)
                    continue
                block[place] = best
                held[candidate] -= 1
                held[best] += 1
                information, loss, moved = exchanged, reached, True
                knowledge = Knowledge.of(self._space.rows, information, criterion)
                stays.clear()
        return moved

    def _exchange_blocks(self, chosen: Chosen, criterion: Criterion) -> bool:
        """Empty each block once, and fill it at the setting that is best; whether anything changed."""
        progress, moved = Progress.of(criterion, self._space.information), False
        for number, block in enumerate(chosen):
            emptied: Chosen = [*chosen[:number], [], *chosen[number + 1 :]]
            loss, without = criterion.loss(inverse(self._information(chosen))), self._information(emptied)
            for allowed in self._of_setting:
                knowledge = Knowledge.of(self._space.rows[allowed], without, criterion)
                filled: list[int] = []
                for _ in block:
                    others = self._others(number, filled)
                    best = int(allowed[np.argmin(knowledge.losses(criterion, others=others))])
                    knowledge = knowledge.with_trial(others.innovation(self._space.rows[best]))
                    filled.append(best)
                reached = criterion.loss(knowledge.covariance)
                if progress.is_better(loss, reached):
                    chosen[number], loss, moved = filled, reached, True
        return moved

    def _others(self, number: int, block: Sequence[int]) -> Others:
        rows = np.concatenate([self._earlier[number], self._space.rows[list(block)]])
        return Others(rows.sum(axis=0), len(rows), self._ratio)
