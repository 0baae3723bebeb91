"""Why a trial was slow: contributions that add up, to variables that differ and to what laws do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.questions.abduction import find_trial
from insitu.orchestrator.estimation.questions.explanation import Explanation, Part, explain
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.slowness import beyond_law
from insitu.orchestrator.estimation.suspects.blame import SLOW_SHARE
from insitu.orchestrator.estimation.suspects.usual import Reading, compare
from insitu.orchestrator.report.explanations import explanation_text
from insitu.orchestrator.store.records import StoredTrial
from tests.estimation.chains import CHAIN, blueprint_of, chain_trials, fitted

SLOW, EXTRA_S = 7, 0.8


@pytest.fixture(scope="module")
def trials() -> tuple[StoredTrial, ...]:
    return chain_trials(np.random.default_rng(5), 60, noise_s=0.01, work_noise_s=0.01, extra={SLOW: EXTRA_S})


@pytest.fixture(scope="module")
def model(trials: tuple[StoredTrial, ...], tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    return fitted(blueprint_of(CHAIN, tmp_path_factory.mktemp("chain")), trials)


def why(model: FittedModel, trials: tuple[StoredTrial, ...], number: int, **options: object) -> Explanation:
    found = find_trial(model, trials, number, "runtime")
    return explain(model, found, trials, "runtime", np.random.default_rng(1), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("exact_up_to", [10, 1])
def test_contributions_add_up_exactly(
    model: FittedModel, trials: tuple[StoredTrial, ...], exact_up_to: int
) -> None:
    for number in range(1, 13):
        answer = why(model, trials, number, exact_up_to=exact_up_to)
        total = sum(one.amount for one in answer.contributions)
        assert total == pytest.approx(answer.observed - answer.expected, abs=1e-9)
        assert total == pytest.approx(answer.difference, abs=1e-9)
        sizes = [abs(one.amount) for one in answer.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert answer.exact is (exact_up_to == 10 or len(sizes) == 1)


def test_each_variable_gets_what_it_did(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    answer = why(model, trials, SLOW)
    parts = {one.variable: one for one in answer.contributions}
    assert parts["runtime"].part is Part.UNEXPLAINED
    assert parts["runtime"].amount == pytest.approx(EXTRA_S, abs=0.1)
    assert parts["runtime"].low < parts["runtime"].amount < parts["runtime"].high
    assert parts["work"].part is Part.BEYOND_LAW
    levels = {name for name, one in parts.items() if one.part is Part.LEVEL}
    assert levels <= {"size", "rate", "cores"}
    for name in levels:
        assert parts[name].usual == answer.baseline[name] != parts[name].level
        assert parts[name].sampling_error == 0


def test_a_baseline_trial_differs_by_its_noise_alone(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    answer = why(model, trials, next(one.planned.trial for one in trials if one.planned.baseline))
    assert {one.part for one in answer.contributions} == {Part.BEYOND_LAW, Part.UNEXPLAINED}
    assert abs(answer.difference) < 0.1


def test_effects_that_meet_are_shared_evenly(tmp_path: Path) -> None:
    """Two of three variables multiply each other: each gets half of what only both together do."""
    text = CHAIN.replace("c + a * size / rate + b * work / cores", "c + a * size / rate")
    trials = chain_trials(np.random.default_rng(2), 60, noise_s=1e-9, work_noise_s=0.01)
    exact = []
    for one in trials:
        assert one.record is not None
        levels = {level.variable: float(level.achieved or 0) for level in one.record.levels}
        runtime = 0.1 + levels["size"] / levels["rate"] + 1e-9 * np.random.default_rng(one.planned.trial).normal()
        exact.append(
            replace(one, record=replace(one.record, measurements={"wall_time": runtime, "cpu_time": 1.0}))
        )
    model = fitted(blueprint_of(text, tmp_path), tuple(exact))
    number = next(
        one.planned.trial
        for one in exact
        if one.planned.assignment.as_dict()["size"] == 16e6 and not one.planned.baseline
    )
    answer = why(model, tuple(exact), number)
    here = {one.variable: one for one in answer.contributions}
    rate, usual = here["rate"].level, 1e9
    both = 16e6 / rate - 8e6 / usual
    alone_size, alone_rate = 8e6 / usual, 8e6 / rate - 8e6 / usual
    meet = both - alone_size - alone_rate
    assert here["size"].amount == pytest.approx(alone_size + meet / 2, rel=1e-4)
    assert here["rate"].amount == pytest.approx(alone_rate + meet / 2, rel=1e-4)


def test_other_levels_can_stand_in_for_the_baseline(model: FittedModel, trials: tuple[StoredTrial, ...]) -> None:
    levels = find_trial(model, trials, SLOW, "runtime").levels
    same = {name: levels[name] for name in ("size", "rate", "cores")}
    answer = why(model, trials, SLOW, against=same)
    assert {one.variable for one in answer.contributions} == {"work", "runtime"}
    assert answer.contributions[0].variable == "runtime"
    assert answer.baseline == same


def test_without_a_baseline_the_question_says_what_to_give(tmp_path: Path) -> None:
    trials = tuple(one for one in chain_trials(np.random.default_rng(3), 60) if not one.planned.baseline)
    model = fitted(blueprint_of(CHAIN, tmp_path), trials)
    with pytest.raises(InputError, match="no trial without intervention says where it stands"):
        why(model, trials, 1)
    answer = why(model, trials, 1, against={"size": 8e6, "rate": 2e7, "cores": 0.9})
    assert sum(one.amount for one in answer.contributions) == pytest.approx(answer.difference)


def test_what_was_not_measured_on_the_way_is_unexplained(
    model: FittedModel, trials: tuple[StoredTrial, ...]
) -> None:
    trial = trials[SLOW - 1]
    assert trial.record is not None
    runtime = trial.record.measurements["wall_time"]
    blind = replace(trial, record=replace(trial.record, measurements={"wall_time": runtime}))
    answer = why(model, (blind, *trials[SLOW:]), SLOW)
    assert answer.unmeasured == ("work",)
    assert answer.observed == runtime
    assert sum(one.amount for one in answer.contributions) == pytest.approx(runtime - answer.expected, abs=1e-9)


def crowded(trial: StoredTrial, factor: float, *, busy: bool) -> StoredTrial:
    """The trial with another runtime, and with others computing beside it or not."""
    assert trial.record is not None
    measured = dict(trial.record.measurements)
    measured["wall_time"] *= factor
    measured |= {"cpu_pressure": 0.6 if busy else 0.01, "io_pressure": 0.0}
    host = {"other_cores": 1.5 if busy else 0.02, "kernel_cores": 0.05, "held_bytes": 5e9 if busy else 1e9}
    return replace(trial, record=replace(trial.record, measurements=measured, host=host))


def test_a_trial_that_its_law_expects_to_be_so_slow_has_no_suspects(tmp_path: Path) -> None:
    """Others computed beside it, and took nothing from it that the law could miss."""
    calm = [crowded(one, 1.0, busy=False) for one in chain_trials(np.random.default_rng(6), 60, noise_s=0.01)]
    found = blueprint_of(CHAIN, tmp_path)
    for factor, blamed in ((1.4, True), (0.9, False)):
        trials = (*calm[:6], crowded(calm[6], factor, busy=True), *calm[7:])
        answer = why(fitted(found, trials), trials, 7)
        assert answer.compared
        assert bool(answer.suspects) is blamed


def test_a_measurement_that_tells_two_symptoms_is_told_once(tmp_path: Path) -> None:
    calm = [crowded(one, 1.0, busy=False) for one in chain_trials(np.random.default_rng(6), 60, noise_s=0.01)]
    trials = (*calm[:6], crowded(calm[6], 1.4, busy=True), *calm[7:])
    answer = why(fitted(blueprint_of(CHAIN, tmp_path), trials), trials, 7)
    both = next(one for one in answer.suspects if len({sign.text for sign in one.signs}) < len(one.signs))
    text = explanation_text(replace(answer, suspects=(both,)))
    assert text.count("all processes of the host held") == 1


def test_the_law_decides_where_what_is_usual_errs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Were all that is usual a tenth of what it is, a trial as its law expects it would still not be accused."""
    monkeypatch.setattr("insitu.orchestrator.estimation.questions.explanation.compare", a_tenth)
    calm = [crowded(one, 1.0, busy=False) for one in chain_trials(np.random.default_rng(6), 60, noise_s=0.01)]
    model = fitted(blueprint_of(CHAIN, tmp_path), tuple(calm))
    numbers = range(1, 13)
    slow = [beyond_law(model, "runtime", calm[number - 1], calm) for number in numbers]
    accused = [bool(why(model, tuple(calm), number).suspects) for number in numbers]
    assert any(one < SLOW_SHARE for one in slow)
    assert not any(blamed for blamed, share in zip(accused, slow, strict=True) if share < SLOW_SHARE)


def a_tenth(trial: StoredTrial, others: Sequence[StoredTrial]) -> dict[str, Reading]:
    found = compare(trial, others)
    return {name: replace(one, usual=one.usual / 10, score=30.0) for name, one in found.items()}


def test_too_few_trials_like_it_are_said_to_be_so(tmp_path: Path) -> None:
    trials = [crowded(one, 1.0, busy=False) for one in chain_trials(np.random.default_rng(6), 30)]
    baseline = next(one for one in trials if one.planned.baseline)
    kept = tuple(one for one in trials if one is baseline or not one.planned.baseline)
    model = fitted(blueprint_of(CHAIN, tmp_path), kept)
    answer = why(model, kept, baseline.planned.trial)
    assert (answer.suspects, answer.odd, answer.compared) == ((), (), False)
    assert "what is usual at its levels is not known" in explanation_text(answer)
