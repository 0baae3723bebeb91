"""Answers through a law of which a parameter stands at its bound say so, on the seven trials of `test_ernest`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.target import target_of
from insitu.orchestrator.estimation.answer import answer
from insitu.orchestrator.estimation.questions import asking
from insitu.orchestrator.estimation.questions.abduction import find_trial
from insitu.orchestrator.estimation.questions.counterfactual import counterfactual
from insitu.orchestrator.estimation.questions.explanation import explain
from insitu.orchestrator.estimation.questions.fidelity import Fidelity, Grade
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.plan.goals import ParametersGoal
from insitu.orchestrator.plan.loading import load_model
from insitu.orchestrator.store.records import StoredTrial
from tests.estimation.chains import fitted
from tests.standins import exact, trial_of
from tests.statistics.test_ernest import INPUT_SHARE, MACHINES, MODEL, TIME_S

HERE = {"machines": 12.0, "scale": 0.055}
Ask = Callable[[FittedModel, tuple[StoredTrial, ...], np.random.Generator], Fidelity | None]


@pytest.fixture(scope="module")
def trials() -> tuple[StoredTrial, ...]:
    return tuple(
        trial_of(number, (exact("machines", machines), exact("scale", share)), {"wall_time": time_s})
        for number, (machines, share, time_s) in enumerate(
            zip(MACHINES, INPUT_SHARE, TIME_S, strict=True), start=1
        )
    )


@pytest.fixture(scope="module")
def model(trials: tuple[StoredTrial, ...]) -> FittedModel:
    return fitted(build_blueprint(load_model(MODEL, settable={})), trials)


def test_the_prediction_of_ernest_is_answered_with_its_interval_and_marked(model: FittedModel) -> None:
    answer = asking.whatif(
        model, "runtime", {"machines": 4.0, "scale": 1.0}, np.random.default_rng(1), extrapolate=True
    )
    assert (answer.mean_low, answer.mean_high) == pytest.approx((-21.6, 110.9), abs=0.05)
    assert answer.fidelity is not None
    assert answer.fidelity.grade is Grade.POOR
    assert any("scale = 1" in why for why in answer.fidelity.why)
    assert any(why.startswith("theta3 stands at its bound, 0 s, which") for why in answer.fidelity.why)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, trials, rng: asking.whatif(model, "runtime", HERE, rng).fidelity,
        lambda model, trials, rng: (
            asking.effect(model, "machines", "runtime", rng, low=12.0, high=16.0, at={"scale": 0.06}).fidelity
        ),
        lambda model, trials, rng: asking.elasticity(model, "scale", "runtime", HERE, rng).fidelity,
        lambda model, trials, rng: (
            counterfactual(
                model, find_trial(model, trials, 4, "runtime"), "runtime", {"scale": 0.06}, rng
            ).fidelity
        ),
        lambda model, trials, rng: (
            explain(model, find_trial(model, trials, 4, "runtime"), trials, "runtime", rng, against=HERE).fidelity
        ),
    ],
    ids=["whatif", "effect", "elasticity", "counterfactual", "explain"],
)
def test_every_answer_says_that_a_parameter_stands_at_its_bound(
    model: FittedModel, trials: tuple[StoredTrial, ...], ask: Ask
) -> None:
    assert model.laws["runtime"].fit.at_bound == ("theta3",)
    found = ask(model, trials, np.random.default_rng(1))
    assert found is not None
    assert found.grade is not Grade.GOOD
    (why,) = (one for one in found.why if "bound" in one)
    estimate = next(one for one in model.laws["runtime"].fit.estimates if one.name == "theta3")
    assert estimate.reported_high > 0
    assert why == (
        "theta3 stands at its bound, 0 s, which this interval takes for known; "
        f"by its own interval it may be {estimate.reported_high:.3g} s"
    )


def test_the_answer_to_a_goal_of_all_parameters_keeps_to_their_bounds(model: FittedModel) -> None:
    fit = model.laws["runtime"].fit
    target = target_of(ParametersGoal(outcome="runtime"), model.blueprint, ())
    found = {part.wanted.name: part for part in answer(target, {"runtime": fit}, 0.95, 1.4).parts}
    estimates = {one.name: one for one in fit.estimates}
    for name, part in found.items():
        assert part.value == pytest.approx(estimates[name].reported)
        assert 0 <= part.low <= part.value <= part.high
    assert found["theta0"].low == 0, "plain, it would reach below"
    assert found["theta3"].high == pytest.approx(1.4 * estimates["theta3"].reported_high)
    assert math.isinf(found["theta3"].relative_half_width), "nothing is precise in relation to zero"
