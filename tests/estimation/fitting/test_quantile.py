"""Regression quantiles: exact where the answer is known, and refused where trials are too few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.quantile import (
    check_loss,
    fewest_trials,
    hall_sheather,
    regression_quantile,
)
from insitu.orchestrator.estimation.fitting.refit import fit_law, fit_quantile
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Method
from tests.estimation.made import made, trials_of

X = np.tile([1.0, 2.0, 4.0, 8.0], 40)


def noisy(seed: int = 1) -> np.ndarray:
    return 1 + 2 * X + np.random.default_rng(seed).gamma(2, 0.5, len(X))


def test_it_agrees_with_statsmodels() -> None:
    from statsmodels.regression.quantile_regression import QuantReg

    rows = np.column_stack([np.ones(len(X)), X])
    for share in (0.1, 0.5, 0.95):
        ours = regression_quantile(rows, noisy(), share)
        theirs = QuantReg(noisy(), rows).fit(q=share, p_tol=1e-9, max_iter=5000).params
        assert ours == pytest.approx(theirs, abs=2e-5)
        assert check_loss(noisy() - rows @ ours, share) <= check_loss(noisy() - rows @ theirs, share) + 1e-9


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=30), st.floats(0.05, 0.95))
def test_of_a_constant_it_is_the_quantile_of_the_sample(outcomes: list[float], share: float) -> None:
    values = np.array(outcomes)
    found = regression_quantile(np.ones((len(values), 1)), values, share)[0]
    slack = 1e-6 * (1 + np.abs(values).max())
    assert np.mean(values < found - slack) <= share + 1e-9
    assert np.mean(values > found + slack) <= 1 - share + 1e-9


def test_as_many_trials_lie_below_as_the_quantile_says() -> None:
    law = made("c + a * x")
    fit = fit_quantile(law.law, trials_of({"x": X}, noisy(2)), 0.9, variables=law.variables)
    below = sum(point.residual < -1e-9 for point in fit.points)
    on = sum(abs(point.residual) <= 1e-9 for point in fit.points)
    assert below <= 0.9 * len(X) <= below + on
    assert on >= 2
    assert (fit.method, fit.quantile) == (Method.QUANTILE, 0.9)
    truth = 1 + 2.0 * 4 + 0.5 * 3.8897  # the 90 % quantile of gamma(2, 1)
    at_four = next(point for point in fit.points if point.levels["x"] == 4)
    assert at_four.low < truth < at_four.high


@pytest.mark.parametrize(
    ("share", "parameters", "needed"), [(0.95, 1, 72), (0.05, 2, 144), (0.99, 3, 1104), (0.5, 1, 6), (0.5, 4, 24)]
)
def test_how_many_trials_a_quantile_takes(share: float, parameters: int, needed: int) -> None:
    """Below them not even the largest of all trials is above it as surely as asked."""
    assert fewest_trials(share, parameters, 0.95) == needed
    each = needed // parameters
    tail = max(share, 1 - share)
    assert tail**each <= 0.025 < tail ** (each - 1)


def test_too_few_trials_are_refused_with_how_many_it_takes() -> None:
    law = made("c + a * x")
    with pytest.raises(
        NotIdentified, match=r"160 valid trials cannot tell the 99 % quantile of y: .* it takes 736"
    ):
        fit_quantile(law.law, trials_of({"x": X}, noisy()), 0.99, variables=law.variables)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit_quantile(law.law, trials_of({"x": X}, noisy()), 99, variables=law.variables)


def test_of_a_law_under_a_logarithmic_link_it_is_that_of_the_logarithm() -> None:
    observed = np.exp(0.5 + 0.2 * X) * np.random.default_rng(3).gamma(4, 0.25, len(X))
    linked = made("c + a * x", link=Link.LOG, method=Method.QUANTILE, quantile=0.9)
    found = solve(linked.task({"x": X}, observed))
    rows = np.column_stack([np.ones(len(X)), X])
    assert found.values == pytest.approx(regression_quantile(rows, np.log(observed), 0.9), abs=0.1)
    loss = [check_loss(observed - np.exp(rows @ (found.values + move)), 0.9) for move in np.eye(2) * 1e-3]
    assert min(loss) >= check_loss(observed - found.mean, 0.9)


def test_of_a_curved_law_no_step_makes_it_better() -> None:
    rng = np.random.default_rng(3)
    observed = 1 + 5 * (1 - np.exp(-0.4 * X)) + rng.gamma(2, 0.2, len(X))
    law = made("c + a * (1 - exp(-k * x))", method=Method.QUANTILE, quantile=0.5)
    found = solve(law.task({"x": X}, observed))
    best = check_loss(observed - found.mean, 0.5)
    for direction in rng.normal(size=(50, 3)):
        moved = law.law.mean(found.values * (1 + 1e-3 * direction), {"x": X})
        assert check_loss(observed - moved, 0.5) >= best - 1e-9


def test_bounds_are_kept() -> None:
    law = made("c + a * x", bounds={"c": Bounds(high=1.5)}, method=Method.QUANTILE, quantile=0.9)
    fit = fit_law(law.law, trials_of({"x": X}, noisy()), variables=law.variables)
    assert fit.values[0] == pytest.approx(1.5)
    assert fit.at_bound == ("c",)
    assert fit.finding(Check.BOUND) is not None


def test_means_are_not_tested_where_a_quantile_was_fitted() -> None:
    law = made("c + a * x")
    fit = fit_quantile(law.law, trials_of({"x": X}, noisy()), 0.9, variables=law.variables)
    assert fit.lack_of_fit is None
    assert "quantile" in fit.lack_of_fit_reason
    assert {finding.check for finding in fit.findings} == {Check.LEVERAGE, Check.COLLINEARITY}


@pytest.mark.parametrize(("n", "share"), [(100, 0.5), (400, 0.9), (2000, 0.01)])
def test_the_distance_to_the_quantiles_beside_it_is_statsmodels(n: int, share: float) -> None:
    from statsmodels.regression import quantile_regression

    assert hall_sheather(n, share) == pytest.approx(quantile_regression.hall_sheather(n, share))
