from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.at_scale.recursive import RecursiveFit, RecursiveState
from insitu.orchestrator.estimation.at_scale.triangle import LossOfPrecision, Triangle

Array = npt.NDArray[np.float64]

BYTES_BESIDE_SECONDS = np.array([1.0, 4e9, 2.5e-7, 3e4])
TRUTH = np.array([0.3, 2e-9, 4e6, -1e-4])


def ill_scaled(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Design rows whose columns differ by sixteen powers of ten, and are far from their means; and outcomes."""
    rows = rng.normal(5.0, 1.0, (n, 4)) * BYTES_BESIDE_SECONDS
    rows[:, 0] = 1.0
    return rows, rows @ TRUTH + rng.normal(0, 0.05, n)


def one_by_one(rows: Array, response: Array, weights: Array | None = None) -> RecursiveFit:
    fit = RecursiveFit("runtime", [f"b{index}" for index in range(rows.shape[1])])
    for index in range(len(rows)):
        here = slice(index, index + 1)
        fit.add(rows[here], response[here], weights=None if weights is None else weights[here])
    return fit


def assert_same(found: RecursiveFit, batch: object, scales: Array = BYTES_BESIDE_SECONDS) -> None:
    """Equal to statsmodels' fit of the same rows with columns divided by `scales`."""
    fit = found.fitted()
    assert fit.values * scales == pytest.approx(np.asarray(batch.params), rel=1e-10)  # type: ignore[attr-defined]
    covariance = np.asarray(batch.cov_params())  # type: ignore[attr-defined]
    assert fit.covariance_matrix * np.outer(scales, scales) == pytest.approx(covariance, rel=1e-10)
    assert fit.sigma**2 == pytest.approx(batch.scale, rel=1e-10)  # type: ignore[attr-defined]
    assert fit.r_squared == pytest.approx(batch.rsquared, rel=1e-10)  # type: ignore[attr-defined]
    assert fit.df == batch.df_resid  # type: ignore[attr-defined]


def test_trial_by_trial_is_the_fit_of_all_at_once_under_bad_scaling() -> None:
    import statsmodels.api as sm

    rows, response = ill_scaled(np.random.default_rng(1), 2000)
    assert_same(one_by_one(rows, response), sm.OLS(response, rows / BYTES_BESIDE_SECONDS).fit())


def exact_fit(rows: Array, response: Array) -> Array:
    """Least squares by the normal equations, in rational numbers."""
    table = [[Fraction(float(cell)) for cell in line] for line in np.column_stack([rows, response])]
    size = rows.shape[1]
    gram = [[sum((line[i] * line[j] for line in table), Fraction()) for j in range(size + 1)] for i in range(size)]
    for i, k in product(range(size), repeat=2):
        if i != k:
            ratio = gram[k][i] / gram[i][i]
            gram[k] = [below - ratio * above for below, above in zip(gram[k], gram[i], strict=True)]
    return np.array([float(gram[i][size] / gram[i][i]) for i in range(size)])


@pytest.mark.parametrize("power", [1, 3, 5])
def test_it_loses_the_digits_of_the_condition_number_and_not_of_its_square(power: int) -> None:
    rng = np.random.default_rng(power)
    steady, other = rng.normal(size=(2, 300))
    rows = np.column_stack([np.ones(300), steady, steady + 10.0**-power * other]) * [1.0, 1e9, 1e-6]
    response = rows @ [1.0, 1e-9, 2e6] + rng.normal(0, 0.1, 300)
    condition = np.linalg.cond(rows / np.linalg.norm(rows, axis=0))
    assert condition > 10**power
    errors = one_by_one(rows, response).fitted().values / exact_fit(rows, response) - 1
    assert np.abs(errors).max() < 1e-14 * condition


def test_weights_are_those_of_weighted_least_squares() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    rows, response = ill_scaled(rng, 300)
    weights = rng.uniform(0.1, 50.0, 300)
    batch = sm.WLS(response, rows / BYTES_BESIDE_SECONDS, weights=weights).fit()
    assert_same(one_by_one(rows, response, weights), batch)


def test_an_offset_counts_in_r_squared_alone() -> None:
    rng = np.random.default_rng(3)
    rows, response = ill_scaled(rng, 50)
    offsets = rng.normal(0, 3, 50)
    with_offset, without = RecursiveFit("y", "abcd"), RecursiveFit("y", "abcd")
    with_offset.add(rows, response - offsets, offsets=offsets)
    without.add(rows, response - offsets)
    assert with_offset.fitted().values == pytest.approx(without.fitted().values, rel=1e-14)
    residuals = response - offsets - rows @ without.fitted().values
    explained = 1 - (residuals**2).sum() / ((response - response.mean()) ** 2).sum()
    assert with_offset.fitted().r_squared == pytest.approx(explained, rel=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    powers=st.lists(st.integers(-12, 12), min_size=3, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_any_portions_in_any_order_give_one_fit(seed: int, cuts: list[int], powers: list[int]) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, 3)) * 10.0 ** np.array(powers)
    response = rows @ 10.0 ** -np.array(powers) + rng.normal(size=400)
    whole = RecursiveFit("y", "abc")
    whole.add(rows, response)
    order = rng.permutation(400)
    portions = RecursiveFit("y", "abc")
    for portion in np.split(order, sorted(cuts)):
        portions.add(rows[portion], response[portion])
    one, other = whole.fitted(), portions.fitted()
    errors = np.sqrt(np.diag(one.covariance_matrix))
    assert (
        np.abs(one.values - other.values).max() <= 1e-10 * np.abs(one.values).max()
        or (np.abs(one.values - other.values) / errors).max() < 1e-10
    )
    assert other.sigma == pytest.approx(one.sigma, rel=1e-11)
    assert other.covariance_matrix == pytest.approx(one.covariance_matrix, rel=1e-9)
    assert other.r_squared == pytest.approx(one.r_squared, abs=1e-11)
    assert (other.n, other.df) == (400, 397)


def test_a_removed_trial_leaves_no_trace() -> None:
    rng = np.random.default_rng(5)
    rows, response = ill_scaled(rng, 60)
    weights = rng.uniform(0.5, 2.0, 60)
    fit = one_by_one(rows, response, weights)
    for index in (7, 31, 8):
        fit.remove(rows[index], float(response[index]), weight=float(weights[index]))
    kept = np.setdiff1d(np.arange(60), [7, 31, 8])
    others = one_by_one(rows[kept], response[kept], weights[kept]).fitted()
    found = fit.fitted()
    assert found.n == 57
    assert found.values == pytest.approx(others.values, rel=1e-10)
    assert found.covariance_matrix == pytest.approx(others.covariance_matrix, rel=1e-9)
    assert found.r_squared == pytest.approx(others.r_squared, rel=1e-10)


@pytest.mark.parametrize("spoil", [(1e9, 0.0), (0.0, 1e9)], ids=["alone at its level", "alone in its outcome"])
def test_a_trial_that_decides_alone_is_not_removed_but_refused(spoil: tuple[float, float]) -> None:
    rows, response = ill_scaled(np.random.default_rng(6), 40)
    rows[3, 1] += spoil[0] * BYTES_BESIDE_SECONDS[1]
    response[3] += spoil[1]
    fit = one_by_one(rows, response)
    before = fit.state()
    with pytest.raises(LossOfPrecision):
        fit.remove(rows[3], float(response[3]))
    assert fit.state() == before


def test_clusters_give_the_sandwich_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(7)
    rows, response = ill_scaled(rng, 400)
    weights = rng.uniform(0.5, 2.0, 400)
    nodes = rng.integers(0, 9, 400)
    response += rng.normal(0, 0.3, 9)[nodes]
    fit = RecursiveFit("runtime", "abcd")
    for index, node in enumerate(nodes):
        here = slice(index, index + 1)
        fit.add(rows[here], response[here], weights=weights[here], cluster=f"node-{node}")
    batch = sm.WLS(response, rows / BYTES_BESIDE_SECONDS, weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": nodes}, use_t=True
    )
    found = fit.cluster_covariance()
    scaled = found.matrix * np.outer(BYTES_BESIDE_SECONDS, BYTES_BESIDE_SECONDS)
    assert scaled == pytest.approx(np.asarray(batch.cov_params()), rel=1e-9)
    assert found.df == 8


def test_clusters_are_needed_for_their_covariance_and_for_all_trials() -> None:
    rows, response = ill_scaled(np.random.default_rng(8), 20)
    fit = RecursiveFit("runtime", "abcd")
    fit.add(rows, response, cluster="a")
    with pytest.raises(NotIdentified, match="1 clusters"):
        fit.cluster_covariance()
    with pytest.raises(InputError, match="some trials have a cluster"):
        fit.add(rows, response)
    with pytest.raises(LossOfPrecision):
        fit.remove(rows[0], float(response[0]))
    plain = RecursiveFit("runtime", "abcd")
    plain.add(rows, response)
    with pytest.raises(InputError, match="some trials have a cluster"):
        plain.add(rows, response, cluster="a")


def test_a_state_survives_json_to_the_last_digit() -> None:
    rng = np.random.default_rng(9)
    rows, response = ill_scaled(rng, 30)
    fit = RecursiveFit("runtime", "abcd")
    for index in range(20):
        fit.add(rows[index : index + 1], response[index : index + 1], cluster=f"node-{index % 3}")
    document = json.loads(json.dumps(fit.state().as_document(), allow_nan=False))
    again = RecursiveFit.from_state(RecursiveState.from_document(document))
    for index in range(20, 30):
        for one in (fit, again):
            one.add(rows[index : index + 1], response[index : index + 1], cluster=f"node-{index % 5}")
    assert again.state() == fit.state()
    assert (again.fitted().values == fit.fitted().values).all()
    assert (again.cluster_covariance().matrix == fit.cluster_covariance().matrix).all()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda document: document.pop("factor"), "factor"),
        (lambda document: document["factor"].pop(), "wrong shape"),
        (lambda document: document["factor"][0].append(1.0), "wrong shape"),
        (lambda document: document["moments"].update(mean=float("nan")), r"moments\.mean"),
        (lambda document: document["moments"].update(n=-1), "negative"),
        (lambda document: document.update(more=1), "more"),
    ],
)
def test_a_damaged_state_is_refused(spoil: Callable[[dict[str, object]], object], says: str) -> None:
    fit = RecursiveFit("y", "ab")
    fit.add(np.eye(2), np.ones(2))
    document = json.loads(json.dumps(fit.state().as_document()))
    spoil(document)
    with pytest.raises(InputError, match=says):
        RecursiveState.from_document(document)


