"""Answers through a law of which a parameter stands at its bound say so, on the seven trials of `test_ernest`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.target import target_of
from insitu.orchestrator.estimation.answer import answer
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.questions import asking
from insitu.orchestrator.estimation.questions.abduction import find_trial
from insitu.orchestrator.estimation.questions.counterfactual import counterfactual
from insitu.orchestrator.estimation.questions.explanation import explain
from insitu.orchestrator.estimation.questions.fidelity import Fidelity, Grade
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.plan.goals import ParametersGoal
from insitu.orchestrator.plan.law_kinds import Bounds
from insitu.orchestrator.plan.loading import load_model
from insitu.orchestrator.store.records import StoredTrial
from tests.estimation.chains import fitted
from tests.estimation.made import made, trials_of
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


X = np.tile([1.0, 2.0, 3.0, 4.0], 6)


@pytest.mark.parametrize("text", ["c + a * x", "c + a * x^k"], ids=["linear", "curved"])
def test_a_bound_that_the_trials_exclude_is_said_to_contradict_them(text: str) -> None:
    """Nothing takes a second here, and the model has it that everything does."""
    bounds = {"c": Bounds(low=1.0), "k": Bounds(low=0.5, high=2.0)}
    law = made(text, bounds={name: one for name, one in bounds.items() if name in text})
    observed = 0.05 + 0.1 * X + np.random.default_rng(3).normal(0, 0.02, len(X))
    fit = fit_law(law.law, trials_of({"x": X}, observed), variables=law.variables)
    assert "c" in fit.at_bound
    assert fit.r_squared < 0
    (said,) = (one.sentence for one in fit.findings if one.check is Check.BOUND)
    assert "The trials contradict that: by themselves they say c = " in said
    assert fit.lack_of_fit is not None
    assert fit.lack_of_fit.significant
    assert "A term in" not in (fit.missing_term.sentence if fit.missing_term else "")


def test_a_bound_that_the_truth_stands_at_is_no_contradiction_and_no_lack_of_fit() -> None:
    law = made("c + a * x", bounds={"c": Bounds(low=0.0)})
    rng = np.random.default_rng(3)
    stopped, contradicted, lacking = 0, 0, 0
    for _ in range(200):
        trials = trials_of({"x": X}, 0.1 * X + rng.normal(0, 0.02, len(X)))
        fit = fit_law(law.law, trials, variables=law.variables)
        stopped += fit.at_bound == ("c",)
        contradicted += any("contradict" in one.sentence for one in fit.findings)
        lacking += fit.lack_of_fit is not None and fit.lack_of_fit.significant
    assert 70 < stopped < 130
    assert contradicted <= 5
    assert lacking <= 20
