"""Exact designs of whole trials by exchange: one trial at a time is taken out, and the best candidate put in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.continuous import split
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.information import Coordinates, stacked
from insitu.orchestrator.design.optimality.precision import Precision, precision_of
from insitu.orchestrator.design.optimality.search import Integers, Search

NO_TRIAL = 0.01
"""Expected trials of a candidate that is given none."""
STARTS = 10
"""Designs to start from; the best of what they lead to is taken."""


@dataclass(frozen=True, slots=True)
class ExactDesign:
    """Trials to run, as numbers of candidates.

    Attributes
    ----------
    candidates
        Those chosen, rising.
    counts
        How many trials of each.
    cost
        Of all trials together: their number, or what they cost.
    efficiency
        Share of all trials, those that exist included, that would do, could trials be divided: a lower bound, from
        `best_possible`. The best design of whole trials has less than one, too.
    """

    candidates: tuple[int, ...]
    counts: tuple[int, ...]
    cost: float
    precision: Precision
    efficiency: float

    @property
    def trials(self) -> tuple[int, ...]:
        """Candidate of each trial, rising."""
        return tuple(
            candidate for candidate, count in zip(self.candidates, self.counts, strict=True) for _ in range(count)
        )


def exchange(
    rows: Array,
    trials: int,
    criterion: Criterion,
    rng: np.random.Generator,
    *,
    information: Array | None = None,
    repeats: int | None = None,
    starts: int = STARTS,
) -> ExactDesign:
    """Choose trials among candidates.

    Parameters
    ----------
    rows
        Candidates, shape (m, p), or (m, k, p) where a trial informs by k rows: derivatives by the parameters,
        divided by the noise's standard deviation.
    trials
        How many to choose.
    information
        Of the trials that exist already, shape (p, p).
    repeats
        The most trials of one candidate.

    Raises
    ------
    ValueError
        If there are no trials to choose, or too few candidates for them.

    Notes
    -----
    The modified exchange of Cook and Nachtsheim, Technometrics 22 (1980), 315-324, started from the rounded best
    split of the trials and from random designs.
    """
    stack = stacked(rows)
    if trials < 1 or (repeats is not None and repeats * len(stack) < trials):
        raise ValueError(f"{trials} trials of {len(stack)} candidates")
    space = Coordinates.of(stack, information)
    target = criterion.mapped(space.transform)
    best = split(space, trials, target)
    search = Search(space, target, (trials,), repeats=repeats)
    first = [apportioned(best.shares, trials).tolist()] if repeats is None else None
    (chosen,) = search.run(rng, starts, first=first, shares=best.shares)
    return exact_design(stack, chosen, information, criterion, space.value(criterion, best.floor))


def exact_design(
    rows: Array,
    trials: Sequence[int],
    information: Array | None,
    criterion: Criterion,
    bound: float,
    costs: Array | None = None,
) -> ExactDesign:
    """Describe chosen trials; `bound` is the value that none better."""
    counts = sorted(Counter(trials).items())
    precision = precision_of(rows[list(trials)].reshape(-1, rows.shape[2]), information, criterion)
    return ExactDesign(
        candidates=tuple(candidate for candidate, _ in counts),
        counts=tuple(count for _, count in counts),
        cost=float(len(trials)) if costs is None else float(costs[list(trials)].sum()),
        precision=precision,
        efficiency=criterion.efficiency(precision.value, bound, rows.shape[2]),
    )


def apportioned(shares: Array, trials: int) -> Integers:
    """Round shares of a number of trials to whole trials; the candidate of each.

    Notes
    -----
    The efficient apportionment of Pukelsheim and Rieder, Biometrika 79 (1992), 763-770.
    """
    held = np.flatnonzero(shares * trials > NO_TRIAL)
    held = held[np.argsort(-shares[held], kind="stable")][:trials]
    part = shares[held] / shares[held].sum()
    counts = np.ceil((trials - len(held) / 2) * part).astype(np.int64)
    while counts.sum() < trials:
        counts[np.argmin(counts / part)] += 1
    while counts.sum() > trials:
        counts[np.argmax((counts - 1) / part)] -= 1
    return np.repeat(held, counts)
