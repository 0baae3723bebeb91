"""Answers through several laws against closed forms, known truth and known error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import Blueprint
from insitu.orchestrator.errors import OutsideSupport
from insitu.orchestrator.estimation.questions.abduction import find_trial
from insitu.orchestrator.estimation.questions.asking import draw, effect, elasticity, whatif
from insitu.orchestrator.estimation.questions.comparison import compare_models
from insitu.orchestrator.estimation.questions.counterfactual import counterfactual
from insitu.orchestrator.estimation.questions.explanation import explain
from insitu.orchestrator.estimation.questions.fidelity import Grade
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.support import Place
from tests.estimation.chains import blueprint_of, fitted, parameter_trials

LINEAR = """
variables:
  x: {unit: '', role: parameter}
  z: {unit: '', role: parameter}
  m: {unit: s, measured_by: cpu_time}
  n: {unit: s, measured_by: system_time}
  y: {unit: s, measured_by: wall_time}
laws:
  m: a0 + a1 * x
  n: b0 + b1 * m + b2 * z
  y: c0 + c1 * m + c2 * n + c3 * x
"""
A, B, C = (1.0, 2.0), (0.5, 0.7, -1.0), (3.0, 1.5, 2.0, 0.4)
NOISE = (0.3, 0.2, 0.4)
SIMULATIONS = 100


def measure(at: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    m = A[0] + A[1] * at["x"] + rng.normal(0, NOISE[0])
    n = B[0] + B[1] * m + B[2] * at["z"] + rng.normal(0, NOISE[1])
    y = C[0] + C[1] * m + C[2] * n + C[3] * at["x"] + rng.normal(0, NOISE[2])
    return {"cpu_time": m, "system_time": n, "wall_time": y}


def mean_of_y(x: float, z: float) -> float:
    m = A[0] + A[1] * x
    return C[0] + C[1] * m + C[2] * (B[0] + B[1] * m + B[2] * z) + C[3] * x


def linear(rng: np.random.Generator, folder: Path, count: int = 40) -> FittedModel:
    levels = [{"x": float(rng.uniform(0, 4)), "z": float(rng.uniform(0, 4))} for _ in range(count)]
    return fitted(blueprint_of(LINEAR, folder), parameter_trials(rng, levels, measure))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("linear")


@pytest.fixture(scope="module")
def models(folder: Path) -> list[FittedModel]:
    rng = np.random.default_rng(20251122)
    return [linear(rng, folder) for _ in range(SIMULATIONS)]


def test_a_do_query_on_a_linear_gaussian_model_is_the_closed_form(models: list[FittedModel]) -> None:
    """Mean and spread of y under do(x, z), from the estimates by the rules of linear paths."""
    for model in models[:10]:
        a, b, c = (model.laws[name].fit.values for name in "mny")
        s = [model.laws[name].fit.sigma for name in "mny"]
        m = a[0] + a[1] * 2
        mean = c[0] + c[1] * m + c[2] * (b[0] + b[1] * m + b[2]) + c[3] * 2
        spread = math.sqrt(((c[1] + c[2] * b[1]) * s[0]) ** 2 + (c[2] * s[1]) ** 2 + s[2] ** 2)
        do = {"x": 2.0, "z": 1.0}
        answer = whatif(model, "y", do, np.random.default_rng(1))
        assert answer.mean == pytest.approx(mean, rel=1e-9)
        assert answer.between["n"] == pytest.approx(b[0] + b[1] * m + b[2], rel=1e-12)
        drawn = draw(model, "y", do, np.random.default_rng(1), draws=200_000)["y"]
        assert drawn.mean() == pytest.approx(mean, abs=0.01)
        assert drawn.std() == pytest.approx(spread, rel=0.08)  # wider by what is not known of the parameters
        change = effect(model, "x", "y", np.random.default_rng(1), low=1.0, high=3.0, at={"z": 1.0})
        path = c[3] + a[1] * (c[1] + c[2] * b[1])
        assert change.change == pytest.approx(2 * path, rel=1e-9)
        slope = elasticity(model, "x", "y", do, np.random.default_rng(1))
        assert slope.value == pytest.approx(2 * path / mean, rel=1e-6)


def test_the_error_of_the_draws_is_far_below_the_interval(models: list[FittedModel]) -> None:
    """The same question with other draws: the mean stays, the ends of the intervals move by a few percent."""
    answers = [
        whatif(models[0], "y", {"x": 2.0, "z": 1.0}, np.random.default_rng(seed), quantiles=(0.95,))
        for seed in range(12)
    ]
    width = answers[0].mean_high - answers[0].mean_low
    assert np.std([one.mean for one in answers]) < 1e-9
    assert np.std([one.mean_low for one in answers]) < 0.08 * width
    whole = answers[0].high - answers[0].low
    assert np.std([one.high for one in answers]) < 0.01 * whole
    assert np.std([one.quantiles[0].value for one in answers]) < 0.02 * whole


def test_intervals_through_several_laws_hold_the_truth(models: list[FittedModel]) -> None:
    rng = np.random.default_rng(3)
    held = {"mean": 0, "trial": 0, "quantile": 0, "effect": 0}
    at = {"x": 2.5, "z": 1.0}
    truth = mean_of_y(2.5, 1.0)
    spread = math.sqrt(((C[1] + C[2] * B[1]) * NOISE[0]) ** 2 + (C[2] * NOISE[1]) ** 2 + NOISE[2] ** 2)
    path = C[3] + A[1] * (C[1] + C[2] * B[1])
    for model in models:
        answer = whatif(model, "y", at, rng, quantiles=(0.9,), draws=20_000)
        held["mean"] += answer.mean_low <= truth <= answer.mean_high
        trial = measure(at, rng)["wall_time"]
        held["trial"] += answer.low <= trial <= answer.high
        p90 = truth + 1.2816 * spread
        held["quantile"] += answer.quantiles[0].low <= p90 <= answer.quantiles[0].high
        change = effect(model, "x", "y", rng, low=1.0, high=3.0, at={"z": 1.0}, draws=10_000)
        held["effect"] += change.change_low <= 2 * path <= change.change_high
    for name in held:
        assert held[name] / SIMULATIONS >= 0.88, name


def test_a_quantile_of_one_law_has_its_exact_interval(folder: Path) -> None:
    rng = np.random.default_rng(6)
    held = 0
    truth = A[0] + A[1] * 2 + 1.6449 * NOISE[0]
    for _ in range(300):
        levels = [{"x": float(x), "z": 1.0} for x in np.tile([1.0, 2.0, 3.0], 5)]
        model = _only_m(folder, rng, levels)
        answer = whatif(model, "m", {"x": 2.0}, rng, quantiles=(0.95,))
        held += answer.quantiles[0].low <= truth <= answer.quantiles[0].high
    assert 0.92 <= held / 300 <= 0.98


def _only_m(folder: Path, rng: np.random.Generator, levels: list[dict[str, float]]) -> FittedModel:
    return fitted(_blueprint_of_m(folder), parameter_trials(rng, levels, measure))


@cache
def _blueprint_of_m(folder: Path) -> Blueprint:
    lines = [line for line in LINEAR.splitlines() if not line.startswith(("  n:", "  y:"))]
    return blueprint_of("\n".join(lines) + "\n", folder)


def test_skewed_noise_shows_in_quantiles_where_there_are_trials_enough(folder: Path) -> None:
    """Residuals stand in for the noise: with a long tail above, normal noise would have the quantiles wrong."""
    rng = np.random.default_rng(2)

    def skewed(at: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        return {**measure(at, rng), "cpu_time": A[0] + A[1] * at["x"] + rng.exponential(0.5)}

    levels = [{"x": float(rng.uniform(0, 4)), "z": 1.0} for _ in range(400)]
    model = fitted(_blueprint_of_m(folder), parameter_trials(rng, levels, skewed))
    answer = whatif(model, "m", {"x": 2.0}, rng, quantiles=(0.02, 0.98))
    low, high = answer.quantiles
    exact = [A[0] + A[1] * 2 - 0.5 * math.log(1 - share) for share in (0.02, 0.98)]
    assert low.low < exact[0] < low.high
    assert high.low < exact[1] < high.high
    normal = answer.mean + 2.0537 * model.laws["m"].fit.sigma
    assert high.value > normal + 0.1


def test_counterfactuals_recover_what_the_same_noise_would_have_given(folder: Path) -> None:
    rng = np.random.default_rng(9)
    levels = [{"x": float(rng.uniform(0, 4)), "z": float(rng.uniform(0, 4))} for _ in range(60)]
    noises = rng.normal(0, NOISE, (60, 3))
    taken = iter(noises)

    def exactly(at: Mapping[str, float], noise: np.ndarray) -> dict[str, float]:
        m = A[0] + A[1] * at["x"] + noise[0]
        n = B[0] + B[1] * m + B[2] * at["z"] + noise[1]
        return {
            "cpu_time": m,
            "system_time": n,
            "wall_time": C[0] + C[1] * m + C[2] * n + C[3] * at["x"] + noise[2],
        }

    trials = parameter_trials(rng, levels, lambda at, _: exactly(at, next(taken)))
    model = fitted(blueprint_of(LINEAR, folder), trials)
    held, off = 0, []
    for number, (at, noise) in enumerate(zip(levels, noises, strict=True), start=1):
        answer = counterfactual(model, find_trial(model, trials, number, "y"), "y", {"x": 1.0}, rng)
        truth = exactly({**at, "x": 1.0}, noise)["wall_time"]
        held += answer.low <= truth <= answer.high
        off.append(answer.value - truth)
    assert held >= 50
    assert np.std(off) < 0.3 * math.hypot(*NOISE)  # its own noise was no part of what was not known


def test_what_explains_a_trial_adds_up(folder: Path) -> None:
    rng = np.random.default_rng(10)
    levels = [{"x": float(rng.uniform(0, 4)), "z": float(rng.uniform(0, 4))} for _ in range(60)]
    trials = parameter_trials(rng, levels, measure)
    model = fitted(blueprint_of(LINEAR, folder), trials)
    for number in range(1, 21):
        found = find_trial(model, trials, number, "y")
        answer = explain(model, found, trials, "y", rng, against={"x": 1.0, "z": 1.0})
        parts = {one.variable: one for one in answer.contributions}
        assert sum(one.amount for one in parts.values()) == pytest.approx(
            answer.observed - answer.expected, abs=1e-9
        )
        # in a linear model each gets its path times how far it stands off
        a, b, c = (model.laws[name].fit.values for name in "mny")
        path = c[3] + a[1] * (c[1] + c[2] * b[1])
        assert parts["x"].amount == pytest.approx(path * (found.levels["x"] - 1.0), abs=1e-9)
        assert parts["z"].amount == pytest.approx(c[2] * b[2] * (found.levels["z"] - 1.0), abs=1e-9)
        residual = found.levels["m"] - a[0] - a[1] * found.levels["x"]
        assert parts["m"].amount == pytest.approx((c[1] + c[2] * b[1]) * residual, abs=1e-9)


SQUARE = """
variables:
  a: {unit: '', role: parameter}
  y: {unit: s, measured_by: wall_time}
