"""The published example of Ernest, by another program, from its seven trials.

Source: https://github.com/amplab/ernest, examples/rcv1-parsed.csv and examples/mllib_rcv1.md (Apache License
2.0); the law is equation 1 of Venkataraman, Yang, Franklin, Recht and Stoica, *Ernest: Efficient Performance
Prediction for Large-Scale Advanced Analytics*, NSDI 2016. What it calls machines is a number of cores.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.fitting.bounded import BoundedFit, Side, fit_bounded
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.solution import t_quantile
from insitu.orchestrator.plan.loading import load_model
from tests.standins import exact, trial_of

MODEL = Path(__file__).parents[2] / "configs/models/ernest.yaml"
MACHINES = (32, 4, 4, 12, 12, 12, 16)
INPUT_SHARE = (0.125, 0.015625, 0.021382, 0.050164, 0.055921, 0.061678, 0.061678)
TIME_S = (
    7.94516801834,
    4.72029209137,
    4.87661099434,
    6.71376490593,
    6.71519398689,
    6.6739718914,
    6.83566999435,
)
PREDICTED_S = {4: 44.6515640166, 8: 25.4777295249, 12: 19.36348049, 16: 16.4412832993, 20: 14.7682298198}
"""As its documentation prints them, for the whole input."""


@pytest.fixture(scope="module")
def blueprint() -> Blueprint:
    return build_blueprint(load_model(MODEL, settable={}))


def row_at(blueprint: Blueprint, machines: float, scale: float = 1.0) -> npt.NDArray[np.float64]:
    return blueprint.laws["runtime"].design_row({"machines": machines, "scale": scale})


@pytest.fixture(scope="module")
def fit(blueprint: Blueprint) -> BoundedFit:
    law = blueprint.laws["runtime"]
    levels = {"machines": np.array(MACHINES, dtype=float), "scale": np.array(INPUT_SHARE)}
    triangle = Triangle.empty(4).with_rows(law.design_matrix(levels), np.array(TIME_S))
    low = np.array([law.bounds[name].low for name in law.parameters])
    high = np.array([law.bounds[name].high for name in law.parameters])
    return fit_bounded(triangle, low, high, law.parameters, law.variable)


def test_parameters_are_those_of_non_negative_least_squares(fit: BoundedFit) -> None:
    assert fit.names == ("theta0", "theta1", "theta2", "theta3")
    assert fit.values == pytest.approx([1.90012687, 162.19821226, 1.58832362, 0.0], abs=5e-9)
    assert fit.sides == (Side.FREE, Side.FREE, Side.FREE, Side.LOW)
    assert fit.at_bound == ("theta3",)


def test_predictions_are_those_it_prints(fit: BoundedFit, blueprint: Blueprint) -> None:
    for machines, seconds in PREDICTED_S.items():
        assert fit.mean(row_at(blueprint, machines)).value == pytest.approx(seconds, abs=1e-8)


def test_the_interval_at_four_machines_says_how_little_seven_trials_know(
    fit: BoundedFit, blueprint: Blueprint
) -> None:
    """Three parameters are free, so four degrees of freedom are left: t is 2.776."""
    assert fit.df == 4
    for answer in (fit.mean(row_at(blueprint, 4)), fit.new_trial(row_at(blueprint, 4))):
        assert answer.settled.low == pytest.approx(-21.6, abs=0.05)
        assert answer.settled.high == pytest.approx(110.9, abs=0.05)
    answer = fit.mean(row_at(blueprint, 4))
    assert answer.possible.low == 0
    assert answer.impossible_part == "below 0"
    assert (answer.guarded.low, answer.guarded.high) == pytest.approx((0.0, 107.97), abs=0.005)
    assert not answer.contradicted


def test_the_settled_interval_is_that_of_ordinary_least_squares_on_what_is_left(
    fit: BoundedFit, blueprint: Blueprint
) -> None:
    import statsmodels.api as sm

    rows = [row_at(blueprint, *levels) for levels in zip(MACHINES, INPUT_SHARE, strict=True)]
    left = sm.OLS(np.array(TIME_S), np.array(rows)[:, :3]).fit()
    for machines in (4, 8, 16):
        table = left.get_prediction(row_at(blueprint, machines)[None, :3]).summary_frame(alpha=0.05)
        mean, new = fit.mean(row_at(blueprint, machines)), fit.new_trial(row_at(blueprint, machines))
        assert (mean.settled.low, mean.settled.high) == pytest.approx(
            (table["mean_ci_lower"][0], table["mean_ci_upper"][0]), rel=1e-9
        )
        assert (new.settled.low, new.settled.high) == pytest.approx(
            (table["obs_ci_lower"][0], table["obs_ci_upper"][0]), rel=1e-9
        )


def test_trials_of_a_run_give_the_same_law_and_interval(fit: BoundedFit, blueprint: Blueprint) -> None:
    trials = [
        trial_of(number, (exact("machines", machines), exact("scale", share)), {"wall_time": time_s})
        for number, (machines, share, time_s) in enumerate(
            zip(MACHINES, INPUT_SHARE, TIME_S, strict=True), start=1
        )
    ]
    found = fit_law(blueprint.laws["runtime"], trials, variables=blueprint.variables)
    assert found.at_bound == ("theta3",)
    assert found.values == pytest.approx(fit.values, rel=1e-6)
    row = row_at(blueprint, 4)
    half = t_quantile(0.95, found.df) * float(np.sqrt(row @ found.covariance_matrix @ row))
    assert row @ found.values - half == pytest.approx(-21.6, abs=0.05)
    assert row @ found.values + half == pytest.approx(110.9, abs=0.05)
