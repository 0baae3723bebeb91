from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.fitting.bounded import BoundedFit, Side, fit_bounded

Array = npt.NDArray[np.float64]
NAMES = ("a", "b", "c", "d")


def fit_of(rows: Array, response: Array, low: Array, high: Array) -> BoundedFit:
    size = rows.shape[1]
    return fit_bounded(Triangle.empty(size).with_rows(rows, response), low, high, NAMES[:size], "y")


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array, Array, Array]:
    """Rows that hang together more or less, columns of any size, bounds on either, both or no side."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = 10.0 ** np.array(draw(st.lists(st.integers(-8, 8), min_size=4, max_size=4)))
    alike = draw(st.sampled_from([0.0, 1.0, 30.0]))
    rows = (rng.normal(size=(12, 4)) + alike * rng.normal(size=(12, 1))) * scales
    response = rows @ (rng.normal(size=4) / scales) + rng.normal(size=12)
    kinds = draw(st.lists(st.sampled_from(["none", "low", "high", "both"]), min_size=4, max_size=4))
    low = np.array([rng.normal(-0.5, 1.0) if kind in ("low", "both") else -np.inf for kind in kinds])
    width = rng.uniform(0.1, 2.0, 4)
    high = np.array(
        [
            (low[index] + width[index] if kind == "both" else rng.normal(0.5, 1.0))
            if kind in ("high", "both")
            else np.inf
            for index, kind in enumerate(kinds)
        ]
    )
    return rows, response, low / scales, high / scales


@given(problems())
@settings(max_examples=150, deadline=None)
def test_it_is_the_best_point_within_the_bounds(problem: tuple[Array, Array, Array, Array]) -> None:
    """Karush, Kuhn and Tucker's conditions, which in a convex problem one point alone meets."""
    rows, response, low, high = problem
    fit = fit_of(rows, response, low, high)
    assert ((low <= fit.values) & (fit.values <= high)).all()
    lengths = np.linalg.norm(rows, axis=0)
    slopes = rows.T @ (rows @ fit.values - response) / lengths / np.linalg.norm(response)
    for slope, side, value, least, most in zip(slopes, fit.sides, fit.values, low, high, strict=True):
        if side is Side.FREE:
            assert abs(slope) < 1e-10
        elif side is Side.LOW:
            assert value == least
            assert slope > -1e-10
        else:
            assert value == most
            assert slope < 1e-10


@given(problems())
@settings(max_examples=30, deadline=None)
def test_scipy_finds_nothing_better(problem: tuple[Array, Array, Array, Array]) -> None:
    from scipy.optimize import lsq_linear

    rows, response, low, high = problem
    scales = np.linalg.norm(rows, axis=0)
    theirs = lsq_linear(rows / scales, response, (low * scales, high * scales), method="bvls").x / scales
    ours = fit_of(rows, response, low, high).values
    best = ((rows @ theirs - response) ** 2).sum()
    assert ((rows @ ours - response) ** 2).sum() <= best * (1 + 1e-9)


def test_without_bounds_it_is_ordinary_least_squares_with_its_intervals() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    rows = rng.normal(size=(25, 3)) * [1.0, 1e9, 1e-6]
    response = rows @ [1.0, 2e-9, 3e6] + rng.normal(size=25)
    fit = fit_of(rows, response, np.full(3, -np.inf), np.full(3, np.inf))
    batch = sm.OLS(response, rows / [1.0, 1e9, 1e-6]).fit()
    assert fit.values * [1.0, 1e9, 1e-6] == pytest.approx(batch.params, rel=1e-10)
    limits = batch.conf_int(0.1) / np.array([[1.0], [1e9], [1e-6]])
    for name, (low, high) in zip("abc", limits, strict=True):
        answer = fit.parameter(name, 0.9)
        assert (answer.settled.low, answer.settled.high) == pytest.approx((low, high), rel=1e-9)
        assert (answer.guarded.low, answer.guarded.high) == pytest.approx((low, high), rel=1e-6)
        assert answer.impossible_part == ""
    new = batch.get_prediction(np.ones((1, 3))).summary_frame(alpha=0.1)
    answer = fit.new_trial(np.array([1.0, 1e9, 1e-6]), offset=7.0, confidence=0.9)
    expected = (new["obs_ci_lower"][0] + 7, new["obs_ci_upper"][0] + 7)
    assert (answer.settled.low, answer.settled.high) == pytest.approx(expected, rel=1e-9)
    assert (answer.guarded.low, answer.guarded.high) == pytest.approx(expected, rel=1e-6)


