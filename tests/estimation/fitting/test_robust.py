"""Huber's estimate: against statsmodels, and in the shapes that it does not have."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.robust import huber_weights, median_scale
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Bounds, Method, Noise
from tests.estimation.made import made, trials_of

X = np.tile([1.0, 2.0, 4.0, 7.0], 6)


def disturbed(seed: int = 1) -> np.ndarray:
    observed = 2 + 3 * X + np.random.default_rng(seed).normal(0, 0.2, 24)
    observed[[3, 10]] += 30
    return observed


def test_values_and_errors_are_statsmodels() -> None:
    from statsmodels.api import RLM
    from statsmodels.robust.norms import HuberT

    found = solve(made("c + a * x", method=Method.ROBUST).task({"x": X}, disturbed()))
    theirs = RLM(disturbed(), np.column_stack([np.ones(24), X]), M=HuberT()).fit(maxiter=200, tol=1e-12)
    assert found.values == pytest.approx(theirs.params, rel=1e-7)
    assert found.standard_errors == pytest.approx(theirs.bse, rel=1e-6)
    # of the residuals; ours allows for the two degrees of freedom that the parameters took
    assert found.sigma == pytest.approx(theirs.scale * np.sqrt(24 / 22), rel=1e-6)


def test_two_disturbed_trials_move_it_little_and_are_named() -> None:
    law = made("c + a * x", method=Method.ROBUST)
    fit = fit_law(law.law, trials_of({"x": X}, disturbed()), variables=law.variables)
    clean = fit_law(
        law.law,
        trials_of({"x": X}, np.where(disturbed() > 2 + 3 * X + 20, disturbed() - 30, disturbed())),
        variables=law.variables,
    )
    moved = (fit.values - clean.values) / np.sqrt(np.diag(clean.covariance_matrix))
    assert np.abs(moved).max() < 1
    finding = fit.finding(Check.OUTLIERS)
    assert finding is not None
    assert finding.trials == (4, 11)
    assert fit.method is Method.ROBUST
    assert fit.sigma < 0.4
    plain = made("c + a * x")
    usual = fit_law(plain.law, trials_of({"x": X}, disturbed()), variables=plain.variables)
    assert usual.sigma > 5


def test_a_law_that_is_only_written_as_if_it_were_curved_gives_the_same() -> None:
    straight = solve(made("c + a * x", method=Method.ROBUST).task({"x": X}, disturbed()))
    curved = solve(made("c + exp(log_a) * x", method=Method.ROBUST).task({"x": X}, disturbed()))
    assert curved.values == pytest.approx([straight.values[0], np.log(straight.values[1])], rel=1e-5)
    assert curved.sigma == pytest.approx(straight.sigma, rel=1e-5)
    assert curved.standard_errors[0] == pytest.approx(straight.standard_errors[0], rel=1e-4)


def test_relative_noise_is_robust_in_relative_residuals() -> None:
    rng = np.random.default_rng(6)
    observed = (2 + 3 * X) * rng.gamma(400, 1 / 400, 24)
    observed[5] *= 4
    found = solve(made("c + a * x", noise=Noise.GAMMA, method=Method.ROBUST).task({"x": X}, observed))
    usual = solve(made("c + a * x", noise=Noise.GAMMA).task({"x": X}, observed))
    assert np.abs(found.values - [2, 3]).max() < 0.25
    assert found.sigma < 0.1
    assert usual.sigma > 0.4


def test_bounds_are_kept() -> None:
    law = made("c + a * x", method=Method.ROBUST, bounds={"c": Bounds(low=2.5)})
    found = solve(law.task({"x": X}, disturbed()))
    assert found.values[0] == 2.5
    assert found.at_bound == ("c",)


def test_more_than_half_of_the_trials_exactly_on_the_law_leave_no_scale() -> None:
    observed = 2 + 3 * X
    observed[0] = 50
    found = solve(made("c + a * x", method=Method.ROBUST).task({"x": X}, observed))
    assert found.method is Method.ROBUST
    assert found.values == pytest.approx([2, 3], abs=0.5)


def test_weights_and_scale() -> None:
    assert huber_weights(np.array([-1.345, 0, 2.69])) == pytest.approx([1, 1, 0.5])
    assert median_scale(np.random.default_rng(1).normal(0, 2, 200_001)) == pytest.approx(2, rel=0.01)
