"""Trials from which little can be learnt: each has its message, by the commands as a user calls them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from insitu.orchestrator.cli.app import app
from insitu.orchestrator.errors import InputError, InsituError, NotIdentified
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial, TrialState
from tests.estimation.chains import throttle, trial_of
from tests.made_runs import make_run

MODEL = """\
variables:
  size: {unit: B, role: parameter}
  cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + b * size / cores
"""
PLAN = """\
name: bad
subject: {command: ["true", "{size}"]}
model: model.yaml
factors:
  cores: {levels: [0.4, 0.8]}
  size: {levels: [2 MB, 4 MB]}
goal: {effect: cores -> runtime}
design: {kind: factorial, replicates: 2}
"""
QUESTIONS = (
    ("whatif", "--do", "cores=0.5"),
    ("effect", "cores"),
    ("elasticity", "cores", "--at", "cores=0.5"),
    ("counterfactual", "--trial", "1", "--do", "cores=0.8"),
    ("explain", "--trial", "1"),
)
TRUTH_S, PER_BYTE = 0.1, 4e-8


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")


def line(size: float, cores: float) -> float:
    return TRUTH_S + PER_BYTE * size / cores


def trials(
    count: int = 24,
    wall_s: Callable[[int, float], float] = lambda number, usual: usual,
    *,
    sizes: Sequence[float] = (2e6, 4e6),
    cores: Sequence[float] = (0.4, 0.8),
    state: TrialState = TrialState.VALID,
) -> list[StoredTrial]:
    """Every sixth is a baseline; `wall_s` makes of its number and the usual time what a trial measured."""
    rng = np.random.default_rng(3)
    found = []
    for number in range(1, count + 1):
        baseline = number % 6 == 0 and len(sizes) > 1
        size = sizes[0] if baseline else sizes[number % len(sizes)]
        asked = math.inf if baseline else cores[number // 2 % len(cores)]
        used = 0.95 if baseline else asked
        levels = (
            LevelRecord("size", size, size, 1.0, 0.0, LevelVerdict.EXACT, "argument", "B"),
            throttle("cores", asked, used, "core"),
        )
        measured = {"wall_time": wall_s(number, line(size, used) + rng.normal(0, 0.01))}
        reasons = () if state is TrialState.VALID else ("the disk was busy",)
        found.append(trial_of(number, levels, measured, baseline=baseline, state=state, reasons=reasons))
    return found


def insitu(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stderr == "", "a warning of a library reached the user"
    return result.stdout


def refused(run: Path, *question: str) -> InsituError:
    with pytest.raises(InsituError) as caught:
        insitu(question[0], run, *question[1:])
    return caught.value


def shown(run: Path) -> str:
    """What `show` and `report` make of a run; both must manage with any data."""
    insitu("report", run)
    assert "</html>" in (run / "report.html").read_text()
    return insitu("show", run)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: str(one[0]))
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trials(2), "2 valid trials are too few for the 2 parameters of runtime and their intervals"),
        (trials(1), "1 valid trial is too few for the 2 parameters"),
        (trials(state=TrialState.INVALID), "0 valid trials are too few"),
        (
            trials(wall_s=lambda number, usual: usual * 1e300),
            "0 of 24 valid trials can be fitted, which is too few",
        ),
        (
            trials(wall_s=lambda number, usual: usual * 1e-300),
            "0 of 24 valid trials can be fitted, which is too few",
        ),
        (trials(sizes=[2e6], cores=[0.4]), "the trials cannot tell c and b apart in the law of runtime"),
    ],
    ids=["two", "one", "all invalid", "huge", "tiny", "repeated"],
)
def test_too_little_to_fit_a_law(
    tmp_path: Path, question: Sequence[str], made: list[StoredTrial], message: str
) -> None:
    run = make_run(tmp_path / "run", made, PLAN, MODEL)
    error = refused(run, *question)
    assert isinstance(error, NotIdentified)
    assert error.message.startswith(message)
    assert error.hint
    if question[0] == "whatif":
        assert f"No answer: {message}" in shown(run)


def test_a_run_without_a_trial(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [], PLAN, MODEL)
    assert "No trial has finished yet" in shown(run)
    assert isinstance(refused(run, *QUESTIONS[0]), NotIdentified)
    error = refused(run, *QUESTIONS[-1])
    assert (error.message, error.hint) == ("there is no trial 1", "the run has no trials yet")


@pytest.mark.parametrize(("value", "word"), [(math.nan, "not a number"), (math.inf, "infinite")])
def test_a_measurement_that_is_no_number_is_left_out_and_named(tmp_path: Path, value: float, word: str) -> None:
    run = make_run(tmp_path / "run", trials(wall_s=lambda n, usual: value if n == 3 else usual), PLAN, MODEL)
    assert f"Trial 3 (wall_time is {word}) was valid, but could not be fitted" in shown(run)
    assert "runtime = " in insitu("whatif", run, "--do", "cores=0.5")
    error = refused(run, "explain", "--trial", "3")
    assert isinstance(error, InputError)
    assert error.message.startswith("runtime was not measured in trial 3")


def test_an_outcome_that_never_changes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", trials(wall_s=lambda number, usual: 1.0), PLAN, MODEL)
    text = shown(run)
    assert "The outcome runtime is 1 s in every trial, so there is no noise to judge the law by" in text
    assert "nan" not in text
    for command, *rest in QUESTIONS:
        answer = insitu(command, run, *rest)
        assert "fidelity poor" in answer
        assert "runtime was the same in every trial, so its interval knows of no noise" in answer


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e90])
def test_very_large_and_very_small_numbers_are_as_good_as_others(tmp_path: Path, scale: float) -> None:
    run = make_run(tmp_path / "run", trials(wall_s=lambda number, usual: usual * scale), PLAN, MODEL)
    usual = make_run(tmp_path / "usual", trials(), PLAN, MODEL)
    for command, *rest in QUESTIONS[2:3]:
        assert (
            insitu(command, run, *rest).split("; runtime is")[0]
            == insitu(command, usual, *rest).split("; runt")[0]
        )
    assert "R² = 0.99" in shown(run)


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        (
            "effect: cores -> runtime, at: {size: 100 MB}",
            "size = 100 MB is outside the trials, which have 2 MB to 4 MB",
        ),
        ("effect: cores -> runtime, between: [0.1, 0.8]", "cores = 0.1 core is outside the trials"),
        ("prediction: runtime, at: {size: 100 MB}", "size = 100 MB is outside the trials"),
    ],
)
def test_a_goal_beyond_the_trials_is_answered_and_marked(tmp_path: Path, goal: str, reason: str) -> None:
    made = make_run(tmp_path / "run", trials(), PLAN.replace("effect: cores -> runtime", goal), MODEL)
    assert f"The answer is extrapolated: {reason}" in insitu("show", made)
    inside = make_run(tmp_path / "inside", trials(), PLAN, MODEL)
    assert "extrapolated" not in shown(inside)


def test_a_law_without_a_value_at_some_levels(tmp_path: Path) -> None:
    model = MODEL.replace("b * size / cores", "b * log(size / block - 0.9) / cores") + "constants: {block: 3 MB}\n"
    run = make_run(tmp_path / "run", trials(), PLAN, model)
    assert "Trial 2 (the law is not finite at its levels)" in shown(run)
    nowhere = make_run(tmp_path / "nowhere", trials(), PLAN, model.replace("0.9", "9"))
    error = refused(nowhere, *QUESTIONS[0])
    assert error.message.startswith("0 of 24 valid trials can be fitted")
    assert "such as trial 1: the law is not finite at its levels" in (error.hint or "")


def test_a_model_that_was_changed_since_is_what_is_fitted_now(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", trials(), PLAN, MODEL)
    (run / "model.yaml").write_text(MODEL.replace("c + b", "c + d * size + b"))
    assert "runtime = c + d * size + b * size / cores" in shown(run)
    (run / "model.yaml").write_text(MODEL.replace("c + b", "c + size + b"))
    assert refused(run, "show").message.startswith(f"{run}/model.yaml:6:")
