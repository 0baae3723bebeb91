"""Criteria of designs: their slopes, their update formulas and their floors against plain computation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.criteria import (
    Criterion,
    LogDeterminant,
    TotalVariance,
    WorstVariance,
    a_optimal,
    c_optimal,
    d_optimal,
    i_optimal,
)
from insitu.orchestrator.design.optimality.information import Coordinates, information_of, inverse, square_root
from insitu.orchestrator.design.optimality.innovation import Others, innovations
from insitu.orchestrator.design.optimality.knowledge import Knowledge
from tests.design.candidates import random_rows, seeds

CONTRASTS = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]])
CRITERIA = (
    d_optimal(),
    a_optimal(3),
    i_optimal(np.random.default_rng(1).normal(size=(40, 3))),
    c_optimal(CONTRASTS[0]),
    c_optimal(CONTRASTS, worst=True),
    c_optimal(CONTRASTS, worst=True).softened(),
)
criteria = st.sampled_from(CRITERIA)


def some_rows(seed: int, trials: int, rows: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=(trials, rows, 3))


def loss_of(criterion: Criterion, rows: Array) -> float:
    return criterion.loss(inverse(information_of(rows)))


@given(criteria, seeds)
def test_the_gradient_is_the_fall_of_the_loss_per_share_of_a_trial(criterion: Criterion, seed: int) -> None:
    rows, fresh = some_rows(seed, 8), some_rows(seed + 1, 1)[0, 0]
    information, small = information_of(rows), 1e-6
    more = criterion.loss(inverse(information + small * np.outer(fresh, fresh)))
    less = criterion.loss(inverse(information - small * np.outer(fresh, fresh)))
    slope = fresh @ criterion.gradient(inverse(information)) @ fresh
    assert slope == pytest.approx((less - more) / (2 * small), rel=1e-3, abs=1e-9)


@given(criteria, seeds, st.integers(1, 3))
def test_losses_after_each_candidate_are_those_computed_afresh(criterion: Criterion, seed: int, each: int) -> None:
    rows, candidates = some_rows(seed, 8), some_rows(seed + 1, 6, each)
    knowledge = Knowledge.of(candidates, information_of(rows), criterion)
    expected = [loss_of(criterion, np.vstack([rows.reshape(-1, 3), one])) for one in candidates]
    assert knowledge.losses(criterion) == pytest.approx(np.array(expected), rel=1e-9)


@given(criteria, seeds, st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.5, 100.0]))
def test_losses_after_each_exchange_are_those_computed_afresh(
    criterion: Criterion, seed: int, each: int, joined: int, ratio: float
) -> None:
    """Of a trial of a block of which `joined` others remain."""
    rows, candidates = some_rows(seed, 8, each), some_rows(seed + 1, 6, each)
    block = some_rows(seed + 2, joined + 1, each)

    def information(blocked: Array) -> Array:
        return information_of(rows) + information_of(innovations(blocked, ratio))

    others = Others(block[1:].sum(axis=0), joined, ratio)
    knowledge = Knowledge.of(candidates, information(block), criterion)
    losses = knowledge.losses(criterion, leaving=others.innovation(block[0]), others=others)
    expected = [criterion.loss(inverse(information(np.concatenate([block[1:], [one]])))) for one in candidates]
    assert losses == pytest.approx(np.array(expected), rel=1e-8)
    few = knowledge.losses(criterion, leaving=others.innovation(block[0]), others=others, among=np.array([4, 1]))
    assert few == pytest.approx(losses[[4, 1]])


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_trial_that_is_needed_may_be_exchanged(criterion: Criterion) -> None:
    """As many trials as parameters: without any of them a direction is unknown."""
    rows, candidates = some_rows(1, 3), some_rows(2, 6)
    losses = Knowledge.of(candidates, information_of(rows), criterion).losses(criterion, leaving=rows[2])
    expected = [loss_of(criterion, np.concatenate([rows[:2], [one]])) for one in candidates]
    assert losses == pytest.approx(np.array(expected), rel=1e-8)


@given(criteria, seeds, st.integers(1, 3))
def test_steps_of_rank_one_lead_to_what_is_computed_afresh(criterion: Criterion, seed: int, each: int) -> None:
    rows, candidates = some_rows(seed, 8, each), some_rows(seed + 1, 6, each)
    stepped = Knowledge.of(candidates, information_of(rows), criterion)
    stepped = stepped.with_trial(candidates[2]).with_trial(candidates[0])
    left = np.concatenate([rows, candidates[[2, 0]]])
    afresh = Knowledge.of(candidates, information_of(left), criterion)
    assert stepped.covariance == pytest.approx(afresh.covariance, rel=1e-7, abs=1e-9)
    assert stepped.spread == pytest.approx(afresh.spread, rel=1e-7, abs=1e-9)
    assert stepped.slopes == pytest.approx(afresh.slopes, rel=1e-7, abs=1e-9)
    assert stepped.projections == pytest.approx(afresh.projections, rel=1e-7, abs=1e-9)


@given(criteria, seeds)
def test_no_design_is_below_the_floor_that_any_other_tells(criterion: Criterion, seed: int) -> None:
    candidates = some_rows(seed, 7)
    for chosen, other in itertools.product(([0, 1, 2, 3, 4], [6, 5, 4, 3, 2], [0, 0, 2, 4, 6]), repeat=2):
        covariance = inverse(information_of(candidates[chosen]))
        gradient = criterion.gradient(covariance)
        gained = 5 * max(float(np.sum(gradient * information_of(one))) for one in candidates)
        floor = criterion.floor(criterion.loss(covariance), gained, 3)
        assert loss_of(criterion, candidates[other]) >= floor - 1e-9 * abs(floor)


@given(criteria, seeds)
def test_other_coordinates_change_no_variance_and_shift_a_log_determinant(criterion: Criterion, seed: int) -> None:
    rows, transform = some_rows(seed, 8), np.random.default_rng(seed + 1).normal(size=(3, 3)) + 2 * np.eye(3)
    here = criterion.value(loss_of(criterion, rows))
    mapped = criterion.mapped(transform)
    there = mapped.loss(inverse(information_of(rows @ transform)))
    volume = 2 * float(np.linalg.slogdet(transform)[1])
    assert mapped.value(there, volume) == pytest.approx(here, rel=1e-7, abs=1e-9)


def test_efficiency_is_a_share_of_trials() -> None:
    rows = some_rows(3, 10)
    for criterion in CRITERIA:
        twice = criterion.value(loss_of(criterion, np.concatenate([rows, rows])))
        once = criterion.value(loss_of(criterion, rows))
        assert criterion.efficiency(once, twice, 3) == pytest.approx(0.5)
        assert criterion.efficiency(criterion.value(math.inf), twice, 3) == 0


def test_the_mean_variance_over_a_region_is_the_mean_of_the_variances() -> None:
    region, weights = np.random.default_rng(2).normal(size=(9, 3)), np.arange(9.0)
    covariance = inverse(information_of(some_rows(4, 8)))
    variances = np.einsum("rp,pq,rq->r", region, covariance, region)
    assert i_optimal(region).loss(covariance) == pytest.approx(variances.mean())
    assert i_optimal(region, weights).loss(covariance) == pytest.approx(np.average(variances, weights=weights))
    assert i_optimal(region[:2]).loss(covariance) == pytest.approx(variances[:2].mean())


def test_contrasts_are_summed_or_the_worst_taken() -> None:
    covariance = inverse(information_of(some_rows(4, 8)))
    variances = np.einsum("rp,pq,rq->r", CONTRASTS, covariance, CONTRASTS)
    assert c_optimal(CONTRASTS).loss(covariance) == pytest.approx(variances.sum())
    assert c_optimal(CONTRASTS, worst=True).loss(covariance) == pytest.approx(variances.max())
    assert a_optimal(3).loss(covariance) == pytest.approx(np.trace(covariance))
    assert isinstance(c_optimal(CONTRASTS[0], worst=True), TotalVariance)
    assert isinstance(c_optimal(CONTRASTS, worst=True), WorstVariance)
    assert isinstance(d_optimal(), LogDeterminant)


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [0.0, 0.0]])
def test_a_region_without_weight_is_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        i_optimal(np.eye(2), np.array(weights))
    with pytest.raises(ValueError, match="region"):
        i_optimal(np.zeros((0, 2)))


@given(seeds)
@settings(max_examples=30)
def test_coordinates_make_the_mean_candidate_the_unit(seed: int) -> None:
    rows = random_rows(seed)[:, None, :]
    space = Coordinates.of(rows, None)
    assert information_of(space.rows) / len(rows) == pytest.approx(np.eye(3), abs=1e-6)
    assert space.rows[:, 0] == pytest.approx(rows[:, 0] @ space.transform)


def test_coordinates_leave_out_what_nothing_tells() -> None:
    rows = np.random.default_rng(5).normal(size=(12, 1, 3))
    rows[:, :, 2] = rows[:, :, 0] + rows[:, :, 1]
    space = Coordinates.of(rows, None)
    assert space.parameters == 2
    assert rows[:, 0] @ (space.silent[0] / space.scale) == pytest.approx(np.zeros(12))
    assert space.value(c_optimal(np.array([1.0, 0.0, 1.0])), 0.25) == 0.25  # the first parameter plus the third
    assert space.value(c_optimal(np.array([1.0, 0.0, 0.0])), 0.25) == math.inf
    assert space.value(d_optimal(), 0.25) == -math.inf


def test_a_square_root_informs_as_much() -> None:
    information = information_of(random_rows(8))
    root = square_root(information)
    assert root.T @ root == pytest.approx(information, rel=1e-9)
    for wrong in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [0.0, 1.0]]), np.diag([1.0, np.nan])):
        with pytest.raises(ValueError, match="information"):
            square_root(wrong)
