"""Designs in blocks, and whole plots of factors that are hard to change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.blocks import Block, exchange_in_blocks
from insitu.orchestrator.design.optimality.criteria import Criterion, a_optimal, c_optimal, d_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.optimality.information import information_of, inverse
from insitu.orchestrator.design.optimality.innovation import innovations
from tests.design.candidates import linear_law, seeds

CRITERIA = (d_optimal(), a_optimal(3), c_optimal(np.array([[0.0, 1.0, -1.0], [0.0, 2.0, 0.5]]), worst=True))
ratios = st.sampled_from([0.0, 0.1, 1.0, 100.0])


def generalised(blocks: Sequence[Array], ratio: float) -> Array:
    """Information by the inverse of the trials' whole covariance."""
    total = np.zeros((blocks[0].shape[1],) * 2)
    for rows in blocks:
        covariance = np.eye(len(rows)) + ratio
        total += rows.T @ np.linalg.solve(covariance, rows)
    return total


@given(seeds, ratios, st.integers(1, 7))
def test_innovations_inform_as_generalised_least_squares(seed: int, ratio: float, trials: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(trials, 3))
    told = innovations(rows[:, None, :], ratio)
    assert information_of(told) == pytest.approx(generalised([rows], ratio), rel=1e-9, abs=1e-9)


def test_a_random_effect_is_a_parameter_known_in_advance_by_its_variance() -> None:
    rows, ratio = np.random.default_rng(2).normal(size=(5, 3)), 2.5
    widened = np.column_stack([rows, np.ones(5)])
    whole = information_of(widened) + np.diag([0, 0, 0, 1 / ratio])
    marginal = whole[:3, :3] - np.outer(whole[:3, 3], whole[3, :3]) / whole[3, 3]
    assert information_of(innovations(rows[:, None, :], ratio)) == pytest.approx(marginal)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("ratio", [0.5, 1e4])
def test_the_best_of_all_designs_in_blocks_is_found(criterion: Criterion, ratio: float) -> None:
    rows = np.random.default_rng(3).normal(size=(5, 3))
    choices = [
        [rows[list(one)] for one in blocks]
        for blocks in itertools.product(itertools.combinations_with_replacement(range(5), 3), repeat=2)
    ]
    told = [generalised(blocks, ratio) for blocks in choices]
    losses = [criterion.loss(inverse(one)) for one in told if np.linalg.cond(one) < 1e12]
    design = exchange_in_blocks(
        rows, [Block(3), Block(3)], criterion, np.random.default_rng(1), variance_ratio=ratio
    )
    assert design.precision.value == pytest.approx(criterion.value(min(losses)), rel=1e-6)
    assert 0.5 < design.efficiency <= 1


def test_without_an_effect_blocks_are_one_design() -> None:
    blocks = [Block(5), Block(4), Block(3)]
    design = exchange_in_blocks(linear_law(), blocks, d_optimal(), np.random.default_rng(1), variance_ratio=0)
    free = exchange(linear_law(), 12, d_optimal(), np.random.default_rng(1))
    assert [len(block) for block in design.blocks] == [5, 4, 3]
    assert tuple(sorted(itertools.chain(*design.blocks))) == free.trials
    assert design.efficiency == pytest.approx(free.efficiency, abs=1e-3)


def test_a_large_effect_is_estimated_within_blocks() -> None:
    """A line's slope: every block of two has one trial at each end."""
    rows = np.column_stack([np.ones(5), np.linspace(-1, 1, 5)])
    slope = c_optimal(np.array([0.0, 1.0]))
    design = exchange_in_blocks(rows, [Block(2)] * 3, slope, np.random.default_rng(1), variance_ratio=1e4)
    assert design.blocks == ((0, 4),) * 3
    assert design.precision.value == pytest.approx(1 / 6)
    assert design.efficiency == pytest.approx(1, abs=1e-3)


def test_the_bound_is_near_for_large_effects_too() -> None:
    design = exchange_in_blocks(
        linear_law(), [Block(4)] * 3, d_optimal(), np.random.default_rng(1), variance_ratio=1e4
    )
    assert 0.85 < design.efficiency <= 1


