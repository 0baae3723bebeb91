"""Latin hypercubes."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from insitu.orchestrator.design.kinds.space_filling import ListedAxis, RangeAxis, latin_hypercube
from tests.design.candidates import seeds

UNIT = RangeAxis(0.0, 1.0)


@given(seeds, st.integers(1, 15), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_each_slice_of_each_factor_has_one_trial(seed: int, trials: int, factors: int) -> None:
    design = latin_hypercube([UNIT] * factors, trials, np.random.default_rng(seed))
    assert design.shape == (trials, factors)
    for column in design.T:
        assert sorted(column) == pytest.approx((np.arange(trials) + 0.5) / trials)


@given(seeds, st.integers(1, 15), st.integers(1, 6))
@settings(deadline=None, max_examples=30)
def test_each_listed_level_has_as_many_trials_as_any_other_or_one_more(seed: int, trials: int, count: int) -> None:
    levels = tuple(float(2**at) for at in range(count))
    design = latin_hypercube([ListedAxis(levels), UNIT], trials, np.random.default_rng(seed))
    held = Counter(design[:, 0].tolist())
    assert set(held) <= set(levels)
    assert {held[level] for level in levels} <= {trials // count, -(-trials // count)}


def test_ranges_are_spread_on_their_scale() -> None:
    axes = [RangeAxis(10.0, 50.0), RangeAxis(1.0, 1e4, logarithmic=True)]
    design = latin_hypercube(axes, 4, np.random.default_rng(1))
    assert sorted(design[:, 0]) == pytest.approx([15, 25, 35, 45])
    assert sorted(design[:, 1]) == pytest.approx([10**0.5, 10**1.5, 10**2.5, 10**3.5])


def test_an_unlimited_level_may_be_listed() -> None:
    design = latin_hypercube([ListedAxis((1e6, 4e6, math.inf))], 6, np.random.default_rng(1))
    assert Counter(design[:, 0].tolist()) == {1e6: 2, 4e6: 2, math.inf: 2}


def test_trials_are_farther_apart_than_in_a_random_hypercube() -> None:
    rng = np.random.default_rng(2)
    made = np.median([pdist(latin_hypercube([UNIT] * 3, 12, rng)).min() for _ in range(5)])
    random = [
        pdist((np.column_stack([rng.permutation(12) for _ in range(3)]) + 0.5) / 12).min() for _ in range(500)
    ]
    assert made > np.quantile(random, 0.99)


def test_listed_levels_are_kept_apart_too() -> None:
    """Four trials of two factors with two levels are the four combinations."""
    axes = [ListedAxis((0.0, 1.0))] * 2
    design = latin_hypercube(axes, 4, np.random.default_rng(1))
    assert Counter(map(tuple, design.tolist())) == {(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1}


def test_an_equal_seed_gives_an_equal_design() -> None:
    one, other = (latin_hypercube([UNIT] * 3, 9, np.random.default_rng(4)) for _ in range(2))
    assert (one == other).all()
    assert (one != latin_hypercube([UNIT] * 3, 9, np.random.default_rng(5))).any()


@pytest.mark.parametrize(("low", "high", "logarithmic"), [(2, 1, False), (0, 1, True), (1, math.inf, False)])
def test_a_range_must_be_one(low: float, high: float, logarithmic: bool) -> None:
    with pytest.raises(ValueError, match="no range"):
        RangeAxis(low, high, logarithmic)
    with pytest.raises(ValueError, match="0 trials"):
        latin_hypercube([UNIT], 0, np.random.default_rng(1))
