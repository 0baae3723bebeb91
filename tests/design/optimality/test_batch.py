"""The next batch, given what is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from insitu.orchestrator.design.optimality.batch import next_batch
from insitu.orchestrator.design.optimality.criteria import c_optimal, d_optimal, i_optimal
from insitu.orchestrator.design.optimality.information import information_of
from insitu.orchestrator.design.optimality.precision import precision_of
from tests.design.candidates import linear_law, log_determinant, random_rows, seeds


@pytest.mark.parametrize("seed", range(6))
def test_the_best_batch_of_all_is_found_or_nearly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, known = rng.normal(size=(10, 3)), rng.normal(size=(4, 3))
    batch = next_batch(rows, 3, d_optimal(), information=information_of(known))
    best = max(
        log_determinant(np.vstack([known, rows[list(chosen)]]))
        for chosen in itertools.combinations_with_replacement(range(10), 3)
    )
    assert best - 0.03 <= batch.precision.value <= best + 1e-9  # a hundredth of each parameter's precision
    assert 0.8 < batch.efficiency <= 1


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_it_is_no_worse_than_one_trial_after_the_other(seed: int) -> None:
    rows = random_rows(seed, 30)
    known = information_of(rows[:5])
    alone = known
    for _ in range(4):
        trial = next_batch(rows, 1, i_optimal(rows), information=alone).trials[0]
        alone = alone + information_of(rows[[trial]])
    together = next_batch(rows, 4, i_optimal(rows), information=known)
    assert together.precision.value <= precision_of(rows[:0], alone, i_optimal(rows)).value * (1 + 1e-6)


def test_the_first_batch_needs_no_information() -> None:
    batch = next_batch(linear_law(), 12, d_optimal())
    assert batch.precision.value == pytest.approx(17.9504, abs=1e-4)
    assert next_batch(linear_law(), 2, d_optimal()).precision.confounded == ((0, 1, 2),)


def test_batches_add_up_to_nearly_the_design_made_at_once() -> None:
    known = np.zeros((3, 3))
    for _ in range(4):
        batch = next_batch(linear_law(), 3, d_optimal(), information=known)
        known = known + information_of(linear_law()[list(batch.trials)])
    assert np.linalg.slogdet(known)[1] > 17.9504 - 0.1


@pytest.mark.parametrize("trials_so_far", [1e3, 1e6, 1e9])
def test_however_much_is_known_the_best_trial_is_chosen(trials_so_far: float) -> None:
    rows = np.random.default_rng(7).normal(size=(60, 3))
    effect = np.array([1.0, -2.0, 0.5])
    known = trials_so_far * information_of(rows) / len(rows)
    covariance = np.linalg.inv(known)
    for goal, gradient in (
        (d_optimal(), covariance),
        (c_optimal(effect), covariance @ np.outer(effect, effect) @ covariance),
    ):
        slopes = np.einsum("mp,pq,mq->m", rows, gradient, rows)
        assert set(next_batch(rows, 3, goal, information=known).trials) <= set(np.argsort(-slopes)[:3].tolist())


def test_nothing_is_random() -> None:
    rows = random_rows(3, 200, 4)
    assert next_batch(rows, 6, d_optimal()) == next_batch(rows, 6, d_optimal())


def test_information_is_bought_where_it_is_cheap() -> None:
    rows = np.column_stack([np.ones(3), [0.0, 0.9, 1.0]])
    slope, known = c_optimal(np.array([0.0, 1.0])), information_of(rows)
    costs = np.array([1.0, 1.0, 30.0])
    assert set(next_batch(rows, 4, slope, information=known).trials) == {0, 2}
    cheap = next_batch(rows, 4, slope, information=known, costs=costs)
    assert set(cheap.trials) == {0, 1}
    assert cheap.cost == 4
    assert 0.8 < cheap.efficiency <= 1


def test_a_trial_may_inform_by_several_rows() -> None:
    rows = np.random.default_rng(3).normal(size=(9, 2, 3))
    batch = next_batch(rows, 3, d_optimal())
    best = max(
        log_determinant(rows[list(chosen)].reshape(-1, 3))
        for chosen in itertools.combinations_with_replacement(range(9), 3)
    )
    assert best - 0.03 <= batch.precision.value <= best + 1e-9


@pytest.mark.parametrize(("trials", "cost"), [(0, 1.0), (3, 0.0), (3, -1.0)])
def test_what_cannot_be_is_refused(trials: int, cost: float) -> None:
    with pytest.raises(ValueError, match="trial to choose"):
        next_batch(linear_law(), trials, d_optimal(), costs=np.full(36, cost))
