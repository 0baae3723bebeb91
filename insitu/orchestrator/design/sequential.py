"""The design that asks after each refit for the trials that tell most about the goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target
from insitu.orchestrator.design.batch import next_batch
from insitu.orchestrator.design.belief import Belief, stacked_information, stacked_rows
from insitu.orchestrator.design.controls import Check, check_of, count_checks, replicate_of
from insitu.orchestrator.design.criteria import Criterion, c_optimal, d_optimal
from insitu.orchestrator.design.exchange import exchange
from insitu.orchestrator.design.precision import precision_of
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.plan.types import DesignSpec
from insitu.orchestrator.store.records import Assignment, PlannedTrial

Informing = Callable[[int, np.random.Generator], Sequence[int]]
"""How many trials to numbers of candidates."""
LEAST_DF = 4
"""Trials beyond the number of parameters before the first look: with fewer, the noise is hardly known."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the choice of the next trials depends on.

    Attributes
    ----------
    beliefs
        By the variable that the law gives.
    target
        What the goal asks for.
    tried
        Assignments of the trials so far, in order, with what did not come out.
    seconds
        What a trial of each candidate takes, shape (m,); ``None`` where trials are counted, not seconds.
    """

    space: Space
    composite: Composite
    beliefs: Mapping[str, Belief]
    target: Target
    tried: Sequence[Assignment]
    seconds: Array | None = None


def first_batch_size(composite: Composite) -> int:
    """Trials before the first look, checks included."""
    informing = max(len(law.parameters) for law in composite.laws) + LEAST_DF
    return next(count for count in itertools.count(informing) if count - count_checks(count) >= informing)


def batch_size(spec: DesignSpec, composite: Composite) -> int:
    """Trials between two looks, checks included."""
    if spec.batch is not None:
        return spec.batch
    return max(2, math.ceil(max(len(law.parameters) for law in composite.laws) / 2))


def out_of_reach(situation: Situation) -> tuple[str, ...]:
    """Parameters that the goal needs, and that neither the trials so far nor any candidate tell apart."""
    rows, _ = finite_candidates(situation)
    known = stacked_information(situation.composite, situation.beliefs)
    criterion = _criterion(situation)
    found = precision_of(rows.reshape(-1, rows.shape[2]), known, criterion)
    if not criterion.targets(rows.shape[2]).shape[1] or math.isfinite(found.value):
        return ()
    names = [name for law in situation.composite.laws for name in law.parameters]
    return tuple(names[index] for one in found.confounded for index in one)


def plan_batch(
    situation: Situation,
    spec: DesignSpec,
    count: int,
    block: int,
    first_number: int,
    informing: Informing | None = None,
) -> tuple[PlannedTrial, ...]:
    """Choose the trials of one batch, in random order.

    Parameters
    ----------
    count
        How many, checks included.
    block
        Number of the batch; trials compared within are executed together.
    first_number
        Number of its first trial.
    informing
        Chooses candidates other than by what the goal's numbers ask for.

    Notes
    -----
    The same situation gives the same trials: the generator is seeded by the plan's seed and the block.
    """
    rng = np.random.default_rng([spec.seed, block])
    before = len(situation.tried)
    checks = [check for place in range(1, count + 1) if (check := check_of(before + place)) is not None]
    space = situation.space
    choose = informing or partial(_informing, situation)
    chosen = [space.assignment(candidate) for candidate in choose(count - len(checks), rng)]
    chosen += [_checking(situation, check, chosen) for check in checks]
    order = rng.permutation(len(chosen))
    return tuple(
        PlannedTrial(first_number + place, block, chosen[index], baseline=chosen[index] == space.rest)
        for place, index in enumerate(order)
    )


def _checking(situation: Situation, check: Check, chosen: Sequence[Assignment]) -> Assignment:
    """A trial that no law asks for."""
    space = situation.space
    match check:
        case Check.CONTROL:
            return space.rest
        case Check.CENTRE:
            return space.assignment(space.centre())
        case Check.REPLICATE:
            history = [one for one in (*situation.tried, *chosen) if one != space.rest] or [space.rest]
            return history[replicate_of(history)]


def _informing(situation: Situation, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Numbers of the candidates that tell most."""
    if count < 1:
        return ()
    rows, whole = finite_candidates(situation)
    known = stacked_information(situation.composite, situation.beliefs)
    seconds = None if situation.seconds is None else situation.seconds[whole]
    if not situation.tried:
        found = exchange(rows, count, d_optimal(), rng, information=None).trials
    else:
        found = next_batch(rows, count, _criterion(situation), information=known, costs=seconds).trials
    return tuple(int(whole[index]) for index in found)


def finite_candidates(situation: Situation) -> tuple[Array, npt.NDArray[np.int64]]:
    """What the candidates at which all laws are defined would tell, and their numbers."""
    rows = stacked_rows(situation.composite, situation.beliefs, situation.space.columns())
    whole = np.flatnonzero(np.isfinite(rows).all(axis=(1, 2)))
    return rows[whole], whole


def _criterion(situation: Situation) -> Criterion:
    """The goal's: the worst relative variance of the numbers that it asks for."""
    values = {name: belief.values for name, belief in situation.beliefs.items()}
    target = situation.target
    if not target.wanted:
        return d_optimal()
    sizes = target.sizes(values)
    gradients = target.gradients(values)
    laws = situation.composite.laws
    parts = [gradients.get(law.variable, np.zeros((len(sizes), len(law.parameters)))) for law in laws]
    stacked = np.hstack(parts) / np.where(sizes > 0, sizes, 1.0)[:, None]
    return c_optimal(stacked, worst=len(stacked) > 1)
