"""Laws that are linear in their parameters, under every link and noise."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.estimation.fitting.curved import solve_curved
from insitu.orchestrator.estimation.fitting.least_squares import solve_linear
from insitu.orchestrator.estimation.fitting.solution import Solution
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Link, Noise
from tests.estimation.made import made

X = np.tile([1.0, 2.0, 4.0, 7.0], 6)


def gamma_data(seed: int, mean: np.ndarray, relative: float) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1 / relative**2, mean * relative**2)


def solved(solution: Solution | None) -> Solution:
    assert solution is not None
    return solution


@pytest.mark.parametrize("link", list(Link))
def test_gamma_noise_agrees_with_a_search_for_the_largest_likelihood(link: Link) -> None:
    mean = np.exp(0.3 + 0.2 * X) if link is Link.LOG else 1.5 + 0.8 * X
    task = made("c + a * x", link=link, noise=Noise.GAMMA).task({"x": X}, gamma_data(3, mean, 0.2))
    by_model, by_search = solved(solve_linear(task)), solve_curved(task)
    assert by_model.values == pytest.approx(by_search.values, rel=1e-7)
    assert by_model.covariance == pytest.approx(by_search.covariance, rel=1e-6)
    assert by_model.sigma == pytest.approx(by_search.sigma, rel=1e-7)


def test_gamma_noise_agrees_with_statsmodels_formulas() -> None:
    from statsmodels.api import GLM, families

    observed = gamma_data(5, np.exp(0.3 + 0.2 * X), 0.3)
    found = solve(made("c + a * x", link=Link.LOG, noise=Noise.GAMMA).task({"x": X}, observed))
    theirs = GLM(observed, np.column_stack([np.ones(24), X]), family=families.Gamma(families.links.Log())).fit(
        tol=1e-14
    )
    assert found.values == pytest.approx(theirs.params, rel=1e-8)
    assert found.standard_errors == pytest.approx(theirs.bse, rel=1e-7)
    assert found.sigma**2 == pytest.approx(theirs.scale, rel=1e-8)


def test_lognormal_noise_is_least_squares_of_the_logarithm_with_the_mean_above_the_median() -> None:
    rng = np.random.default_rng(8)
    observed = np.exp(0.5 + 0.1 * X + rng.normal(0, 0.4, 24))
    found = solve(made("c + a * x", link=Link.LOG, noise=Noise.LOGNORMAL).task({"x": X}, observed))
    rows = np.column_stack([np.ones(24), X])
    values, squares = np.linalg.lstsq(rows, np.log(observed), rcond=None)[:2]
    variance = float(squares[0]) / 22
    assert found.sigma == pytest.approx(np.sqrt(variance))
    assert found.values == pytest.approx([values[0] + variance / 2, values[1]])
    plain = variance * np.linalg.inv(rows.T @ rows)
    # not knowing the variance widens the intercept alone: every logarithm is shifted by half of it
    assert found.covariance[1, 1] == pytest.approx(plain[1, 1])
    assert found.covariance[0, 0] == pytest.approx(plain[0, 0] + variance**2 / 2 / 22)


def test_lognormal_noise_under_the_identity_link_is_searched_for_and_right() -> None:
    rng = np.random.default_rng(8)
    x = np.tile(X, 40)
    observed = (2 + 3 * x) * np.exp(rng.normal(0, 0.3, 960) - 0.3**2 / 2)
    found = solve(made("c + a * x", noise=Noise.LOGNORMAL).task({"x": x}, observed))
    assert np.abs(found.values - [2, 3]) == pytest.approx(np.zeros(2), abs=3 * found.standard_errors.min())
    assert found.sigma == pytest.approx(0.3, rel=0.05)
    assert np.mean(observed / found.mean) == pytest.approx(1, abs=0.02)  # its mean, not its median


def test_what_no_parameter_multiplies_is_taken_off_first() -> None:
    observed = 10 * X + 2 + 0.5 * X**2
    found = solve(made("10 * x + c + a * x^2").task({"x": X}, observed))
    assert found.values == pytest.approx([2, 0.5])
    logarithmic = made("x + c + a * x^2", link=Link.LOG, noise=Noise.GAMMA)
    noisy = gamma_data(1, np.exp(X + 0.5 - 0.1 * X**2), 0.05)
    assert solve(logarithmic.task({"x": X}, noisy)).values == pytest.approx([0.5, -0.1], abs=0.05)


def test_a_logarithmic_link_with_even_noise_takes_outcomes_below_zero() -> None:
    rng = np.random.default_rng(2)
    observed = np.exp(-2 + 0.4 * X) + rng.normal(0, 0.4, 24)
    assert (observed < 0).any()
    found = solve(made("c + a * x", link=Link.LOG).task({"x": X}, observed))
    assert abs(found.values[1] - 0.4) < 3 * found.standard_errors[1]


def test_a_law_without_parameters_has_its_noise_estimated() -> None:
    rng = np.random.default_rng(2)
    task = made("2 * x").task({"x": np.tile(X, 20)}, 2 * np.tile(X, 20) + rng.normal(0, 0.5, 480))
    found = solve(task)
    assert len(found.values) == 0
    assert found.sigma == pytest.approx(0.5, rel=0.1)
    assert found.df == 480