laws:
  y: c + b * a
"""


def test_a_question_far_outside_is_refused_and_says_so_when_answered(folder: Path) -> None:
    """A line where the truth is a square, fitted on a in 0 to 4 and asked about a = 8, where the truth is 69.6."""
    rng = np.random.default_rng(1)
    levels = [{"a": float(level)} for level in rng.uniform(0, 4, 200)]
    trials = parameter_trials(rng, levels, lambda at, rng: {"wall_time": 5.6 + at["a"] ** 2 + rng.normal(0, 0.5)})
    model = fitted(blueprint_of(SQUARE, folder), trials)
    with pytest.raises(OutsideSupport, match="a = 8 is outside the trials, which have 0"):
        whatif(model, "y", {"a": 8.0}, rng)
    answer = whatif(model, "y", {"a": 8.0}, rng, extrapolate=True)
    assert not answer.low <= 69.6 <= answer.high
    assert answer.extrapolated
    assert answer.fidelity is not None
    assert answer.fidelity.place is Place.OUTSIDE
    assert answer.fidelity.grade is Grade.POOR


def test_a_comparison_finds_a_change_in_one_unchanged_law_in_twenty(folder: Path) -> None:
    rng = np.random.default_rng(12)
    p_values = []
    for _ in range(200):
        pair = []
        for count, spread in ((8, 0.2), (20, 0.6)):
            levels = [{"a": float(level)} for level in rng.uniform(0, 4, count)]
            trials = parameter_trials(
                rng,
                levels,
                lambda at, rng, s=spread: {"wall_time": 1 + 2 * at["a"] + rng.normal(0, s)},  # type: ignore[misc]
            )
            pair.append(fitted(_square(folder), trials))
        p_values.append(compare_models(*pair).laws[0].p_value)
    assert 0.02 <= np.mean(np.array(p_values) < 0.05) <= 0.09
    assert 0.4 <= np.mean(np.array(p_values) < 0.5) <= 0.6


@cache
def _square(folder: Path) -> Blueprint:
    return blueprint_of(SQUARE, folder)
