"""What each check says of a fit that is right, and of one in which the thing it looks for is wrong."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.patterns import added_columns, chance_of_so_few_runs, dummies
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.law_kinds import Method, Noise
from tests.estimation.made import Made, made, trials_of

X = np.tile([1.0, 2.0, 4.0, 7.0], 8)
LINE = made("c + a * x")
NOISE = np.random.default_rng(12).normal(0, 0.5, 32)
GOOD = 2 + 3 * X + NOISE


def fitted(observed: np.ndarray, law: Made = LINE, x: np.ndarray = X, **more: Any) -> Fit:
    return fit_law(law.law, trials_of({"x": x}, observed, **more), variables=law.variables)


def finding(fit: Fit, check: Check) -> Finding:
    found = fit.finding(check)
    assert found is not None
    return found


def test_of_a_good_fit_every_check_speaks_and_none_is_notable() -> None:
    fit = fitted(GOOD, nodes=["a", "b"] * 16, blocks=[1, 2, 3, 4] * 8, uncertainty={"x": 0.001})
    assert [one.check for one in fit.findings] == [
        Check.LEVERAGE,
        Check.INFLUENCE,
        Check.PATTERN,
        Check.DRIFT,
        Check.BLOCKS,
        Check.NODES,
        Check.SPREAD,
        Check.SHAPE,
        Check.LACK_OF_FIT,
        Check.COLLINEARITY,
        Check.LEVEL_ERRORS,
    ]
    assert fit.notable == ()
    for one in fit.findings:
        assert one.sentence[0].isupper()
        assert one.sentence.endswith(".")
        assert one.sentence.count(". ") == 0  # one sentence


def test_a_trial_that_alone_decides_a_part_is_named() -> None:
    x = np.array([*X[:12], 40.0])
    fit = fitted(2 + 3 * x + NOISE[:13], x=x)
    found = finding(fit, Check.LEVERAGE)
    assert found.notable
    assert found.trials == (13,)
    assert "decides a part of the law almost alone" in found.sentence


def test_an_outlier_is_named_with_what_it_moves() -> None:
    observed = GOOD.copy()
    observed[7] += 6
    fit = fitted(observed)
    found = finding(fit, Check.INFLUENCE)
    assert found.notable
    assert 8 in found.trials
    without = fitted(np.delete(observed, 7), x=np.delete(X, 7))
    moves = np.abs(without.values - fit.values) / np.sqrt(np.diag(fit.covariance_matrix))
    most = int(np.argmax(moves))
    way = "higher" if without.values[most] > fit.values[most] else "lower"
    share = 100 * abs(without.values[most] / fit.values[most] - 1)
    assert (
        f"without trial 8, {fit.parameters[most]} would be {share:.2g} % {way} ({moves[most]:.1f} of"
        in found.sentence
    )


def test_studentised_residuals_and_cooks_distance_are_those_of_refits() -> None:
    observed = GOOD[:12].copy()
    observed[4] += 1
    fit = fitted(observed, x=X[:12])
    for index, point in enumerate(fit.points):
        kept = np.arange(12) != index
        other = fitted(observed[kept], x=X[:12][kept])
        error = other.sigma * np.sqrt(1 - point.leverage)
        assert point.studentised == pytest.approx(point.residual / error)
        moved = np.column_stack([np.ones(12), X[:12]]) @ (fit.values - other.values)
        assert point.cooks_distance == pytest.approx(moved @ moved / 2 / fit.sigma**2)


def test_a_law_of_the_wrong_shape_is_seen_along_the_fitted_values() -> None:
    x = np.linspace(1, 9, 32)
    found = finding(fitted(x**2 + NOISE, x=x), Check.PATTERN)
    assert found.notable
    assert "the wrong shape" in found.sentence


def test_runs_are_counted_as_every_order_says() -> None:
    above, below = 4, 5
    orders = [np.isin(np.arange(9), chosen) for chosen in combinations(range(9), above)]
    runs = np.array([1 + int((order[1:] != order[:-1]).sum()) for order in orders])
    for count in range(2, 10):
        assert chance_of_so_few_runs(above, below, count) == pytest.approx(np.mean(runs <= count))


def test_many_runs_follow_the_normal_approximation() -> None:
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(4000):
        order = rng.permutation(120) < 50
        drawn.append(1 + int((order[1:] != order[:-1]).sum()))
    assert chance_of_so_few_runs(50, 70, 50) == pytest.approx(np.mean(np.array(drawn) <= 50), abs=0.02)


def test_drift_is_told_with_its_size() -> None:
    found = finding(fitted(GOOD + np.linspace(0, 3, 32)), Check.DRIFT)
    assert found.notable
    assert found.p_value is not None
    assert found.p_value < 1e-6
    size = float(found.sentence.split("larger by ")[1].split()[0])
    assert size == pytest.approx(3, abs=0.6)


def test_blocks_and_nodes_that_differ_are_told() -> None:
    four = np.repeat([1, 2, 3, 4], 8)
    found = finding(fitted(GOOD + 2 * (four == 2), blocks=four.tolist()), Check.BLOCKS)
    assert found.notable
    assert "compare trials within a block" in found.sentence
    first_half = np.arange(32) % 8 < 4
    shifted = fitted(GOOD + 2 * first_half, nodes=["a" if one else "b" for one in first_half])
    found = finding(shifted, Check.NODES)
    assert found.notable
    assert "`fit: mixed` or `fit: clustered`" in found.sentence


def test_methods_that_allow_for_nodes_do_not_test_them() -> None:
    nodes = [f"n{number % 6}" for number in range(32)]
    for method in (Method.CLUSTERED, Method.MIXED):
        fit = fitted(GOOD, made("c + a * x", method=method), nodes=nodes)
        assert fit.method is method
        assert fit.finding(Check.NODES) is None


def test_noise_that_grows_with_the_outcome_is_told_with_the_remedy() -> None:
    observed = (2 + 3 * X) * np.exp(0.4 * NOISE)
    found = finding(fitted(observed), Check.SPREAD)
    assert found.notable
    assert "`noise: gamma`" in found.sentence
    assert not finding(fitted(observed, made("c + a * x", noise=Noise.GAMMA)), Check.SPREAD).notable


@pytest.mark.parametrize("noise", list(Noise))
def test_noise_of_the_laws_own_shape_is_not_notable(noise: Noise) -> None:
    rng = np.random.default_rng(4)
    mean = np.tile(2 + 3 * X, 10)
    observed = {
        Noise.NORMAL: mean + rng.normal(0, 1, 320),
        Noise.GAMMA: rng.gamma(4, mean / 4),
        Noise.LOGNORMAL: mean * np.exp(rng.normal(0, 0.7, 320)),
    }[noise]
    fit = fitted(observed, made("c + a * x", noise=noise), x=np.tile(X, 10))
    assert not finding(fit, Check.SHAPE).notable
    other = made("c + a * x", noise=Noise.GAMMA if noise is Noise.LOGNORMAL else Noise.LOGNORMAL)
    if noise is not Noise.NORMAL:
        assert finding(fitted(observed, other, x=np.tile(X, 10)), Check.SHAPE).notable


def test_noise_with_heavy_tails_is_told_with_the_remedy() -> None:
    observed = 2 + 3 * X + np.random.default_rng(3).standard_cauchy(32)
    found = finding(fitted(observed), Check.SHAPE)
    assert found.notable
    assert "`fit: robust`" in found.sentence


def test_parameters_that_can_hardly_be_told_apart_are_named() -> None:
    x = np.tile([100.0, 101.0, 102.0, 103.0], 8)
    fit = fitted(2 + 3 * x + NOISE, x=x)
    found = finding(fit, Check.COLLINEARITY)
    assert found.notable
    assert found.parameters == ("c", "a")
    rows = np.column_stack([np.ones(32), x])
    alone = fit.sigma / np.linalg.norm(rows[:, 1])
    assert f"{np.sqrt(fit.covariance[1][1]) / alone:.2g} times as wide" in found.sentence


def test_a_constant_outcome_is_told_and_nothing_else_is_judged() -> None:
    fit = fitted(np.full(32, 2.5))
    found = finding(fit, Check.CONSTANT)
    assert found.notable
    assert found.sentence.startswith("The outcome y is 2.5 in every trial")
    assert {one.check for one in fit.findings} <= {Check.CONSTANT, Check.LEVERAGE, Check.COLLINEARITY}


def test_lack_of_fit_is_told_with_the_missing_term() -> None:
    fit = fitted(2 + 3 * X + 0.5 * X**2 + NOISE)
    found = finding(fit, Check.LACK_OF_FIT)
    assert found.notable
    assert "A term in (x) * (x) is missing" in found.sentence


def test_the_missing_term_of_a_law_under_a_logarithmic_link_is_one_of_the_logarithm() -> None:
    from insitu.orchestrator.plan.law_kinds import Link

    rng = np.random.default_rng(2)
    observed = np.exp(0.1 * X + 0.5 / X) * rng.gamma(400, 1 / 400, 32)
    fit = fitted(observed, made("c + a * x", link=Link.LOG, noise=Noise.GAMMA))
    assert fit.missing_term is not None
    assert fit.missing_term.term == "1 / x"


def test_added_columns_are_the_f_test_of_two_nested_laws() -> None:
    rng = np.random.default_rng(3)
    rows, labels = np.column_stack([np.ones(32), X]), np.repeat([0, 1, 2, 3], 8)
    left = GOOD - rows @ np.linalg.lstsq(rows, GOOD, rcond=None)[0]
    test = added_columns(rows, left, dummies(labels))
    assert test is not None
    from statsmodels.api import OLS

    whole = OLS(GOOD, np.column_stack([X, dummies(labels)])).fit()
    small = OLS(GOOD, rows).fit()
    assert test.p_value == pytest.approx(whole.compare_f_test(small)[1])
    extra = rng.normal(size=(32, 1))
    one = added_columns(rows, left, extra)
    assert one is not None
    assert one.p_value == pytest.approx(OLS(GOOD, np.column_stack([rows, extra])).fit().pvalues[2])
    assert added_columns(rows, left, 2 * rows) is None
