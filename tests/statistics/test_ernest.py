"""The published example of Ernest, by another program, from its seven trials.

Source: https://github.com/amplab/ernest, examples/rcv1-parsed.csv and examples/mllib_rcv1.md (Apache License
2.0); the law is equation 1 of Venkataraman, Yang, Franklin, Recht and Stoica, *Ernest: Efficient Performance
Prediction for Large-Scale Advanced Analytics*, NSDI 2016. What it calls machines is a number of cores.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import Law, build_blueprint
from insitu.orchestrator.estimation.bounded import BoundedFit, Side, fit_bounded
from insitu.orchestrator.estimation.triangle import Triangle
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable

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

TEXT = "theta0 + theta1 * (share / machines) + theta2 * log(machines) + theta3 * machines"


def ernest_law() -> Law:
    variables = [
        Variable("machines", "", Role.PARAMETER),
        Variable("share", "", Role.PARAMETER),
        Variable("time", "s", Role.MEASURED, "wall_time"),
    ]
    model = ModelText(Path("model.yaml"), {one.name: one for one in variables}, (LawText("time", TEXT, 1, 1),), ())
    return build_blueprint(model).laws["time"]


def row_at(machines: float, share: float = 1.0) -> np.ndarray:
    return ernest_law().design_row({"machines": machines, "share": share})


@pytest.fixture(scope="module")
def fit() -> BoundedFit:
    law = ernest_law()
    levels = {"machines": np.array(MACHINES, dtype=float), "share": np.array(INPUT_SHARE)}
    triangle = Triangle.empty(4).with_rows(law.design_matrix(levels), np.array(TIME_S))
    return fit_bounded(triangle, np.zeros(4), np.full(4, np.inf), law.parameters, law.variable)


def test_parameters_are_those_of_non_negative_least_squares(fit: BoundedFit) -> None:
    assert fit.names == ("theta0", "theta1", "theta2", "theta3")
    assert fit.values == pytest.approx([1.90012687, 162.19821226, 1.58832362, 0.0], abs=5e-9)
    assert fit.sides == (Side.FREE, Side.FREE, Side.FREE, Side.LOW)
    assert fit.at_bound == ("theta3",)


def test_predictions_are_those_it_prints(fit: BoundedFit) -> None:
    for machines, seconds in PREDICTED_S.items():
        assert fit.mean(row_at(machines)).value == pytest.approx(seconds, abs=1e-8)


def test_the_interval_at_four_machines_says_how_little_seven_trials_know(fit: BoundedFit) -> None:
    """Three parameters are free, so four degrees of freedom are left: t is 2.776."""
    assert fit.df == 4
    for answer in (fit.mean(row_at(4)), fit.new_trial(row_at(4))):
        assert answer.settled.low == pytest.approx(-21.6, abs=0.05)
        assert answer.settled.high == pytest.approx(110.9, abs=0.05)
    answer = fit.mean(row_at(4))
    assert answer.possible.low == 0
    assert answer.impossible_part == "below 0"
    assert (answer.guarded.low, answer.guarded.high) == pytest.approx((0.0, 107.97), abs=0.005)
    assert not answer.contradicted


def test_the_settled_interval_is_that_of_ordinary_least_squares_on_what_is_left(fit: BoundedFit) -> None:
    import statsmodels.api as sm

    levels = {"machines": np.array(MACHINES, dtype=float), "share": np.array(INPUT_SHARE)}
    left = sm.OLS(np.array(TIME_S), ernest_law().design_matrix(levels)[:, :3]).fit()
    for machines in (4, 8, 16):
        table = left.get_prediction(row_at(machines)[None, :3]).summary_frame(alpha=0.05)
        mean, new = fit.mean(row_at(machines)), fit.new_trial(row_at(machines))
        assert (mean.settled.low, mean.settled.high) == pytest.approx(
            (table["mean_ci_lower"][0], table["mean_ci_upper"][0]), rel=1e-9
        )
        assert (new.settled.low, new.settled.high) == pytest.approx(
            (table["obs_ci_lower"][0], table["obs_ci_upper"][0]), rel=1e-9
        )
