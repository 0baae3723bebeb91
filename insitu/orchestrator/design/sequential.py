"""The design that asks after each refit for the trials that tell most about the goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.belief import stacked_rows
from insitu.orchestrator.design.controls import check_of, count_checks
from insitu.orchestrator.design.layout import checking
from insitu.orchestrator.design.optimality.batch import next_batch
from insitu.orchestrator.design.optimality.criteria import d_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.optimality.precision import precision_of
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.plan.types import DesignSpec
from insitu.orchestrator.store.records import PlannedTrial, Purpose

Informing = Callable[[int, np.random.Generator], Sequence[int]]
"""How many trials to numbers of candidates."""
LEAST_DF = 4
"""Trials beyond the number of parameters before the first look: with fewer, the noise is hardly known."""


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
    """Parameters that the goal needs, and that neither the trials so far nor any candidate tell apart.

    A trial without any intervention, as some checks are, is a candidate, too.
    """
    criterion = situation.for_goal()
    rows, known = _all_rows(situation), situation.information()
    found, asked = precision_of(rows, known, criterion), criterion.asked(rows.shape[1])
    if not asked.shape[1] or math.isfinite(found.value):
        return ()
    return _names(situation, [one for one in found.confounded if asked[list(one)].any()])


def never_told(situation: Situation) -> tuple[str, ...]:
    """Parameters that no candidate tells apart, beside all that is known: laws with these are never fitted."""
    found = precision_of(_all_rows(situation), situation.information(), d_optimal()).confounded
    return _names(situation, [one for one in found if len(one) > 1])  # a single one is left out of the fit


def _all_rows(situation: Situation) -> Array:
    """What every trial that there can be tells, shape (n, p).

    Before any trial, what is not applied counts with a level that the machine may give, too.
    """
    columns = [{name: np.array([level]) for name, level in situation.space.rest.levels}]
    if not situation.tried:
        columns += [
            {name: _as_the_machine(levels) for name, levels in one.items()}
            for one in (situation.space.columns(), columns[0])
        ]
    further = [stacked_rows(situation.composite, situation.beliefs, one) for one in columns]
    rows = np.concatenate(
        [situation.candidates().rows, *(one[np.isfinite(one).all(axis=(1, 2))] for one in further)]
    )
    return rows.reshape(-1, rows.shape[2])


def _as_the_machine(levels: Array) -> Array:
    """Levels, shape (m,), with one above the others for what is unlimited."""
    finite = levels[np.isfinite(levels)]
    return np.where(np.isfinite(levels), levels, 2 * float(finite.max()) if len(finite) else 1.0)


def _names(situation: Situation, sets: Sequence[Sequence[int]]) -> tuple[str, ...]:
    names = [name for law in situation.composite.laws for name in law.parameters]
    return tuple(names[index] for one in sets for index in one)


def plan_batch(
    situation: Situation,
    spec: DesignSpec,
    count: int,
    block: int,
    first_number: int,
    informing: Informing | None = None,
) -> tuple[PlannedTrial, ...]:
    """Choose the trials of one batch, in random order; those with one setting of what is hard to change together.

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
    checks += situation.lost[: max(0, count - len(checks) - 1)]
    space = situation.space
    choose = informing or partial(_informing, situation)
    chosen = [space.assignment(candidate) for candidate in choose(count - len(checks), rng)]
    purposes = [Purpose.INFORMING] * len(chosen) + [Purpose(check.value) for check in checks]
    chosen += [checking(check, space, (*situation.tried, *chosen)) for check in checks]
    order = rng.permutation(len(chosen))
    settings = list(dict.fromkeys(space.setting(chosen[index]) for index in order))
    together = sorted(order, key=lambda index: settings.index(space.setting(chosen[index])))
    return tuple(
        PlannedTrial(
            trial=first_number + place,
            block=block,
            assignment=chosen[index],
            baseline=chosen[index] == space.rest,
            purpose=purposes[index],
        )
        for place, index in enumerate(together)
    )


def _informing(situation: Situation, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Numbers of the candidates that tell most."""
    if count < 1:
        return ()
    candidates, known = situation.candidates(), situation.information()
    seconds = None if situation.seconds is None else situation.seconds[candidates.numbers]
    if not situation.tried:
        found = exchange(candidates.rows, count, d_optimal(), rng, information=known).trials
    else:
        criterion = situation.for_goal()
        found = next_batch(candidates.rows, count, criterion, information=known, costs=seconds).trials
    return tuple(int(candidates.numbers[index]) for index in found)