@given(problems(), st.lists(st.floats(-2, 2), min_size=4, max_size=4), st.sampled_from([0.5, 0.95]))
@settings(max_examples=100, deadline=None)
def test_a_guarded_interval_holds_the_estimate_and_stays_within_what_is_possible(
    problem: tuple[Array, Array, Array, Array], weights: list[float], confidence: float
) -> None:
    rows, response, low, high = problem
    fit = fit_of(rows, response, low, high)
    row = np.array(weights) * np.linalg.norm(rows, axis=0)
    answer = fit.mean(row, confidence=confidence)
    slack = 1e-9 * max(1.0, float(np.abs(row * fit.values).max()))
    assert answer.guarded.low - slack <= answer.value <= answer.guarded.high + slack
    assert answer.possible.low - slack <= answer.guarded.low
    assert answer.guarded.high <= answer.possible.high + slack
    new = fit.new_trial(row, confidence=confidence)
    assert new.guarded.low <= answer.guarded.low + slack
    assert new.guarded.high >= answer.guarded.high - slack


def test_bounds_that_the_data_contradict_are_said_to_be() -> None:
    rows = np.column_stack([np.ones(8), np.arange(8.0)])
    response = 10 - np.arange(8.0) + np.array([0.1, -0.1] * 4)
    fit = fit_of(rows, response, np.zeros(2), np.full(2, np.inf))
    slope = fit.parameter("b")
    assert slope.contradicted
    assert (slope.guarded.low, slope.value, slope.guarded.high) == (0, 0, 0)
    assert not fit.parameter("a").contradicted
    assert fit.mean(np.array([1.0, 100.0])).contradicted


def test_a_parameter_at_its_bound_is_between_it_and_what_the_data_allow() -> None:
    rows = np.column_stack([np.ones(8), np.arange(8.0)])
    response = np.array([3.0, 2.4, 2.8, 2.9, 2.5, 2.9, 2.4, 2.6])
    fit = fit_of(rows, response, np.array([-np.inf, 0.0]), np.full(2, np.inf))
    assert fit.at_bound == ("b",)
    assert fit.values[0] == pytest.approx(response.mean())
    assert fit.df == 7
    slope = fit.parameter("b")
    assert (slope.settled.low, slope.settled.high, slope.guarded.low) == (0, 0, 0)
    assert slope.guarded.high > 0
    assert (fit.covariance_matrix[1] == 0).all()


def test_all_parameters_may_stand_at_bounds() -> None:
    rows = np.vstack([np.eye(2)] * 3)
    fit = fit_of(rows, np.array([-1.0, 9.0, -1.1, 9.1, -0.9, 8.8]), np.zeros(2), np.array([np.inf, 5.0]))
    assert (fit.sides, list(fit.values), fit.df) == ((Side.LOW, Side.HIGH), [0.0, 5.0], 6)
    assert fit.mean(np.ones(2)).value == 5
    assert fit.mean(np.ones(2)).possible.high == np.inf
    assert fit.mean(np.array([0.0, 1.0])).impossible_part == ""
    assert fit.new_trial(np.array([0.0, 1.0])).impossible_part == "below 0 and above 5"


def test_a_row_of_zeros_has_no_uncertainty_but_noise() -> None:
    rng = np.random.default_rng(4)
    fit = fit_of(rng.normal(size=(9, 2)), rng.normal(size=9), np.zeros(2), np.full(2, np.inf))
    nothing = fit.mean(np.zeros(2), offset=2.0)
    assert nothing.settled == nothing.guarded == nothing.possible
    assert (nothing.settled.low, nothing.settled.high) == (2.0, 2.0)
    assert fit.new_trial(np.zeros(2)).guarded.high > 0


def test_noiseless_data_leave_a_point() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 4.0]])
    fit = fit_of(rows, rows @ [2.0, 3.0], np.zeros(2), np.full(2, np.inf))
    answer = fit.mean(np.array([1.0, 1.0]))
    assert answer.value == pytest.approx(5)
    assert (answer.guarded.low, answer.guarded.high) == pytest.approx((5, 5))


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (2.0, 2.0), (np.nan, 1.0)])
def test_contradictory_bounds_are_refused(low: float, high: float) -> None:
    rows = np.vstack([np.eye(2)] * 2)
    with pytest.raises(InputError, match="b must be at least"):
        fit_of(rows, np.ones(4), np.array([0.0, low]), np.array([1.0, high]))


def test_what_the_trials_cannot_tell_apart_is_named() -> None:
    rows = np.column_stack([np.ones(9), np.arange(9.0), 2 * np.arange(9.0)])
    with pytest.raises(NotIdentified, match="b and c apart"):
        fit_of(rows, np.ones(9), np.zeros(3), np.full(3, np.inf))
    with pytest.raises(NotIdentified, match="too few"):
        fit_of(np.eye(2), np.ones(2), np.zeros(2), np.full(2, np.inf))
