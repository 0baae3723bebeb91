"""Exact designs of independent trials: against enumeration, and what they promise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.budgeted import exchange_within
from insitu.orchestrator.design.optimality.continuous import best_possible
from insitu.orchestrator.design.optimality.criteria import (
    Criterion,
    WorstVariance,
    a_optimal,
    c_optimal,
    d_optimal,
    i_optimal,
)
from insitu.orchestrator.design.optimality.exchange import apportioned, exchange
from insitu.orchestrator.design.optimality.information import Coordinates, information_of, stacked
from insitu.orchestrator.design.optimality.precision import precision_of
from insitu.orchestrator.design.optimality.search import Search
from tests.design.candidates import linear_law, log_determinant, random_rows, seeds

CRITERIA = (
    d_optimal(),
    a_optimal(3),
    i_optimal(np.random.default_rng(1).normal(size=(40, 3))),
    c_optimal(np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]]), worst=True),
)


def value_of(criterion: Criterion, rows: Array) -> float:
    return precision_of(rows, None, criterion).value


def best_of_all(criterion: Criterion, rows: Array, trials: int) -> float:
    """By trying every design."""
    values = [
        value_of(criterion, rows[list(chosen)])
        for chosen in itertools.combinations_with_replacement(range(len(rows)), trials)
    ]
    return max(values) if criterion == d_optimal() else min(values)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_best_of_all_designs_is_found(criterion: Criterion, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(8, 3))
    design = exchange(rows, 5, criterion, np.random.default_rng(seed))
    near = 0.005 if isinstance(criterion, WorstVariance) else 1e-6
    assert design.precision.value == pytest.approx(best_of_all(criterion, rows, 5), rel=near)


def test_sizes_of_columns_do_not_matter() -> None:
    rows = np.random.default_rng(4).normal(size=(30, 3))
    plain = exchange(rows, 7, d_optimal(), np.random.default_rng(1))
    scaled = exchange(rows * [1e-9, 1.0, 1e12], 7, d_optimal(), np.random.default_rng(1))
    assert scaled.trials == plain.trials
    assert scaled.precision.standard_errors == pytest.approx(
        np.array(plain.precision.standard_errors) / [1e-9, 1.0, 1e12]
    )


@given(seeds, st.sampled_from(CRITERIA), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_an_exchange_never_worsens(seed: int, criterion: Criterion, trials: int) -> None:
    rng = np.random.default_rng(seed)
    space = Coordinates.of(stacked(rng.normal(size=(20, 3))), None)
    search = Search(space, criterion.mapped(space.transform), (trials,))
    start = search.random(rng)
    assert search.loss(search.climb(start)) <= search.loss(start)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_no_exchange_of_one_trial_betters_the_result(seed: int) -> None:
    rows = random_rows(seed, 15)
    design = exchange(rows, 6, d_optimal(), np.random.default_rng(seed), starts=1)
    chosen = list(design.trials)
    for place, candidate in itertools.product(range(6), range(15)):
        tried = [*chosen[:place], candidate, *chosen[place + 1 :]]
        assert value_of(d_optimal(), rows[tried]) <= design.precision.value + 1e-6


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_efficiency_is_the_share_of_trials_that_the_best_split_needs(seed: int) -> None:
    rows = random_rows(seed, 15)
    design = exchange(rows, 6, d_optimal(), np.random.default_rng(seed), starts=3)
    assert 0.5 < design.efficiency <= 1
    fewer = best_possible(rows, 6 * design.efficiency, d_optimal())
    assert fewer.bound == pytest.approx(design.precision.value, abs=1e-3)


def test_augmenting_by_information_is_augmenting_by_the_rows_themselves() -> None:
    rows = linear_law()
    fixed = [0, 7, 7, 20, 31]
    design = exchange(rows, 4, d_optimal(), np.random.default_rng(1), information=information_of(rows[fixed]))
    best = max(
        log_determinant(rows[[*fixed, *chosen]])
        for chosen in itertools.combinations_with_replacement((0, 5, 11, 29, 33, 35, 2, 8, 6, 24, 27), 4)
    )
    assert design.precision.value >= best - 1e-9
    whole = precision_of(rows[[*fixed, *design.trials]], None, d_optimal())
    assert design.precision.value == pytest.approx(whole.value)
    assert design.precision.standard_errors == pytest.approx(whole.standard_errors)


def test_existing_trials_change_what_is_chosen() -> None:
    rows = np.column_stack([np.ones(11), np.linspace(0, 1, 11)])
    lots_at_the_left = information_of(np.tile(rows[0], (50, 1)))
    design = exchange(rows, 4, d_optimal(), np.random.default_rng(1), information=lots_at_the_left)
    assert design.trials == (10, 10, 10, 10)


def test_a_contrast_alone_needs_no_other_parameter() -> None:
    """Two trials are enough for a difference, whatever else the law has."""
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.5, 1.0]])
    design = exchange(rows, 2, c_optimal(np.array([0.0, 1.0, 0.0])), np.random.default_rng(1))
    assert design.trials == (0, 1)
    assert design.precision.value == pytest.approx(2)
    assert design.precision.confounded == ((2,),)
    assert design.precision.standard_errors == pytest.approx((1.0, math.sqrt(2), math.inf))
    assert design.efficiency == pytest.approx(1, abs=1e-3)


def test_too_few_trials_leave_parameters_confounded() -> None:
    design = exchange(linear_law(), 2, d_optimal(), np.random.default_rng(1))
    assert design.precision.confounded == ((0, 1, 2),)
    assert design.precision.value == -math.inf
    assert design.efficiency == 0
    assert not design.precision.is_whole
    assert set(design.precision.standard_errors) == {math.inf}


def test_parameters_that_no_candidate_separates_are_confounded_and_the_others_are_not() -> None:
    rows = np.column_stack([linear_law(), 3 * linear_law()[:, 1]])
    design = exchange(rows, 9, d_optimal(), np.random.default_rng(1))
    assert design.precision.confounded == ((1, 3),)
    assert math.isfinite(design.precision.standard_errors[0])
    assert math.isfinite(design.precision.standard_errors[2])


def test_a_bound_on_repeats_is_kept() -> None:
    free = exchange(linear_law(), 12, d_optimal(), np.random.default_rng(1))
    twice = exchange(linear_law(), 12, d_optimal(), np.random.default_rng(1), repeats=2)
    once = exchange(linear_law(), 12, d_optimal(), np.random.default_rng(1), repeats=1)
    assert max(free.counts) > 2
    assert max(twice.counts) == 2
    assert set(once.counts) == {1}
    assert free.precision.value > twice.precision.value > once.precision.value
    every = exchange(linear_law(), 36, d_optimal(), np.random.default_rng(1), repeats=1)
    assert every.trials == tuple(range(36))
    with pytest.raises(ValueError, match="37 trials of 36"):
        exchange(linear_law(), 37, d_optimal(), np.random.default_rng(1), repeats=1)


def test_a_trial_may_inform_by_several_rows() -> None:
    rows = np.random.default_rng(3).normal(size=(9, 2, 3))
    design = exchange(rows, 4, d_optimal(), np.random.default_rng(1))
    best = max(
        log_determinant(rows[list(chosen)].reshape(-1, 3))
        for chosen in itertools.combinations_with_replacement(range(9), 4)
    )
    assert design.precision.value == pytest.approx(best)


def test_an_equal_seed_gives_an_equal_design() -> None:
    rows = random_rows(9, 200, 5)
    one, other = (exchange(rows, 11, d_optimal(), np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert one.trials == tuple(sorted(one.trials))
    assert sum(one.counts) == len(one.trials) == one.cost == 11


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=9), st.integers(1, 40))
def test_rounded_shares_are_whole_trials_near_the_shares(parts: list[float], trials: int) -> None:
    shares = np.array(parts) / sum(parts)
    counts = np.bincount(apportioned(shares, trials), minlength=len(shares))
    assert counts.sum() == trials
    if trials >= len(shares):
        assert (counts[trials * shares > 0.01] >= 1).all()
        assert (counts[trials * shares <= 0.01] == 0).all()
        assert (np.abs(counts - trials * shares) < len(shares)).all()


def enumerated_within(rows: Array, costs: Array, budget: float) -> float:
    """The best log-determinant of all that can be paid."""
    best = -math.inf
    for trials in range(3, int(budget / costs.min()) + 1):
        for chosen in itertools.combinations_with_replacement(range(len(rows)), trials):
            if costs[list(chosen)].sum() <= budget:
                best = max(best, value_of(d_optimal(), rows[list(chosen)]))
    return best


@pytest.mark.parametrize("seed", range(5))
def test_the_best_within_a_budget_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, costs = rng.normal(size=(6, 3)), rng.uniform(1, 4, 6)
    design = exchange_within(rows, costs, 9.0, d_optimal(), rng)
    assert design.cost <= 9.0
    assert design.cost == pytest.approx(costs[list(design.trials)].sum())
    assert design.precision.value == pytest.approx(enumerated_within(rows, costs, 9.0))


@given(seeds, st.sampled_from(CRITERIA))
@settings(deadline=None, max_examples=30)
def test_a_budget_is_kept_and_used_up(seed: int, criterion: Criterion) -> None:
    rng = np.random.default_rng(seed)
    rows, costs = rng.normal(size=(15, 3)), rng.uniform(1, 20, 15)
    design = exchange_within(rows, costs, 100.0, criterion, rng, starts=2)
    assert 100 - costs.min() < design.cost <= 100
    assert 0 < design.efficiency <= 1


def test_equal_costs_are_a_number_of_trials() -> None:
    counted = exchange(linear_law(), 12, d_optimal(), np.random.default_rng(1))
    paid = exchange_within(linear_law(), np.full(36, 2.5), 30.0, d_optimal(), np.random.default_rng(1))
    assert paid.trials == counted.trials
    assert paid.efficiency == pytest.approx(counted.efficiency, rel=1e-3)


def test_dear_trials_are_worth_their_price_only() -> None:
    rows = np.column_stack([np.ones(3), [0.0, 0.9, 1.0]])
    dear = exchange_within(rows, np.array([1.0, 1.0, 10.0]), 20.0, d_optimal(), np.random.default_rng(1))
    cheap = exchange_within(rows, np.array([1.0, 1.0, 1.1]), 20.0, d_optimal(), np.random.default_rng(1))
    assert 2 not in dear.trials
    assert 2 in cheap.trials


def test_a_budget_for_no_trial_is_refused() -> None:
    with pytest.raises(ValueError, match="no trial can be paid"):
        exchange_within(linear_law(), np.full(36, 5.0), 4.9, d_optimal(), np.random.default_rng(1))
    assert exchange_within(linear_law(), np.full(36, 5.0), 5.0, d_optimal(), np.random.default_rng(1)).cost == 5
