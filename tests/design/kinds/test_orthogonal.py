"""Mixed-level fractions: orthogonal arrays, and the best subsets where there is none."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.design.kinds.orthogonal import MixedFraction, mixed_fraction
from insitu.orchestrator.errors import InputError


def made(*levels: int, runs: int | None = None) -> MixedFraction:
    return mixed_fraction(levels, np.random.default_rng(1), runs=runs)


def is_orthogonal(fraction: MixedFraction) -> bool:
    """Every pair of levels of every two factors equally often."""
    for one, other in itertools.combinations(fraction.runs.T, 2):
        pairs = Counter(zip(one.tolist(), other.tolist(), strict=True))
        if len(pairs) < (one.max() + 1) * (other.max() + 1) or len(set(pairs.values())) > 1:
            return False
    return True


ARRAYS = [  # levels, runs of the smallest array known here
    ((2,) * 3, 4),
    ((2,) * 7, 8),
    ((2,) * 11, 12),
    ((2,) * 15, 16),
    ((2,) * 19, 20),
    ((2,) * 23, 24),
    ((3,) * 4, 9),
    ((3,) * 7, 18),
    ((3,) * 13, 27),
    ((2, *(3,) * 7), 18),
    ((3, 3, 2, 3, 3, 3, 3, 3), 18),
    ((6, *(3,) * 6), 18),
    ((4, 2, 2, 2, 2), 8),
    ((4,) * 5, 16),
    ((2, 4, 4, 2, 4), 16),
    ((5,) * 6, 25),
    ((7,) * 8, 49),
    ((2, 3), 6),
    ((9,), 9),
]


@pytest.mark.parametrize(("levels", "runs"), ARRAYS)
def test_the_smallest_array_is_found(levels: tuple[int, ...], runs: int) -> None:
    fraction = made(*levels)
    assert fraction.runs.shape == (runs, len(levels))
    assert tuple(fraction.runs.max(axis=0) + 1) == levels
    assert fraction.orthogonal
    assert is_orthogonal(fraction)
    assert fraction.told.startswith(f"An orthogonal array of {runs} of {math.prod(levels)} combinations")


@given(st.lists(st.integers(2, 5), min_size=1, max_size=5))
@settings(deadline=None, max_examples=40)
def test_what_says_that_it_is_orthogonal_is(levels: list[int]) -> None:
    fraction = mixed_fraction(levels, np.random.default_rng(1))
    assert tuple(fraction.runs.max(axis=0) + 1) == tuple(levels)
    if fraction.orthogonal:
        assert is_orthogonal(fraction)
    else:
        assert len({tuple(run) for run in fraction.runs.tolist()}) == len(fraction.runs)


def test_more_runs_are_used_where_they_are_allowed() -> None:
    assert len(made(3, 3, 3, runs=26).runs) == 18
    assert len(made(3, 3, 3, runs=27).runs) == 27


def test_without_an_array_the_best_subset_is_said_to_be_one() -> None:
    fraction = made(3, 3, 4, runs=12)
    assert not fraction.orthogonal
    assert fraction.runs.shape == (12, 3)
    assert "No orthogonal array of at most 12 runs is known here; of 36 combinations these 12" in fraction.told
    assert len({tuple(run) for run in fraction.runs.tolist()}) == 12
    assert [sorted(Counter(column.tolist()).values()) for column in fraction.runs.T] == [[4] * 3, [4] * 3, [3] * 4]


def test_of_very_many_combinations_some_are_looked_at() -> None:
    fraction = made(*(3,) * 9, runs=20)
    assert fraction.runs.shape == (20, 9)
    assert not fraction.orthogonal


@pytest.mark.parametrize(("levels", "runs"), [((3, 3), 4), ((1, 3), None), ((), None)])
def test_impossible_fractions_are_refused(levels: tuple[int, ...], runs: int | None) -> None:
    with pytest.raises(InputError) as caught:
        made(*levels, runs=runs)
    assert caught.value.hint
