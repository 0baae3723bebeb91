from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.at_scale.linearised import CurvedRecursion
from insitu.orchestrator.plan.law_kinds import Bounds, Method, Noise
from tests.causal.models import law_of

Array = npt.NDArray[np.float64]
SATURATION = law_of("c + a * (1 - exp(-size / b))")
TRUTH = np.array([0.2, 3.0, 2.0])


def trials(rng: np.random.Generator, n: int, noise: float = 0.1) -> tuple[Array, Array]:
    x = rng.uniform(0, 8, n)
    return x, SATURATION.mean(TRUTH, {"size": x}) + rng.normal(0, noise, n)


def whole_fit(x: Array, y: Array) -> Array:
    from scipy.optimize import least_squares

    law = SATURATION
    return np.asarray(
        least_squares(
            lambda v: law.mean(v, {"size": x}) - y,
            TRUTH,
            lambda v: law.gradient(v, {"size": x}),
            x_scale="jac",
            xtol=1e-13,
            ftol=1e-13,
        ).x
    )


def test_after_every_trial_it_is_as_near_the_whole_fit_as_it_says() -> None:
    x, y = trials(np.random.default_rng(1), 250)
    fit = CurvedRecursion(SATURATION, np.array([0.0, 2.0, 1.0]))
    stepped = 0
    for number in range(250):
        fit.add({"size": x[number]}, y[number])
        if number < 10:
            continue
        found = fit.fitted()
        best = whole_fit(x[: number + 1], y[: number + 1])
        errors = np.sqrt(np.diag(found.fit.covariance_matrix))
        stepped += found.trials_since > 0
        assert found.next_step <= 0.05
        assert (np.abs(found.fit.values - best) <= (3 * found.next_step + 2e-3) * errors).all()
    assert stepped > 180


def test_whole_fits_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = trials(np.random.default_rng(2), 3000)
    evaluated = []
    gradient = Law.gradient

    def counted(law: Law, parameters: Array, levels: Mapping[str, Array]) -> Array:
        evaluated.append(len(levels["size"]))
        return gradient(law, parameters, levels)

    monkeypatch.setattr(Law, "gradient", counted)
    fit = CurvedRecursion(SATURATION, TRUTH)
    whole = []
    for number in range(3000):
        fit.add({"size": x[number]}, y[number])
        if number > 10 and fit.fitted().trials_since == 0:
            whole.append(number)
    assert sum(number > 1000 for number in whole) <= 6  # one for each quarter more, at 3000 trials
    assert len(whole) < 60
    assert sum(evaluated) < 150 * 3000  # a whole fit after each trial would be some ten thousand


def test_a_step_too_far_for_one_is_followed_by_a_whole_fit() -> None:
    rng = np.random.default_rng(3)
    law = SATURATION
    near = rng.uniform(0, 2, 40)
    y = law.mean(TRUTH, {"size": near}) + rng.normal(0, 0.05, 40)
    fit = CurvedRecursion(law, TRUTH)
    for level, outcome in zip(near, y, strict=True):
        fit.add({"size": level}, outcome)
    fit.fitted()
    fit.add({"size": 1.0}, float(law.mean(TRUTH, {"size": np.array([1.0])})[0]))
    assert fit.fitted().trials_since == 1  # nothing new, and a step tells it
    fit.add({"size": 20.0}, 3.2)  # says at last where it saturates
    found = fit.fitted()
    assert (found.trials_since, found.next_step) == (0, 0.0)
    x = np.concatenate([near, [1.0, 20.0]])
    y = np.concatenate([y, law.mean(TRUTH, {"size": np.array([1.0])}), [3.2]])
    assert found.fit.values == pytest.approx(whole_fit(x, y), rel=1e-6)


def test_statistics_are_those_of_the_linearised_law() -> None:
    x, y = trials(np.random.default_rng(4), 100)
    fit = CurvedRecursion(SATURATION, TRUTH)
    for level, outcome in zip(x, y, strict=True):
        fit.add({"size": level}, outcome)
    found = fit.fitted().fit
    rows = SATURATION.gradient(found.values, {"size": x})
    residuals = y - SATURATION.mean(found.values, {"size": x})
    assert found.df == 97
    assert found.sigma == pytest.approx(np.sqrt((residuals**2).sum() / 97), rel=1e-9)
    assert found.covariance_matrix == pytest.approx(np.linalg.inv(rows.T @ rows) * found.sigma**2, rel=1e-8)
    assert found.r_squared == pytest.approx(1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-9)


def test_too_few_trials_and_bad_numbers_are_refused() -> None:
    fit = CurvedRecursion(SATURATION, TRUTH)
    with pytest.raises(InputError, match="needs a level of size"):
        fit.add({}, 1.0)
    with pytest.raises(InputError, match="not finite"):
        fit.add({"size": 1.0}, np.nan)
    with pytest.raises(InputError, match="not finite"):
        fit.add({"size": np.nan}, 1.0)
    assert fit.n == 0
    fit.add({"size": 1.0}, 1.0)
    with pytest.raises(NotIdentified, match="1 rows are too few"):
        fit.fitted()


def test_parameters_that_the_trials_cannot_tell_apart_are_named() -> None:
    fit = CurvedRecursion(SATURATION, TRUTH)
    for outcome in (1.0, 1.1, 0.9, 1.2, 1.05):
        fit.add({"size": 1e3}, outcome)  # all are saturated: c and a come as their sum, b not at all
    with pytest.raises(NotIdentified):
        fit.fitted()


@pytest.mark.parametrize(
    "law",
    [
        replace(SATURATION, bounds={"c": Bounds(low=0.0)}),
        replace(SATURATION, noise=Noise.GAMMA),
        replace(SATURATION, method=Method.ROBUST),
    ],
)
def test_laws_that_need_more_than_least_squares_are_refused(law: Law) -> None:
    with pytest.raises(InputError, match="least squares without bounds"):
        CurvedRecursion(law, TRUTH)
