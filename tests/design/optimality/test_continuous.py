"""The best split of a budget: the equivalence theorem, and linear programming as an oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.continuous import BestPossible, best_possible
from insitu.orchestrator.design.optimality.criteria import Criterion, a_optimal, c_optimal, d_optimal, i_optimal
from insitu.orchestrator.design.optimality.information import information_of, inverse
from tests.design.candidates import linear_law, log_determinant, random_rows, seeds

sizes = st.integers(2, 6)


def covariance_of(rows: Array, found: BestPossible, budget: float = 1.0) -> Array:
    chosen = rows[list(found.candidates)] * np.sqrt(budget * np.array(found.shares))[:, None]
    lengths = np.linalg.norm(chosen, axis=0)
    scaled = chosen / lengths
    return inverse(scaled.T @ scaled) / np.outer(lengths, lengths)


@given(seeds, sizes)
@settings(deadline=None, max_examples=60)
def test_equivalence_for_all_parameters(seed: int, parameters: int) -> None:
    """Kiefer and Wolfowitz: no variance is above the number of parameters; where trials are, it is that number."""
    rows = random_rows(seed, 40, parameters)
    found = best_possible(rows, 1, d_optimal(), tolerance=1e-7)
    variances = np.einsum("mp,pq,mq->m", rows, covariance_of(rows, found), rows)
    assert found.shortfall <= 1e-7
    assert variances.max() <= parameters * (1 + 1e-5)
    held = np.array(found.shares) > 1e-4
    assert variances[np.array(found.candidates)[held]] == pytest.approx(parameters, rel=1e-2)
    assert found.value == pytest.approx(found.bound, abs=1e-5)


@given(seeds, sizes)
@settings(deadline=None, max_examples=40)
def test_equivalence_for_a_mean_variance(seed: int, parameters: int) -> None:
    rows = random_rows(seed, 40, parameters)
    found = best_possible(rows, 1, i_optimal(rows), tolerance=1e-7)
    covariance = covariance_of(rows, found)
    slopes = np.einsum("mp,pq,mq->m", rows, covariance @ (rows.T @ rows / len(rows)) @ covariance, rows)
    assert found.shortfall <= 1e-7
    assert slopes.max() <= found.value * (1 + 1e-5)


def elfving(rows: Array, contrast: Array) -> float:
    """Least variance of a contrast from one trial that may be divided, by linear programming.

    Elfving, Annals of Mathematical Statistics 23 (1952), 255-262: the contrast is a combination of rows, and the
    square of the least sum of absolute coefficients is the variance.
    """
    scale = np.abs(rows).max(axis=0)
    both = (np.vstack([rows, -rows]) / scale).T
    solved = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=contrast / scale, method="highs")
    return float(solved.fun**2)


@given(seeds, st.integers(2, 5))
@settings(deadline=None, max_examples=60)
def test_one_contrast_is_as_linear_programming_has_it(seed: int, parameters: int) -> None:
    rows = random_rows(seed, 30, parameters)
    contrast = rows[:5].T @ np.random.default_rng(seed).normal(size=5)
    found = best_possible(rows, 1, c_optimal(contrast), tolerance=1e-6)
    least = elfving(rows, contrast)
    assert found.bound <= least * (1 + 1e-6)
    assert found.bound == pytest.approx(least, rel=1e-4)
    assert found.value == pytest.approx(least, rel=1e-4)


def test_the_slope_of_a_line_is_found_at_its_ends() -> None:
    rows = np.column_stack([np.ones(11), np.linspace(0, 10, 11)])
    found = best_possible(rows, 8, c_optimal(np.array([0.0, 1.0])), tolerance=1e-7)
    assert found.candidates == (0, 10)
    assert found.shares == pytest.approx((0.5, 0.5), abs=1e-3)
    assert found.value == pytest.approx(1 / (8 * 5**2), rel=1e-4)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_the_worst_of_several_contrasts(seed: int) -> None:
    rows = random_rows(seed, 30, 4)
    contrasts = rows[:3]
    found = best_possible(rows, 1, c_optimal(contrasts, worst=True), tolerance=1e-3)
    covariance = covariance_of(rows, found)
    assert found.value == pytest.approx(np.einsum("rp,pq,rq->r", contrasts, covariance, contrasts).max(), rel=1e-3)
    assert found.shortfall <= 1e-3
    assert found.bound >= max(elfving(rows, one) for one in contrasts) * (1 - 2e-3)


@given(seeds, st.sampled_from(["d", "a", "i", "c"]))
@settings(deadline=None, max_examples=60)
def test_no_design_betters_the_bound(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(20, 3))
    criteria: dict[str, Criterion] = {
        "d": d_optimal(),
        "a": a_optimal(3),
        "i": i_optimal(rows),
        "c": c_optimal(rng.normal(size=(2, 3)), worst=True),
    }
    criterion = criteria[kind]
    known = information_of(rng.normal(size=(rng.integers(0, 5), 3)))
    costs = rng.uniform(0.5, 4, 20)
    found = best_possible(rows, 9.0, criterion, information=known, costs=costs, tolerance=0.05)
    for _ in range(30):
        split = rng.dirichlet(np.full(20, 0.2))
        information = known + information_of(rows * np.sqrt(9.0 * split / costs)[:, None])
        value = criterion.value(criterion.loss(inverse(information)))
        assert criterion.efficiency(value, found.bound, 3) <= 1 + 1e-9


def test_costs_are_prices_of_information() -> None:
    rows = linear_law()
    costs = np.random.default_rng(1).uniform(1, 5, len(rows))
    found = best_possible(rows, 60, d_optimal(), costs=costs)
    same = best_possible(rows / np.sqrt(costs)[:, None], 60, d_optimal())
    assert found.shares == pytest.approx(same.shares)
    assert found.value == pytest.approx(same.value)


def test_what_is_known_is_counted_in() -> None:
    rows = linear_law()
    known = information_of(rows[[0, 5, 17]])
    found = best_possible(rows, 4, d_optimal(), information=known, tolerance=1e-6)
    chosen = rows[list(found.candidates)] * np.sqrt(4 * np.array(found.shares))[:, None]
    assert found.value == pytest.approx(log_determinant(np.vstack([chosen, rows[[0, 5, 17]]])), abs=1e-5)


def test_a_trial_may_inform_by_several_rows() -> None:
    rows = np.random.default_rng(3).normal(size=(15, 2, 4))
    found = best_possible(rows, 1, d_optimal(), tolerance=1e-7)
    covariance = inverse(
        sum(share * rows[at].T @ rows[at] for at, share in zip(found.candidates, found.shares, strict=True))
    )
    assert np.einsum("mkp,pq,mkq->m", rows, covariance, rows).max() == pytest.approx(4, rel=1e-5)


def test_what_no_candidate_tells_is_not_answered() -> None:
    rows = linear_law()
    rows[:, 2] = 2 * rows[:, 1]
    assert best_possible(rows, 5, d_optimal()).bound == -math.inf
    assert best_possible(rows, 5, c_optimal(np.array([0.0, 1.0, 0.0]))).bound == math.inf
    assert best_possible(rows, 5, c_optimal(np.array([0.0, 1.0, 2.0]))).bound < math.inf


@pytest.mark.parametrize(("budget", "cost"), [(0.0, 1.0), (5.0, 0.0), (5.0, math.nan), (math.nan, 1.0)])
def test_a_budget_and_costs_are_positive(budget: float, cost: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        best_possible(linear_law(), budget, d_optimal(), costs=np.full(36, cost))


def test_wrong_shapes_are_refused() -> None:
    for rows in (np.zeros((0, 3)), np.zeros(3), np.array([[1.0, np.inf]])):
        with pytest.raises(ValueError, match="candidates"):
            best_possible(rows, 3, d_optimal())
    with pytest.raises(ValueError, match="says anything"):
        best_possible(np.zeros((4, 3)), 3, d_optimal())
    with pytest.raises(ValueError, match="information"):
        best_possible(linear_law(), 3, d_optimal(), information=np.eye(2))
