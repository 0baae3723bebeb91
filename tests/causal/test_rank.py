"""Which columns mix is found whatever their sizes are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.causal.rank import mixed_columns

ROWS = np.random.default_rng(5).normal(size=(12, 6))
scales = st.lists(st.floats(-12, 12), min_size=6, max_size=6).map(lambda powers: 10.0 ** np.array(powers))


@given(scales)
def test_independent_columns_do_not_mix(scale: np.ndarray) -> None:
    assert mixed_columns(ROWS * scale) == ()


@given(scales)
def test_each_set_is_found_by_itself(scale: np.ndarray) -> None:
    rows = ROWS.copy()
    rows[:, 3] = rows[:, 0] - 2 * rows[:, 1]
    rows[:, 5] = -rows[:, 4]
    assert mixed_columns(rows * scale) == ((0, 1, 3), (4, 5))


def test_a_column_of_zeros_is_a_set_of_its_own() -> None:
    rows = ROWS.copy()
    rows[:, 2] = 0
    assert mixed_columns(rows) == ((2,),)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_fewer_rows_than_columns_always_mix(count: int) -> None:
    assert mixed_columns(ROWS[:count])


def test_nearly_equal_columns_are_equal() -> None:
    rows = ROWS[:, :2].copy()
    rows[:, 1] = rows[:, 0] * (1 + 1e-9 * ROWS[:, 2])
    assert mixed_columns(rows) == ((0, 1),)
    rows[:, 1] = rows[:, 0] * (1 + 1e-3 * ROWS[:, 2])
    assert mixed_columns(rows) == ()
