"""Which parameters are mixed up, and which trials would separate them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.causal.rank import mixed_columns
from insitu.orchestrator.design.optimality.confounding import Confounding, confounding
from insitu.orchestrator.design.optimality.information import information_of
from tests.design.candidates import linear_law, random_rows, seeds

SIZE, RATE, CPU = (
    np.array(column, dtype=float)
    for column in zip(
        *((size, rate, cpu) for size in (1, 2, 4, 8) for rate in (1, 2, 4) for cpu in (1, 2, 4)), strict=True
    )
)


def test_terms_that_rose_together_are_separated_by_the_trial_farthest_off() -> None:
    """Rate and cpu were the same in all trials so far."""
    rows = linear_law()
    found = confounding(rows, rows=rows[RATE == CPU])
    assert found.sets == ((1, 2),)
    assert found.remaining == ()
    (trial,) = found.separated_by
    assert SIZE[trial] == 8
    assert {RATE[trial], CPU[trial]} == {1, 4}


def test_a_design_without_trials_needs_as_many_as_there_are_parameters() -> None:
    found = confounding(linear_law(), rows=np.zeros((0, 3)))
    assert found.sets == ((0,), (1,), (2,))
    assert len(found.separated_by) == 3
    assert found.remaining == ()


def test_a_silent_parameter_is_heard_where_its_term_is_not_zero() -> None:
    rows = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0]])
    assert confounding(rows, rows=rows[:3]) == Confounding(((2,),), (3,), ())


def test_what_no_candidate_separates_is_said() -> None:
    rows = linear_law()
    rows[:, 2] = 3 * rows[:, 1]
    assert confounding(rows, rows=rows) == Confounding(((1, 2),), (), ((1, 2),))
    assert confounding(rows).remaining == ((1, 2),)
    assert len(confounding(rows).separated_by) == 2


def test_sets_are_told_one_by_one_and_separated_together() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 5))
    known = rows.copy()
    known[:, 1] = known[:, 0]
    known[:, 4] = 2 * known[:, 3]
    found = confounding(rows, information=information_of(known))
    assert found.sets == ((0, 1), (3, 4))
    assert len(found.separated_by) == 2
    assert found.remaining == ()


def test_a_whole_design_mixes_nothing() -> None:
    assert confounding(linear_law(), rows=linear_law()) == Confounding((), (), ())


@given(seeds, st.integers(1, 5), st.integers(1, 2))
def test_the_named_trials_do_separate_and_are_no_more_than_needed(seed: int, tried: int, each: int) -> None:
    rng = np.random.default_rng(seed)
    candidates = random_rows(seed, 10 * each, 6).reshape(10, each, 6)
    known = candidates.reshape(-1, 6)[rng.permutation(10 * each)[:tried]]
    found = confounding(candidates, rows=known)
    assert found.sets == (tuple(range(6)),)
    fresh = candidates[list(found.separated_by)].reshape(-1, 6)
    assert mixed_columns(np.vstack([known, fresh])) == found.remaining == ()
    assert -(-(6 - tried) // each) <= len(found.separated_by) <= -(-(6 - tried) // each) + each - 1


def test_candidates_are_rows() -> None:
    with pytest.raises(ValueError, match="candidates"):
        confounding(np.zeros(3))