@given(seeds, ratios, st.sampled_from(CRITERIA), st.booleans())
@settings(deadline=None, max_examples=40)
def test_no_design_in_blocks_betters_the_bound(seed: int, ratio: float, criterion: Criterion, hard: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 3))
    settings_of = np.repeat([0, 1, 2], 4) if hard else None
    earlier = [None if hard else rng.normal(size=(rng.integers(0, 3), 3)) for _ in range(3)]
    blocks = [Block(trials, had) for trials, had in zip((3, 2, 4), earlier, strict=True)]
    design = exchange_in_blocks(rows, blocks, criterion, rng, variance_ratio=ratio, settings=settings_of, starts=1)
    bound = design.precision.value
    for _ in range(40):
        whole = [
            np.vstack(
                [
                    np.zeros((0, 3)) if one.earlier is None else one.earlier,
                    rows[4 * rng.integers(0, 3) + rng.integers(0, 4, one.trials)]
                    if hard
                    else rows[rng.integers(0, 12, one.trials)],
                ]
            )
            for one in blocks
        ]
        told = generalised(whole, ratio)
        if np.linalg.cond(told) > 1e12:
            continue
        value = criterion.value(criterion.loss(inverse(told)))
        # the efficiency is the value against the bound, so this one's against the same bound is a product
        assert design.efficiency * criterion.efficiency(value, bound, 3) <= 1 + 1e-6


def test_earlier_trials_of_a_block_are_compared_with_its_new_ones() -> None:
    rows = np.column_stack([np.ones(2), [-1.0, 1.0]])
    slope = c_optimal(np.array([0.0, 1.0]))
    had = [Block(1, rows[[0]]), Block(1, rows[[1]]), Block(0, rows[[0, 1]])]
    design = exchange_in_blocks(rows, had, slope, np.random.default_rng(1), variance_ratio=1e4)
    assert design.blocks == ((1,), (0,), ())
    assert design.precision.value == pytest.approx(1 / 6, rel=1e-3)
    assert design.efficiency == pytest.approx(1, abs=0.02)


LEVELS = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=2)))
TWO_FACTORS = np.column_stack([np.ones(9), LEVELS, LEVELS.prod(axis=1)])
"""Rows of a factor that is hard to change, one that is not, and their product."""
HARD = np.repeat([0, 1, 2], 3)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 10.0])
def test_whole_plots_have_one_setting_and_are_the_best_of_all(ratio: float) -> None:
    plots = [
        3 * setting + np.array(one)
        for setting in range(3)
        for one in itertools.combinations_with_replacement(range(3), 2)
    ]
    best = max(
        float(np.linalg.slogdet(generalised([TWO_FACTORS[plots[at]] for at in chosen], ratio))[1])
        for chosen in itertools.combinations_with_replacement(range(len(plots)), 4)
    )
    design = exchange_in_blocks(
        TWO_FACTORS, [Block(2)] * 4, d_optimal(), np.random.default_rng(1), variance_ratio=ratio, settings=HARD
    )
    assert all(len({int(HARD[one]) for one in block}) == 1 for block in design.blocks)
    assert design.precision.value == pytest.approx(best)
    assert 0.8 < design.efficiency <= 1


def test_hard_changes_cost_precision_of_the_hard_factor() -> None:
    free = exchange(TWO_FACTORS, 12, d_optimal(), np.random.default_rng(1))
    split = exchange_in_blocks(
        TWO_FACTORS, [Block(3)] * 4, d_optimal(), np.random.default_rng(1), variance_ratio=2.0, settings=HARD
    )
    assert split.precision.standard_errors[1] > 1.5 * free.precision.standard_errors[1]
    assert split.precision.standard_errors[2] < 1.2 * free.precision.standard_errors[2]


def test_what_cannot_be_is_refused() -> None:
    def attempt(blocks: Sequence[Block], ratio: float, hard: bool = False) -> None:
        exchange_in_blocks(
            TWO_FACTORS,
            blocks,
            d_optimal(),
            np.random.default_rng(1),
            variance_ratio=ratio,
            settings=HARD if hard else None,
        )

    for ratio in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="ratio"):
            attempt([Block(3)], ratio)
    with pytest.raises(ValueError, match="a trial to choose"):
        attempt([Block(0)], 1.0)
    with pytest.raises(ValueError, match="no earlier trials"):
        attempt([Block(3, TWO_FACTORS[:1])], 1.0, hard=True)
