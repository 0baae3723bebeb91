from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.linearised import CurvedRecursion

Array = npt.NDArray[np.float64]


@dataclass
class Saturation:
    """y = c + a (1 - exp(-x / b)), and how many trials it was evaluated on."""

    variable: str = "y"
    parameters: tuple[str, ...] = ("c", "a", "b")
    parents: tuple[str, ...] = ("x",)
    rows: list[int] = field(default_factory=list)

    def mean(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        c, a, b = parameters
        self.rows.append(len(levels["x"]))
        with np.errstate(all="ignore"):
            return np.asarray(c + a * (1 - np.exp(-levels["x"] / b)))

    def gradient(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        _, a, b = parameters
        x = levels["x"]
        with np.errstate(all="ignore"):
            decay = np.exp(-x / b)
            return np.column_stack([np.ones_like(x), 1 - decay, -a * decay * x / b**2])


TRUTH = np.array([0.2, 3.0, 2.0])


def trials(rng: np.random.Generator, n: int, noise: float = 0.1) -> tuple[Array, Array]:
    x = rng.uniform(0, 8, n)
    return x, Saturation().mean(TRUTH, {"x": x}) + rng.normal(0, noise, n)


def whole_fit(x: Array, y: Array) -> Array:
    from scipy.optimize import least_squares

    law = Saturation()
    return np.asarray(
        least_squares(
            lambda v: law.mean(v, {"x": x}) - y,
            TRUTH,
            lambda v: law.gradient(v, {"x": x}),
            x_scale="jac",
            xtol=1e-13,
            ftol=1e-13,
        ).x
    )


def test_after_every_trial_it_is_as_near_the_whole_fit_as_it_says() -> None:
    x, y = trials(np.random.default_rng(1), 250)
    fit = CurvedRecursion(Saturation(), np.array([0.0, 2.0, 1.0]))
    stepped = 0
    for number in range(250):
        fit.add({"x": x[number]}, y[number])
        if number < 10:
            continue
        found = fit.fitted()
        best = whole_fit(x[: number + 1], y[: number + 1])
        errors = np.sqrt(np.diag(found.fit.covariance_matrix))
        stepped += found.trials_since > 0
        assert found.next_step <= 0.05
        assert (np.abs(found.fit.values - best) <= (3 * found.next_step + 2e-3) * errors).all()
    assert stepped > 180


def test_whole_fits_become_rare() -> None:
    law = Saturation()
    x, y = trials(np.random.default_rng(2), 3000)
    fit = CurvedRecursion(law, TRUTH)
    whole = 0
    for number in range(3000):
        fit.add({"x": x[number]}, y[number])
        if number > 10:
            whole += fit.fitted().trials_since == 0
    assert whole < 60
    assert sum(law.rows) / 3000 < 300  # evaluations per trial; a whole fit after each would be some ten thousand


def test_a_step_too_far_for_one_is_followed_by_a_whole_fit() -> None:
    rng = np.random.default_rng(3)
    law = Saturation()
    near = rng.uniform(0, 2, 40)
    y = law.mean(TRUTH, {"x": near}) + rng.normal(0, 0.05, 40)
    fit = CurvedRecursion(law, TRUTH)
    for level, outcome in zip(near, y, strict=True):
        fit.add({"x": level}, outcome)
    fit.fitted()
    fit.add({"x": 1.0}, float(law.mean(TRUTH, {"x": np.array([1.0])})[0]))
    assert fit.fitted().trials_since == 1  # nothing new, and a step tells it
    fit.add({"x": 20.0}, 3.2)  # says at last where it saturates
    found = fit.fitted()
    assert (found.trials_since, found.next_step) == (0, 0.0)
    x = np.concatenate([near, [1.0, 20.0]])
    y = np.concatenate([y, law.mean(TRUTH, {"x": np.array([1.0])}), [3.2]])
    assert found.fit.values == pytest.approx(whole_fit(x, y), rel=1e-6)


def test_statistics_are_those_of_the_linearised_law() -> None:
    x, y = trials(np.random.default_rng(4), 100)
    fit = CurvedRecursion(Saturation(), TRUTH)
    for level, outcome in zip(x, y, strict=True):
        fit.add({"x": level}, outcome)
    found = fit.fitted().fit
    rows = Saturation().gradient(found.values, {"x": x})
    residuals = y - Saturation().mean(found.values, {"x": x})
    assert found.df == 97
    assert found.sigma == pytest.approx(np.sqrt((residuals**2).sum() / 97), rel=1e-9)
    assert found.covariance_matrix == pytest.approx(np.linalg.inv(rows.T @ rows) * found.sigma**2, rel=1e-8)
    assert found.r_squared == pytest.approx(1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-9)


def test_too_few_trials_and_bad_numbers_are_refused() -> None:
    fit = CurvedRecursion(Saturation(), TRUTH)
    with pytest.raises(InputError, match="needs a level of x"):
        fit.add({}, 1.0)
    with pytest.raises(InputError, match="not finite"):
        fit.add({"x": 1.0}, np.nan)
    with pytest.raises(InputError, match="not finite"):
        fit.add({"x": np.nan}, 1.0)
    assert fit.n == 0
    fit.add({"x": 1.0}, 1.0)
    with pytest.raises(NotIdentified, match="1 rows are too few"):
        fit.fitted()


def test_parameters_that_the_trials_cannot_tell_apart_are_named() -> None:
    fit = CurvedRecursion(Saturation(), TRUTH)
    for outcome in (1.0, 1.1, 0.9, 1.2, 1.05):
        fit.add({"x": 1e3}, outcome)  # all are saturated: c and a come as their sum, b not at all
    with pytest.raises(NotIdentified):
        fit.fitted()
