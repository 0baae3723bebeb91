"""Which trials are checks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.design.controls import Check, centre_of, check_of, count_checks, replicate_of


def test_every_seventh_trial_from_the_fourth_is_a_check_and_they_take_turns() -> None:
    found = {number: check for number in range(1, 30) if (check := check_of(number)) is not None}
    assert found == {
        4: Check.CONTROL,
        11: Check.REPLICATE,
        18: Check.CENTRE,
        25: Check.CONTROL,
    }


@given(st.integers(5, 100_000))
def test_ten_to_twenty_percent_are_checks(trials: int) -> None:
    assert 0.1 <= count_checks(trials) / trials <= 0.2


@given(st.integers(0, 300))
def test_checks_are_counted_as_they_come(trials: int) -> None:
    assert count_checks(trials) == sum(check_of(number) is not None for number in range(1, trials + 1))


def test_a_replicate_repeats_what_was_tried_least_often_and_longest_ago() -> None:
    assert replicate_of(["a", "b", "a", "c"]) == 1
    assert replicate_of(["a", "b", "b", "a"]) == 1  # each twice; b was tried longest ago
    assert replicate_of(["a"]) == 0
    with pytest.raises(ValueError, match="no trial"):
        replicate_of([])


def test_replicates_go_round() -> None:
    history = list("abcd")
    for _ in range(8):
        history.append(history[replicate_of(history)])
    assert "".join(history[4:]) == "abcdabcd"


def test_the_centre_is_the_middle_of_all_factors() -> None:
    grid = np.array(list(itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0))))
    assert grid[centre_of(grid)].tolist() == [0.5, 0.5]
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=2)))
    assert centre_of(corners) == 0
    off = np.array([[0.5, 0.9], [0.75, 0.75], [0.25, 0.5]])
    assert centre_of(off) == 2
