"""Exact designs of trials in blocks: blocks per node, or whole plots between which alone some factors are changed.

Trials of a block share an effect of their own, so they are compared with each other better than with others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.continuous import split
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.exchange import STARTS
from insitu.orchestrator.design.optimality.information import Coordinates, applied, information_of, stacked
from insitu.orchestrator.design.optimality.innovation import innovations
from insitu.orchestrator.design.optimality.precision import Precision, precision_of
from insitu.orchestrator.design.optimality.search import Chosen, Integers, Search


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Trials that share a random effect.

    Attributes
    ----------
    trials
        How many to choose.
    earlier
        Rows of those that it has had, shape (n, p) or (n, k, p).
    """

    trials: int
    earlier: Array | None = None


@dataclass(frozen=True, slots=True)
class BlockedDesign:
    """Trials to run in each block.

    Attributes
    ----------
    blocks
        Candidates of the trials of each block, rising within it.
    efficiency
        As of an `ExactDesign`.
    """

    blocks: tuple[tuple[int, ...], ...]
    precision: Precision
    efficiency: float


def exchange_in_blocks(
    rows: Array,
    blocks: Sequence[Block],
    criterion: Criterion,
    rng: np.random.Generator,
    *,
    variance_ratio: float,
    settings: Integers | None = None,
    information: Array | None = None,
    starts: int = STARTS,
) -> BlockedDesign:
    """Choose the trials of blocks that each add an effect of their own to all their trials.

    Parameters
    ----------
    blocks
        How many trials each gets, and those it has had.
    variance_ratio
        Variance of the blocks' effects over that of a trial's noise. A large one (10,000) compares trials within
        blocks only.
    settings
        Number of each candidate's setting of the factors that are hard to change, shape (m,). All new trials of a
        block then have one setting: a split-plot design.
    information
        Of trials elsewhere, shape (p, p).

    Raises
    ------
    ValueError
        If there are no trials to choose, or the variance ratio is negative.

    Notes
    -----
    Generalised least squares; exchange of whole plots and within them after Goos and Vandebroek, Technometrics 43
    (2001), 436-450. Efficiency is measured against a bound that holds for blocks too: a split of the trials where
    each block's effect is predicted as a fixed function of what is measured, which no design of blocks betters.
    """
    stack = stacked(rows)
    if not 0 <= variance_ratio < math.inf or not sum(block.trials for block in blocks):
        raise ValueError("blocks with a trial to choose, and a finite ratio of variances, are needed")
    if settings is not None and any(block.earlier is not None for block in blocks):
        raise ValueError("a block whose trials share a setting has no earlier trials")
    shape = (0, *stack.shape[1:])
    earlier = [
        np.zeros(shape) if one.earlier is None else np.reshape(one.earlier, (-1, *shape[1:])) for one in blocks
    ]
    known = np.zeros((shape[2], shape[2])) if information is None else np.asarray(information, dtype=float)
    known_here = known + sum(information_of(innovations(one, variance_ratio)) for one in earlier)
    space = Coordinates.of(stack, known_here)
    search = Search(
        space,
        criterion.mapped(space.transform),
        [block.trials for block in blocks],
        variance_ratio=variance_ratio,
        earlier=[applied(one, space.transform) for one in earlier],
        settings=settings,
    )
    chosen = search.run(rng, starts)
    whole = [np.concatenate([had, stack[list(new)]]) for had, new in zip(earlier, chosen, strict=True)]
    told = np.concatenate([innovations(one, variance_ratio) for one in whole])
    precision = precision_of(told.reshape(-1, shape[2]), known, criterion)
    bound = _bound(stack, known, criterion, _Blocks(earlier, chosen, whole, variance_ratio, settings))
    return BlockedDesign(
        blocks=tuple(tuple(sorted(block)) for block in chosen),
        precision=precision,
        efficiency=criterion.efficiency(precision.value, bound, shape[2]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """A design in blocks: rows had earlier, candidates chosen, and rows of both, for each block."""

    earlier: Sequence[Array]
    chosen: Chosen
    whole: Sequence[Array]
    variance_ratio: float
    settings: Integers | None


def _bound(stack: Array, information: Array, criterion: Criterion, blocks: _Blocks) -> float:
    """A value that no design in such blocks betters; near it, if the design at hand is near the best.

    Notes
    -----
    Of n rows in a block, with total t and variance ratio v, generalised least squares makes
    ``X'X - t't v / (1 + v n)``. For every guess g of what the block's effect takes off each row that is at most
    ``sum (x - g)'(x - g) + g'g / v``, which adds up over trials, so that `split` bounds it. It is equal
    where g is ``t v / (1 + v n)``; the guesses are the means of that over the blocks of the design at hand.
    """
    ratio = blocks.variance_ratio
    labels = np.zeros(len(stack), dtype=np.int64) if blocks.settings is None else blocks.settings
    trials = [len(block) for block in blocks.chosen if block]
    guesses = np.zeros_like(stack)
    for label in np.unique(labels):
        inside = labels == label
        pulls = [
            rows.sum(axis=0) * ratio / (1 + ratio * len(rows))
            for block, rows in zip(blocks.chosen, blocks.whole, strict=True)
            if block and inside[block[0]]
        ] or [stack[inside].mean(axis=0) * ratio / (1 / max(trials) + ratio)]
        guesses[inside] = np.mean(pulls, axis=0)
    known = information + sum(
        information_of(rows - guesses[0] if block else innovations(rows, ratio))
        for block, rows in zip(blocks.chosen, blocks.earlier, strict=True)
    )
    shared = guesses / math.sqrt(ratio * min(trials)) if ratio else np.zeros_like(guesses)
    rows = np.concatenate([stack - guesses, shared], axis=1)
    space = Coordinates.of(rows, known)
    return space.value(criterion, split(space, sum(trials), criterion.mapped(space.transform)).floor)
