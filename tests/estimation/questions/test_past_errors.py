from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from insitu.orchestrator.estimation.questions.past_errors import PastErrors
from tests.estimation.chains import blueprint_of, fitted, parameter_trials

LINE = """
variables:
  x: {unit: '', role: parameter}
  y: {unit: s, measured_by: wall_time}
laws:
  y: %s
"""


def record(law: str, folder: Path, xs: list[float], ys: list[float]) -> PastErrors:
    taken = iter(ys)
    trials = parameter_trials(
        np.random.default_rng(1), [{"x": x} for x in xs], lambda at, rng: {"wall_time": next(taken)}
    )
    return fitted(blueprint_of(LINE % law, folder), trials).past["y"]


def test_recursive_least_squares_foretells_as_a_new_fit_before_each_trial(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    xs = rng.uniform(1, 5, 30)
    ys = 2 + 3 * xs + rng.normal(0, 0.5, 30)
    found = record("a + b * x", tmp_path, xs.tolist(), ys.tolist())
    rows = np.column_stack([np.ones(30), xs])
    within, errors = 0, []
    for index in range(3, 30):
        solution, rss, _, _ = np.linalg.lstsq(rows[:index], ys[:index], rcond=None)
        leverage = rows[index] @ np.linalg.inv(rows[:index].T @ rows[:index]) @ rows[index]
        half = stats.t.ppf(0.975, index - 2) * math.sqrt(rss[0] / (index - 2) * (1 + leverage))
        error = ys[index] - rows[index] @ solution
        within += abs(error) <= half
        errors.append(abs(error) / ys[index])
    assert found.predictions == 27
    assert found.within == within
    assert found.typical == pytest.approx(float(np.median(errors)), rel=1e-9)


def test_the_first_trials_are_needed_to_tell_the_parameters(tmp_path: Path) -> None:
    xs = [1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    ys = [1.1, 0.9, 1.0, 1.05, 2.0, 2.9, 4.1, 5.0]
    assert record("a + b * x", tmp_path, xs, ys).predictions == 3


def test_a_law_that_is_not_linear_is_fitted_anew_before_each_trial(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    xs = np.tile([1.0, 2.0, 4.0, 8.0], 15)
    ys = 10 / (1 + 0.5 * xs) + rng.normal(0, 0.05, 60)
    found = record("size / (k + x)", tmp_path, xs.tolist(), ys.tolist())
    assert found.predictions == 30
    assert 25 <= found.within <= 30
    assert 0.003 < found.typical < 0.02


def test_a_logarithmic_law_is_judged_in_logarithms(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    xs = rng.uniform(1, 3, 60)
    ys = np.exp(0.5 + xs + rng.normal(0, 0.1, 60))
    law = "{law: a + b * x, link: log, noise: lognormal}"
    found = record(law, tmp_path, xs.tolist(), ys.tolist())
    assert found.predictions > 50
    assert found.within >= 0.88 * found.predictions
    assert 0.04 < found.typical < 0.1


def test_a_machine_that_changed_shows(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    xs = rng.uniform(1, 5, 40)
    ys = 2 + 3 * xs + rng.normal(0, 0.05, 40) + np.where(np.arange(40) >= 20, np.arange(40) - 15.0, 0.0)
    found = record("a + b * x", tmp_path, xs.tolist(), ys.tolist())
    assert found.within < 0.8 * found.predictions
    assert found.chance < 0.01


def test_nothing_foretold_has_no_error() -> None:
    none = PastErrors("y", 0.95, 0, 0, math.nan)
    assert none.chance == 1.0
