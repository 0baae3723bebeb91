"""What a trial would have been like: its noise stays, and what the question does not touch."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import InputError, OutsideSupport
from insitu.orchestrator.estimation.questions.abduction import FoundTrial, find_trial
from insitu.orchestrator.estimation.questions.counterfactual import Counterfactual, counterfactual
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.store.records import StoredTrial, TrialState
from tests.estimation.chains import CHAIN, NATURAL_CORES, blueprint_of, chain_trials, fitted, runtime_of

SLOW = 7
EXTRA_S = 0.5


@pytest.fixture(scope="module")
def trials() -> tuple[StoredTrial, ...]:
    return chain_trials(np.random.default_rng(5), 120, noise_s=0.01, work_noise_s=0.02, extra={SLOW: EXTRA_S})


@pytest.fixture(scope="module")
def model(trials: tuple[StoredTrial, ...], tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    return fitted(blueprint_of(CHAIN, tmp_path_factory.mktemp("chain")), trials)


def ask(
    model: FittedModel,
    trials: tuple[StoredTrial, ...],
    number: int,
    do: dict[str, float],
    outcome: str = "runtime",
) -> Counterfactual:
    found = find_trial(model, trials, number, outcome)
    return counterfactual(model, found, outcome, do, np.random.default_rng(1))


def test_the_trials_noise_is_kept_through_every_law(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    """Against what the simulation would have given with the same noise."""
    held = 0
    for trial in trials:
        levels = find_trial(model, trials, trial.planned.trial, "runtime").levels
        work_noise = levels["work"] - (0.05 + 4e-8 * levels["size"])
        noise = levels["runtime"] - (0.1 + levels["size"] / levels["rate"] + levels["work"] / levels["cores"])
        work = 0.05 + 4e-8 * 12e6 + work_noise
        truth = 0.1 + 12e6 / levels["rate"] + work / 0.5 + noise
        answer = ask(model, trials, trial.planned.trial, {"size": 12e6, "cores": 0.5})
        assert answer.value == pytest.approx(truth, rel=0.05)
        assert answer.between["work"] == pytest.approx(work, abs=0.01)
        held += answer.low <= truth <= answer.high
    assert held > 0.85 * len(trials)


def test_asked_for_what_was_the_trial_is_as_it_was(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    levels = find_trial(model, trials, SLOW, "runtime").levels
    answer = ask(model, trials, SLOW, {name: levels[name] for name in ("size", "cores", "rate")})
    assert answer.value == pytest.approx(answer.observed, rel=1e-12)
    assert answer.low == pytest.approx(answer.observed, rel=1e-12)
    assert answer.had == answer.changed


def test_one_law_is_answered_by_its_contrast(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    levels = find_trial(model, trials, SLOW, "runtime").levels
    answer = ask(model, trials, SLOW, {"cores": 0.9})
    fit = model.laws["runtime"].fit
    row = np.array([0.0, 0.0, levels["work"] * (1 / 0.9 - 1 / levels["cores"])])
    assert answer.value == pytest.approx(answer.observed + row @ fit.values)
    error = math.sqrt(row @ fit.covariance_matrix @ row)
    assert (answer.high - answer.low) / 2 == pytest.approx(1.981 * error, rel=0.002)
    assert answer.between == {}


def test_relative_noise_is_kept_as_a_ratio(tmp_path: Path, trials: tuple[StoredTrial, ...]) -> None:
    text = CHAIN.replace("work: w0 + w1 * size", "work: {law: w0 + w1 * size, noise: gamma}")
    model = fitted(blueprint_of(text, tmp_path), trials)
    levels = find_trial(model, trials, SLOW, "work").levels
    answer = ask(model, trials, SLOW, {"size": 12e6}, "work")
    law = model.laws["work"]
    mean = [float(law.law.mean(law.fit.values, {"size": np.array([size])})[0]) for size in (levels["size"], 12e6)]
    assert answer.value / mean[1] == pytest.approx(levels["work"] / mean[0])
    assert answer.low < answer.value < answer.high


def test_a_cap_counts_against_what_this_trial_used(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    free = next(one for one in trials if one.planned.baseline)
    assert free.record is not None
    levels = tuple(
        replace(level, achieved=0.9) if level.variable == "cores" else level for level in free.record.levels
    )
    slower = replace(free, record=replace(free.record, levels=levels))
    found = find_trial(model, [slower], free.planned.trial, "runtime")
    answer = counterfactual(model, found, "runtime", {"cores": 1.5}, np.random.default_rng(1))
    assert answer.changed == {"cores": 0.9}
    assert answer.value == pytest.approx(answer.observed)
    assert "a cap of cores at 1.5 core" in answer.slack[0]
    throttled = next(one for one in trials if one.planned.assignment.as_dict()["cores"] == 0.3)
    assert ask(model, trials, throttled.planned.trial, {"cores": math.inf}).changed == {"cores": NATURAL_CORES}


def test_what_was_not_measured_is_taken_as_the_laws_give_it(
    model: FittedModel, trials: tuple[StoredTrial, ...]
) -> None:
    trial = trials[SLOW - 1]
    assert trial.record is not None
    levels = find_trial(model, [trial], SLOW, "runtime").levels
    blind = replace(trial, record=replace(trial.record, measurements={"wall_time": 2.0}))
    found = find_trial(model, [blind], SLOW, "runtime")
    answer = counterfactual(model, found, "runtime", {"size": 12e6}, np.random.default_rng(1))
    change = runtime_of(12e6, levels["rate"], levels["cores"])
    change -= runtime_of(levels["size"], levels["rate"], levels["cores"])
    assert answer.value == pytest.approx(2.0 + change, abs=0.05)
    assert answer.unmeasured == ("work",)
    assert answer.between["work"] == pytest.approx(0.53, rel=0.03)


def test_trials_that_cannot_be_asked_about(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    with pytest.raises(InputError, match="there is no trial 500") as caught:
        find_trial(model, trials, 500, "runtime")
    assert caught.value.hint == "the run has trials 1 to 120"
    trial = trials[3]
    assert trial.record is not None
    failed = replace(trial, state=TrialState.FAILED, record=replace(trial.record, reasons=("exit status 2",)))
    with pytest.raises(InputError, match="trial 4 is failed: exit status 2"):
        find_trial(model, [failed], 4, "runtime")
    with pytest.raises(InputError, match="trial 4 is planned"):
        find_trial(model, [replace(trial, state=TrialState.PLANNED, record=None)], 4, "runtime")
    empty = replace(trial, record=replace(trial.record, measurements={}))
    with pytest.raises(InputError, match="runtime was not measured in trial 4"):
        find_trial(model, [empty], 4, "runtime")
    assert isinstance(find_trial(model, [replace(trial, state=TrialState.INVALID)], 4, "runtime"), FoundTrial)


def test_levels_that_cannot_be_asked_about(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    with pytest.raises(OutsideSupport, match="size = 40 MB is outside"):
        ask(model, trials, SLOW, {"size": 40e6})
    with pytest.raises(InputError, match="runtime is what is asked for"):
        ask(model, trials, SLOW, {"runtime": 1.0})
    with pytest.raises(InputError, match="cores has no effect on work"):
        ask(model, trials, SLOW, {"cores": 0.6}, "work")