def test_too_few_trials_and_mixed_parameters_are_named() -> None:
    fit = RecursiveFit("runtime", ["c", "a", "b"])
    fit.add(np.array([[1.0, 2.0, 3.0]]), np.array([1.0]))
    with pytest.raises(NotIdentified, match="1 rows are too few for the 3 parameters of runtime"):
        fit.fitted()
    rows = np.random.default_rng(10).normal(size=(50, 3)) * [1.0, 1e9, 1e-6]
    rows[:, 2] = rows[:, 1] * 1e-15
    fit.add(rows, rows[:, 0])
    with pytest.raises(NotIdentified, match="tell a and b apart") as caught:
        RecursiveFit.from_state(replace(_state_of(rows), parameters=("c", "a", "b"))).fitted()
    assert caught.value.context["parameters"] == ("a", "b")


def _state_of(rows: Array) -> RecursiveState:
    fit = RecursiveFit("runtime", "cab")
    fit.add(rows, rows[:, 0])
    return fit.state()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    fit = RecursiveFit("y", "ab")
    with pytest.raises(InputError, match="not finite"):
        fit.add(np.array([[1.0, bad]]), np.ones(1))
    with pytest.raises(InputError, match="not finite"):
        fit.add(np.ones((1, 2)), np.array([bad]))
    with pytest.raises(InputError, match="not positive"):
        fit.add(np.ones((1, 2)), np.ones(1), weights=np.zeros(1))
    assert fit.triangle.n == 0


def test_leverage_is_that_of_the_hat_matrix() -> None:
    rows, response = ill_scaled(np.random.default_rng(11), 30)
    fit = one_by_one(rows, response).fitted()
    basis, _ = np.linalg.qr(rows / BYTES_BESIDE_SECONDS)
    for index in (0, 13, 29):
        assert fit.leverage(rows[index]) == pytest.approx((basis[index] ** 2).sum(), rel=1e-10)


def test_a_constant_outcome_has_no_r_squared() -> None:
    fit = one_by_one(np.column_stack([np.ones(5), np.arange(5.0)]), np.full(5, 3.0))
    assert np.isnan(fit.fitted().r_squared)


def test_no_rows_change_nothing() -> None:
    rows, response = ill_scaled(np.random.default_rng(12), 10)
    triangle = Triangle.empty(4).with_rows(rows, response)
    assert triangle.with_rows(rows[:0], response[:0]) is triangle
    assert (triangle.joined_with(Triangle.empty(4)).factor == triangle.factor).all()
