from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.estimation.questions.comparison import compare_models, holm
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.report.comparisons import change_sentence
from tests.estimation.chains import CHAIN, blueprint_of, fitted, parameter_trials

TWO = """
variables:
  x: {unit: '', role: parameter}
  y: {unit: s, measured_by: wall_time}
  z: {unit: s, measured_by: cpu_time}
laws:
  y: a + b * x
  z: c + d * x
"""


def model(folder: Path, seed: int, b: float = 2.0, noise: float = 0.05, text: str = TWO) -> FittedModel:
    def measure(at: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        return {"wall_time": 1 + b * at["x"] + rng.normal(0, noise), "cpu_time": 3 + at["x"] + rng.normal(0, 0.1)}

    levels = [{"x": float(1 + number % 4)} for number in range(24)]
    trials = parameter_trials(np.random.default_rng(seed), levels, measure)
    return fitted(blueprint_of(text, folder), trials)


def test_a_change_is_found_measured_and_named(tmp_path: Path) -> None:
    found = compare_models(model(tmp_path, 1), model(tmp_path, 2, b=2.3, noise=0.08))
    first, second = found.laws
    assert (first.outcome, second.outcome) == ("y", "z")
    assert first.significant
    assert not second.significant
    assert first.most_changed.name == "b"
    assert first.low < 0.3 * first.at["x"] < first.high
    assert first.change == pytest.approx(first.second - first.first)
    slope = next(one for one in first.parameters if one.name == "b")
    assert slope.low < 0.3 < slope.high
    assert first.adjusted_p == pytest.approx(2 * first.p_value)
    assert "y has changed (p < 0.0001): from" in change_sentence(first)
    assert change_sentence(first).endswith("most of all b.")
    assert "z has not changed by more than noise" in change_sentence(second)


def test_a_run_against_itself_has_not_changed(tmp_path: Path) -> None:
    one = model(tmp_path, 1)
    for law in compare_models(one, one).laws:
        assert law.f == pytest.approx(0.0, abs=1e-12)
        assert law.p_value == 1.0
        assert law.change == 0.0


def test_with_one_parameter_the_test_is_welchs(tmp_path: Path) -> None:
    from scipy import stats

    text = "\n".join(line for line in TWO.splitlines() if not line.startswith("  z")).replace("a + b * x", "b * x")
    samples = []
    models = []
    for seed, noise in ((1, 0.05), (2, 0.4)):
        rng = np.random.default_rng(seed)
        values = 2 + rng.normal(0, noise, 12)
        taken = iter(values.tolist())
        trials = parameter_trials(rng, [{"x": 1.0}] * 12, lambda at, rng, taken=taken: {"wall_time": next(taken)})  # type: ignore[misc]
        models.append(fitted(blueprint_of(text, tmp_path), trials))
        samples.append(values)
    (law,) = compare_models(*models).laws
    expected = stats.ttest_ind(*samples, equal_var=False)
    assert law.f == pytest.approx(expected.statistic**2)
    assert law.df_noise == pytest.approx(expected.df)
    assert law.p_value == pytest.approx(expected.pvalue)


def test_laws_that_cannot_be_compared_say_why(tmp_path: Path) -> None:
    other = model(tmp_path, 2, text=TWO.replace("c + d * x", "c + d * x * x"))
    found = compare_models(model(tmp_path, 1), other)
    assert [one.outcome for one in found.laws] == ["y"]
    assert found.not_compared[0].outcome == "z"
    assert "different laws" in found.not_compared[0].reason
    foreign = fitted(blueprint_of(CHAIN, tmp_path), ())
    reasons = {one.outcome: one.reason for one in compare_models(model(tmp_path, 1), foreign).not_compared}
    assert reasons["y"] == "the second run's model has no law for it"
    assert reasons["work"] == "the first run's model has no law for it"
    empty = fitted(blueprint_of(TWO, tmp_path), ())
    assert "not fitted in the second run" in compare_models(model(tmp_path, 1), empty).not_compared[0].reason


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()
