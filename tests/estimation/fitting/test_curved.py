"""Laws that are curved in their parameters, or bounded."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.solution import Solution
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.estimation.fitting.starts import shape_of, silent_parameters
from insitu.orchestrator.plan.law_kinds import Bounds
from tests.estimation.made import Made, made, trials_of

X = np.tile([0.5, 1.0, 2.0, 4.0, 6.0, 9.0], 4)
SATURATING = made("c + a * (1 - exp(-k * x))")


def finding_of(solution: Solution, check: Check) -> str:
    return next(one.sentence for one in solution.findings if one.check is check)


def test_what_is_linear_once_the_others_stand_is_told_apart() -> None:
    straight = [
        shape_of(law.law).straight.tolist() for law in (SATURATING, made("a * x / (b + x)"), made("a + b * x"))
    ]
    assert straight == [[True, True, False], [True, False], [True, True]]
    assert shape_of(made("a * exp(b) * x").law).straight.tolist() == [True, False]


def test_a_saturating_law_is_found_without_a_start() -> None:
    observed = 1 + 5 * (1 - np.exp(-0.4 * X))
    found = solve(SATURATING.task({"x": X}, observed))
    assert found.values == pytest.approx([1, 5, 0.4], rel=1e-6)
    assert "to the same values from every start" in finding_of(found, Check.SEARCH)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
def test_it_is_found_in_any_unit(size: float) -> None:
    observed = 1e-3 * (1 + 5 * (1 - np.exp(-0.4 * X)))
    found = solve(SATURATING.task({"x": X * size}, observed))
    assert found.values == pytest.approx([1e-3, 5e-3, 0.4 / size], rel=1e-5)


def test_a_law_that_is_only_written_as_if_it_were_curved_gives_what_the_straight_one_gives() -> None:
    rng = np.random.default_rng(4)
    observed = 2 + 3 * X + rng.normal(0, 0.3, 24)
    straight = solve(made("c + a * x").task({"x": X}, observed))
    curved = solve(made("c + exp(log_a) * x").task({"x": X}, observed))
    assert curved.values == pytest.approx([straight.values[0], np.log(straight.values[1])], rel=1e-7)
    assert curved.sigma == pytest.approx(straight.sigma)
    assert curved.standard_errors[1] == pytest.approx(straight.standard_errors[1] / straight.values[1], rel=1e-6)


def test_overlapping_parts_are_found_with_the_slower_one_counting() -> None:
    rng = np.random.default_rng(9)
    size, cores = rng.choice([4.0, 8.0], 60), rng.choice([0.3, 0.5, 0.9], 60)
    law = made("c + max(a * size, b * size / cores)", ("size", "cores"))
    observed = 1 + np.maximum(2 * size, size / cores) + rng.normal(0, 0.2, 60)
    found = solve(law.task({"size": size, "cores": cores}, observed))
    assert np.abs(found.values - [1, 2, 1]) == pytest.approx(np.zeros(3), abs=4 * found.standard_errors.max())


def test_the_same_trials_always_give_the_same_fit() -> None:
    rng = np.random.default_rng(4)
    task = SATURATING.task({"x": X}, 1 + 5 * (1 - np.exp(-0.4 * X)) + rng.normal(0, 0.3, 24))
    assert np.array_equal(solve(task).values, solve(task).values)


def test_a_declared_start_is_searched_from() -> None:
    """Of two mirrored minima the one on the start's side is found."""
    law = "c + a * exp(-(x - middle)^2) * (x - middle)^2"
    observed = 1 + 4 * np.exp(-((X - 3) ** 2)) * (X - 3) ** 2
    found = solve(made(law, starts={"middle": 2.8}).task({"x": X}, observed))
    assert found.values == pytest.approx([1, 4, 3], rel=1e-6)


def test_what_the_trials_cannot_tell_apart_in_a_curved_law_is_named_after_the_search() -> None:
    with pytest.raises(NotIdentified, match="cannot tell a and b apart") as caught:
        solve(made("c + exp(a + b) * x").task({"x": X}, 1 + 2 * X + np.sin(X)))
    assert caught.value.context["parameters"] == ("a", "b")
    assert "keep one of them" in str(caught.value.hint)


