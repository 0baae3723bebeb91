"""Draws: noise of every kind about the mean that a law gives, parameters as far as a fit leaves them open."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.estimation.questions.columns import PerColumn, means, quantiles, shape_for
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.simulation import (
    draw_parameters,
    estimates_of,
    has_residuals,
    simulate,
    standard_residuals,
)
from tests.estimation.chains import CHAIN, blueprint_of, chain_trials, fitted, parameter_trials

ONE = """
variables:
  x: {unit: '', role: parameter}
  y: {unit: s, measured_by: wall_time}
laws:
  y: {law: a + b * x, noise: %s}
"""


def of_noise(noise: str, folder: Path, count: int = 60) -> FittedModel:
    draws = np.random.default_rng(4)

    def measured(x: float) -> float:
        mean = 2 + x
        match noise:
            case "gamma":
                return float(mean * draws.gamma(25, 1 / 25))
            case "lognormal":
                return float(mean * np.exp(draws.normal(-0.02, 0.2)))
            case _:
                return float(mean + draws.normal(0, 0.2))

    levels = [{"x": float(1 + number % 4)} for number in range(count)]
    trials = parameter_trials(draws, levels, lambda at, _: {"wall_time": measured(at["x"])})
    return fitted(blueprint_of(ONE % noise, folder), trials)


@pytest.mark.parametrize("noise", ["normal", "gamma", "lognormal"])
def test_draws_have_the_laws_mean_and_spread(noise: str, tmp_path: Path) -> None:
    law = of_noise(noise, tmp_path).laws["y"]
    drawn = simulate([law], {"x": 3.0}, estimates_of([law]), 200_000, np.random.default_rng(1))
    mean = float(law.law.mean(law.fit.values, {"x": np.array([3.0])})[0])
    values = drawn.values["y"][:, 0]
    assert np.all(drawn.expected == pytest.approx(mean))
    assert values.mean() == pytest.approx(mean, rel=2e-3)
    spread = law.fit.sigma * (1.0 if noise == "normal" else mean)
    if noise == "lognormal":
        spread = mean * math.sqrt(math.exp(law.fit.sigma**2) - 1)
    assert values.std() == pytest.approx(spread, rel=0.01)
    third = float(np.mean(((values - mean) / values.std()) ** 3))
    assert third == pytest.approx(
        {"normal": 0.0, "gamma": 2 * law.fit.sigma}.get(noise, 3 * law.fit.sigma), abs=0.05
    )


@pytest.mark.parametrize("noise", ["normal", "gamma", "lognormal"])
def test_residuals_stand_in_for_the_noise(noise: str, tmp_path: Path) -> None:
    law = of_noise(noise, tmp_path, 400).laws["y"]
    assert has_residuals(law.fit)
    drawn = simulate(
        [law], {"x": 3.0}, estimates_of([law]), 100_000, np.random.default_rng(1), resample=True
    ).values["y"][:, 0]
    mean = float(law.law.mean(law.fit.values, {"x": np.array([3.0])})[0])
    assert drawn.mean() == pytest.approx(mean, rel=5e-3)
    unit = 1.0 if noise == "normal" else mean
    assert drawn.std() == pytest.approx(law.fit.sigma * unit, rel=0.05)
    assert len(np.unique(np.round(drawn, 12))) <= 400
    assert standard_residuals(law.fit).std() == pytest.approx(law.fit.sigma, rel=0.03)


def test_noise_comes_in_opposite_pairs(tmp_path: Path) -> None:
    law = of_noise("normal", tmp_path).laws["y"]
    drawn = simulate([law], {"x": 3.0}, estimates_of([law]), 8, np.random.default_rng(1))
    values = drawn.values["y"]
    np.testing.assert_allclose(values[:4] + values[4:], 2 * drawn.expected[:4], rtol=1e-12)
    with pytest.raises(ValueError, match="pairs"):
        simulate([law], {"x": 3.0}, estimates_of([law]), 7, np.random.default_rng(1))


def test_parameters_have_the_fits_means_and_covariances(tmp_path: Path) -> None:
    model = fitted(blueprint_of(CHAIN, tmp_path), chain_trials(np.random.default_rng(5), 60))
    laws = [model.laws["work"], model.laws["runtime"]]
    drawn = draw_parameters(laws, 4000, np.random.default_rng(2))
    for law in laws:
        values = drawn.values[law.variable]
        np.testing.assert_allclose(values.mean(axis=1), law.fit.values, rtol=2e-3)
        wide = law.fit.df / (law.fit.df - 2)
        np.testing.assert_allclose(np.cov(values), wide * law.fit.covariance_matrix, rtol=0.1, atol=1e-18)
        spreads = drawn.spreads[law.variable]
        assert np.median(spreads) == pytest.approx(law.fit.sigma, rel=0.02)
    between = np.corrcoef(drawn.values["work"][0], drawn.values["runtime"][1])[0, 1]
    assert abs(between) < 0.05


def test_parameters_stay_within_their_bounds(tmp_path: Path) -> None:
    text = CHAIN + "parameters: {c: {low: 0}}\n"
    trials = chain_trials(np.random.default_rng(1), 24, noise_s=0.2)
    model = fitted(blueprint_of(text, tmp_path), trials)
    drawn = draw_parameters([model.laws["runtime"]], 2000, np.random.default_rng(2)).values["runtime"]
    assert drawn[0].min() >= 0


def test_tables_are_large_enough_for_what_is_asked_of_them() -> None:
    plain = shape_for(100_000)
    assert plain.rows * plain.columns >= 100_000
    assert plain.columns == 1000
    tail = shape_for(100_000, (0.99,))
    assert tail.rows >= 2000
    assert tail.columns >= 200
    assert shape_for(1000).rows % 4 == 0


def test_noise_of_the_draws_does_not_widen_an_interval() -> None:
    """What columns differ in by their noise alone is mostly taken off, and off what is there all the same."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, (100, 2000))
    alone = means(noise).around(0.0, 0.95)
    assert abs(alone.high - alone.low) < 0.35 * 2 * 1.96 / 10
    offsets = rng.normal(0, 0.1, 2000)
    both = means(noise + offsets).around(0.0, 0.95)
    assert both.high - both.low == pytest.approx(2 * 1.96 * 0.1, rel=0.1)
    far = quantiles(noise + offsets, 0.9).around(1.28, 0.95)
    assert far.high - far.low == pytest.approx(2 * 1.96 * 0.1, rel=0.25)


def test_an_interval_is_around_the_estimate() -> None:
    skewed = np.random.default_rng(1).exponential(1.0, 10_000)
    found = PerColumn(skewed, skewed, skewed).around(5.0, 0.9)
    assert found.value == 5.0
    assert found.high - 5.0 > 5.0 - found.low > 0
