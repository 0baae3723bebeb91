"""Where two laws differ most."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.design.optimality.discrimination import Rival, box_hill, buzzi_ferraris, discriminate
from tests.design.candidates import seeds


def rivals(seed: int, candidates: int = 12) -> tuple[Rival, Rival]:
    rng = np.random.default_rng(seed)

    def one(parameters: int) -> Rival:
        root = rng.normal(size=(parameters, parameters))
        return Rival(rng.normal(size=candidates) * 3, rng.normal(size=(candidates, parameters)), root @ root.T)

    return one(2), one(3)


def joint_ratio(first: Rival, second: Rival, noise: np.ndarray, trials: tuple[int, ...]) -> float:
    """Squared differences over their joint covariance."""
    at = list(trials)
    covariance = 2 * np.diag(noise[at] ** 2)
    for one in (first, second):
        covariance = covariance + one.gradients[at] @ one.covariance @ one.gradients[at].T
    difference = (first.means - second.means)[at]
    return float(difference @ np.linalg.solve(covariance, difference))


@given(seeds, st.integers(1, 6))
def test_ratios_add_up_to_that_of_all_trials_jointly(seed: int, trials: int) -> None:
    first, second = rivals(seed)
    noise = np.random.default_rng(seed + 1).uniform(0.5, 2, 12)
    found = discriminate(first, second, noise, trials)
    assert found.total_ratio == pytest.approx(joint_ratio(first, second, noise, found.trials), rel=1e-6)
    assert found.differences == pytest.approx(((second.means - first.means) / noise)[list(found.trials)])


@given(seeds)
def test_each_trial_is_the_best_after_those_before(seed: int) -> None:
    first, second = rivals(seed)
    noise = np.ones(12)
    found = discriminate(first, second, noise, 3)
    for count in range(3):
        before = found.trials[:count]
        best = max(joint_ratio(first, second, noise, (*before, one)) for one in range(12))
        assert joint_ratio(first, second, noise, found.trials[: count + 1]) == pytest.approx(best)


def test_the_first_is_where_the_ratio_is_largest() -> None:
    first, second = rivals(4)
    ratios = buzzi_ferraris(first, second, np.ones(12))
    found = discriminate(first, second, np.ones(12), 1)
    assert found.trials == (int(np.argmax(ratios)),)
    assert found.ratios == pytest.approx((ratios.max(),))


def test_a_straight_line_and_a_bent_one_are_told_apart_in_the_middle_and_at_the_ends() -> None:
    """Both fitted to trials near the ends; between them only the bent one bends."""
    x = np.linspace(0, 1, 11)
    tried = np.array([0.0, 0.1, 0.9, 1.0] * 3)
    line, bend = np.column_stack([np.ones(11), x]), np.column_stack([np.ones(11), x, x**2])
    outcome = 1 + tried + 2 * tried**2

    def fitted(columns: int) -> Rival:
        past = tried[:, None] ** np.arange(columns)
        covariance = 0.01 * np.linalg.inv(past.T @ past)
        values = np.linalg.lstsq(past, outcome, rcond=None)[0]
        rows = (line, bend)[columns - 2]
        return Rival(rows @ values, rows, covariance)

    found = discriminate(fitted(2), fitted(3), np.full(11, 0.1), 2)
    assert found.trials[0] == 5
    assert found.is_worthwhile
    assert found.ratios[1] < found.ratios[0]


def test_what_was_learnt_at_a_place_is_not_expected_again() -> None:
    """A difference that one parameter can take up is seen once only."""
    shared = np.ones((3, 1))
    first = Rival(np.zeros(3), shared, np.array([[1e6]]))
    second = Rival(np.array([5.0, 5.0, 5.0]), shared, np.array([[1e-9]]))
    assert discriminate(first, second, np.ones(3), 3).total_ratio < 1e-4
    assert not discriminate(first, second, np.ones(3), 3).is_worthwhile
    known = Rival(np.zeros(3), shared, np.array([[1e-9]]))
    assert discriminate(known, second, np.ones(3), 3).total_ratio == pytest.approx(3 * 25 / 2, rel=1e-6)


def test_costs_count() -> None:
    known = np.array([[1e-9]])
    first = Rival(np.zeros(2), np.ones((2, 1)), known)
    second = Rival(np.array([3.0, 2.0]), np.ones((2, 1)), known)
    assert discriminate(first, second, np.ones(2), 1).trials == (0,)
    assert discriminate(first, second, np.ones(2), 1, costs=np.array([9.0, 1.0])).trials == (1,)


def test_box_and_hill_by_numerical_expectation() -> None:
    """Their equation is the mean divergence of the two predictions in both directions."""
    first, second = rivals(2)
    noise = np.full(12, 0.7)
    bound = box_hill(first, second, noise, 0.3)
    y = np.linspace(-60, 60, 200_001)
    for at in (0, 7):
        one, other = (
            np.exp(-((y - rival.means[at]) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v)
            for rival, v in ((rival, 0.49 + rival.variances[at]) for rival in (first, second))
        )
        both = (one > 1e-200) & (other > 1e-200)
        logs = np.log(one[both] / other[both])
        divergence = float(((one[both] - other[both]) * logs).sum() * (y[1] - y[0]))
        assert bound[at] == pytest.approx(0.3 * 0.7 * divergence, rel=1e-4)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    first, second = rivals(1)
    for noise, costs in itertools.product((np.ones(11), np.zeros(12)), (None, np.ones(12))):
        with pytest.raises(ValueError, match="same candidates"):
            discriminate(first, second, noise, 1, costs=costs)