def test_a_law_that_is_finite_nowhere_says_what_would_help() -> None:
    law = made("c + a * log(k - x)", bounds={"k": Bounds(0.0, 0.4)})
    with pytest.raises(NotIdentified, match=r"too few|finite for none") as caught:
        fit_law(law.law, trials_of({"x": X}, X), variables=law.variables)
    assert caught.value.hint is not None


def test_bounds_are_kept_and_reported() -> None:
    rng = np.random.default_rng(4)
    observed = 2 + 3 * X + rng.normal(0, 0.1, 24)
    bounded = made("c + a * x", bounds={"c": Bounds(low=2.5)})
    found = solve(bounded.task({"x": X}, observed))
    assert found.values[0] == 2.5
    slope = float(X @ (observed - 2.5) / (X @ X))
    assert found.values[1] == pytest.approx(slope)
    assert found.at_bound == ("c",)
    assert "parameter c stands at its bound" in finding_of(found, Check.BOUND)
    assert found.df == 23
    free = made("c + a * x", bounds={"c": Bounds(low=-10)}).task({"x": X}, observed)
    assert solve(free).at_bound == ()
    assert solve(free).values == pytest.approx(solve(made("c + a * x").task({"x": X}, observed)).values)


def test_a_curved_law_at_a_bound_is_the_law_with_that_parameter_held() -> None:
    rng = np.random.default_rng(4)
    observed = 1 + 5 * (1 - np.exp(-0.4 * X)) + rng.normal(0, 0.2, 24)
    bounded = made("c + a * (1 - exp(-k * x))", bounds={"k": Bounds(0.6, 5.0)}).task({"x": X}, observed)
    held = made("c + a * (1 - exp(-0.6 * x))").task({"x": X}, observed)
    found, expected = solve(bounded), solve(held)
    assert found.values == pytest.approx([*expected.values, 0.6], rel=1e-7)
    assert found.at_bound == ("k",)
    assert found.covariance[:2, :2] == pytest.approx(expected.covariance, rel=1e-6)
    assert found.covariance[2] == pytest.approx(np.zeros(3))
    assert found.intervals is not None
    assert found.intervals.low[2] == 0.6


def test_an_interval_has_no_values_that_bounds_exclude() -> None:
    rng = np.random.default_rng(4)
    law = made("c + a * x", bounds={"c": Bounds(low=0.0)})
    fit = fit_law(law.law, trials_of({"x": X}, 0.1 + 3 * X + rng.normal(0, 1, 24)), variables=law.variables)
    plain = made("c + a * x")
    free = fit_law(plain.law, trials_of({"x": X}, [p.observed for p in fit.points]), variables=law.variables)
    assert free.estimates[0].reported_low < 0
    assert fit.estimates[0].reported_low == 0
    assert fit.estimates[1].reported_low == pytest.approx(free.estimates[1].reported_low, rel=0.2)


def test_a_parameter_that_nothing_shows_is_left_out_of_a_curved_law() -> None:
    law = made("c + max(a * size / rate, b * size / cores)", ("size", "rate", "cores"))
    columns = {"size": np.tile([1.0, 2.0], 8), "rate": np.full(16, np.inf), "cores": np.repeat([0.5, 1.0], 8)}
    assert silent_parameters(law.law, {name: np.asarray(column) for name, column in columns.items()}) == ("a",)
    observed = 1 + 3 * columns["size"] / columns["cores"] + 0.01 * np.sin(np.arange(16))
    fit = fit_law(law.law, trials_of(columns, observed), variables=law.variables)
    assert fit.not_estimated == ("a",)
    assert fit.values == pytest.approx([1, 3], abs=0.05)


def test_a_search_that_comes_to_no_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insitu.orchestrator.estimation.fitting.search._MOST_STEPS", 1)
    rng = np.random.default_rng(4)
    law: Made = made("c + a * exp(-k * x) + b * exp(-m * x)")
    found = solve(law.task({"x": X}, np.exp(-X) + np.exp(-3 * X) + rng.normal(0, 0.01, 24)))
    assert "did not come to an end" in finding_of(found, Check.SEARCH)
