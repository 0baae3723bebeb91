"""The Python API: tables in and out, answers that show themselves, and a quick import."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import insitu
from insitu.orchestrator.api.levels import parse_level
from insitu.orchestrator.api.run import Run
from insitu.orchestrator.errors import InputError, OutsideSupport
from insitu.orchestrator.plan.types import Role, Settable, Variable
from insitu.orchestrator.store.records import Assignment, LevelVerdict, StoredTrial, TrialState
from tests.estimation.chains import chain_trials, parameter_trials, runtime_of
from tests.made_runs import CHAIN_PLAN, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    trials = list(chain_trials(np.random.default_rng(9), 48, extra={7: 0.5}))
    last = replace(trials[-1].planned, trial=49)
    trials.append(replace(trials[-1], planned=last, state=TrialState.PLANNED, record=None))
    hostile = trials[2]
    assert hostile.record is not None
    record = replace(hostile.record, state=TrialState.INVALID, reasons=("<script>alert(1)</script>",))
    trials[2] = replace(hostile, state=TrialState.INVALID, record=record)
    return insitu.open_run(make_run(tmp_path_factory.mktemp("api") / "<b>run", trials))


def cell(table: pd.DataFrame, row: object, column: str) -> Any:
    return table.to_dict("index")[row][column]


def test_trials_are_a_table(run: Run) -> None:
    table = run.trials
    assert table.index.name == "trial"
    assert list(table.index) == list(range(1, 50))
    assert cell(table, 3, "state") == "invalid"
    assert cell(table, 49, "state") == "planned"
    assert pd.isna(cell(table, 49, "runtime"))
    assert cell(table, 6, "baseline")
    assert cell(table, 6, "cores") == 0.95
    assert math.isinf(cell(table, 6, "requested.cores"))
    assert cell(table, 6, "runtime") == cell(table, 6, "measured.wall_time")
    assert str(table["started_at"].dt.tz) == "UTC"


def test_fits_and_estimates(run: Run) -> None:
    assert set(run.fits) == {"work", "runtime"}
    table = run.estimates
    assert cell(table, ("runtime", "b"), "low") < 1.0 < cell(table, ("runtime", "b"), "high")
    assert list(table.columns) == ["unit", "estimate", "low", "high", "std_error", "p_value"]


def test_one_question_gives_one_answer(run: Run) -> None:
    answer = run.whatif({"size": "12 MB", "cores": 0.5, "rate": 15e6}, quantiles=[0.9])
    assert answer.mean_low < runtime_of(12e6, 15e6, 0.5) < answer.mean_high
    assert answer.quantiles[0].share == 0.9
    assert repr(answer) == str(answer) == answer.text()
    assert repr(answer).startswith("runtime = ")
    assert run.whatif({"size": 12e6, "cores": "0.5", "rate": "15 MB/s"}, quantiles=[0.9]) == answer
    assert json.dumps(answer.document(), allow_nan=False)


def test_a_table_of_questions_gives_a_table_of_answers(run: Run) -> None:
    questions = pd.DataFrame(
        {"size": [8e6, 12e6, 40e6, 8e6], "cores": [0.6, 0.5, 0.6, math.nan], "rate": ["10 MB/s"] * 3 + [None]},
        index=["a", "b", "c", "d"],
    )
    table = run.whatif(questions, quantiles=[0.95])
    assert list(table.index) == ["a", "b", "c", "d"]
    assert cell(table, "b", "mean") == run.whatif({"size": 12e6, "cores": 0.5, "rate": 1e7}, quantiles=[0.95]).mean
    assert cell(table, "d", "mean") == run.whatif({"size": 8e6}, quantiles=[0.95]).mean
    assert (table["low"] < table["mean"]).sum() == 3
    assert (table["q95_low"] < table["q95"]).sum() == 3
    assert math.isnan(cell(table, "c", "mean"))
    assert "size = 40 MB is outside" in cell(table, "c", "problem")
    assert list(table["problem"] == "") == [True, True, False, True]
    assert cell(table, "a", "fidelity") == "good"
    far = run.whatif(questions, extrapolate=True)
    assert cell(far, "c", "mean") > 1
    assert "size = 40 MB is outside" in cell(far, "c", "extrapolated")


def test_draws_are_a_table(run: Run) -> None:
    table = run.simulate({"size": 12e6, "cores": 0.5, "rate": 15e6}, draws=5000)
    assert table.shape == (5000, 2)
    assert list(table.columns) == ["work", "runtime"]
    assert table["runtime"].mean() == pytest.approx(runtime_of(12e6, 15e6, 0.5), rel=0.05)
    other = run.simulate({"size": 12e6, "cores": 0.5, "rate": 15e6}, draws=5000, rng=np.random.default_rng(99))
    assert not table.equals(other)


def test_the_other_questions(run: Run) -> None:
    effect = run.effect("size", "runtime", low="8 MB", high=16e6, at={"cores": 0.6, "rate": 2e7})
    truth = runtime_of(16e6, 2e7, 0.6) - runtime_of(8e6, 2e7, 0.6)
    assert effect.change_low < truth < effect.change_high
    assert run.effect("cores").outcome == "runtime"
    assert 0 < run.elasticity("size", "work").value < 1
    assert run.counterfactual(7, {"cores": 0.9}).trial == 7
    explained = run.explain(7)
    assert explained.frame["amount"].sum() == pytest.approx(explained.difference)
    assert list(explained.frame["variable"]) == [one.variable for one in explained.contributions]
    assert run.explain(3).state is TrialState.INVALID
    same = run.compare(run)
    assert [law.significant for law in same.laws] == [False, False]
    assert "work has not changed by more than noise" in same._repr_html_()
    assert list(same.frame["name"]) == ["w0", "w1", "c", "a", "b"]
    assert same.document()["not_compared"] == []


def with_slack(trials: Sequence[StoredTrial], name: str, level: float) -> list[StoredTrial]:
    """The same trials, of which those that asked for a level never used as much of it."""
    found = []
    for one in trials:
        assert one.record is not None
        levels = tuple(
            replace(had, achieved=0.97 * level, verdict=LevelVerdict.SLACK)
            if had.variable == name and had.requested == level
            else had
            for had in one.record.levels
        )
        found.append(replace(one, record=replace(one.record, levels=levels)))
    return found


@pytest.mark.parametrize(
    ("goal", "cause", "ends", "size"),
    [
        ("{effect: cores -> runtime}", "cores", (0.3, 0.9), 8e6),
        ("{effect: cores -> runtime, between: [0.6, 0.3]}", "cores", (0.6, 0.3), 8e6),
        ("{effect: cores -> runtime, between: [0.4, unlimited], at: {size: 12 MB}}", "cores", (0.4, 0.95), 12e6),
        ("{effect: rate -> runtime, between: [12 MB/s, 15 MB/s], at: {size: 12 MB}}", "cores", (0.3, 0.9), 8e6),
        ("{effect: cores -> runtime, between: [0.6, 0.3]}", "rate", (1e7, 2e7), 8e6),
        ("{prediction: runtime, at: {size: 12 MB}}", "cores", (0.3, 0.9), 8e6),
    ],
)
def test_an_effect_goes_between_the_levels_of_the_goal_or_those_asked_for(
    tmp_path: Path, goal: str, cause: str, ends: tuple[float, float], size: float
) -> None:
    trials = with_slack(chain_trials(np.random.default_rng(9), 48), "cores", 0.9)
    trials = with_slack(trials, "rate", 2e7)
    plan = CHAIN_PLAN.replace("{effect: cores -> runtime, confidence: 0.95}", goal)
    assert goal in plan
    run = insitu.open_run(make_run(tmp_path / "run", trials, plan))
    answer = run.effect(cause)
    assert (answer.low, answer.high) == pytest.approx(ends)
    assert answer.at["size"] == size
    assert run.answer is not None
    wanted = run.answer.parts[0].wanted
    if wanted.name == cause:
        assert (answer.low, answer.high) == pytest.approx((wanted.low, wanted.high))
        assert answer.change == pytest.approx(run.answer.parts[0].value)
    assert run.effect(cause, low=0.95 * ends[0] + 0.05 * ends[1]).high == pytest.approx(ends[1])


def test_everything_shows_itself_in_a_notebook_with_names_escaped(run: Run) -> None:
    shown: list[Any] = [
        run,
        run.whatif({"cores": 0.6}),
        run.effect("cores"),
        run.elasticity("size"),
        run.counterfactual(7, {"cores": 0.9}),
        run.explain(3),
    ]
    for one in shown:
        html = one._repr_html_()
        assert html.startswith('<div class="insitu"><b>')
        assert "<script" not in html
        assert "/<b>run" not in html
    assert "/&lt;b&gt;run" in run._repr_html_()
    assert repr(run).startswith("Run ")
    assert "49 trials, 47 valid" in repr(run)


def test_mistakes_raise_what_the_commands_print(run: Run, tmp_path: Path) -> None:
    with pytest.raises(OutsideSupport):
        run.whatif({"size": 40e6})
    with pytest.raises(InputError, match="no variable 'cors'"):
        run.whatif({"cors": 1.0})
    with pytest.raises(InputError, match="not a run directory"):
        insitu.open_run(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'open_runs'"):
        insitu.open_runs  # noqa: B018


CATEGORIES = """
variables:
  disk_kind: {role: parameter, categories: [ssd, hdd, tape]}
  size: {unit: B, role: parameter}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + speed[disk_kind] * size
"""
CATEGORIES_PLAN = """\
name: disks
subject: {command: ["true", "{size}", "{disk_kind}"]}
model: model.yaml
factors: {size: {levels: [1 MB, 2 MB]}, disk_kind: {levels: [ssd, hdd, tape]}}
goal: {effect: size -> runtime, confidence: 0.95}
design: {kind: factorial}
"""


def test_categories_are_words_in_and_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    trials = parameter_trials(
        rng,
        [{"size": 1e6 * (1 + number % 2), "disk_kind": float(number % 3 > 0)} for number in range(30)],
        lambda at, rng: {"wall_time": 1 + (3 if at["disk_kind"] else 1) * at["size"] / 1e6 + rng.normal(0, 0.05)},
    )
    run = insitu.open_run(make_run(tmp_path / "run", trials, CATEGORIES_PLAN, CATEGORIES))
    answer = run.whatif({"disk_kind": "hdd", "size": "2 MB"})
    assert answer.mean == pytest.approx(7, abs=0.1)
    assert "disk_kind = hdd" in repr(answer)
    effect = run.effect("disk_kind", low="ssd", high="hdd", at={"size": 2e6})
    assert effect.change_low < 4 < effect.change_high
    assert repr(effect).startswith("Taking disk_kind from ssd to hdd adds ")
    with pytest.raises(OutsideSupport):
        run.whatif({"disk_kind": "tape", "size": 2e6})
    with pytest.raises(InputError, match="disk_kind has no category 'hd'"):
        run.whatif({"disk_kind": "hd"})
    with pytest.raises(InputError, match="cannot grow by one percent"):
        run.elasticity("disk_kind", at={"size": 2e6, "disk_kind": "ssd"})
    assert set(run.trials["disk_kind"]) == {"ssd", "hdd"}
    explained = run.explain(2, against={"disk_kind": "ssd", "size": 1e6})
    assert "hdd, at the baseline ssd" in repr(explained)


def test_levels_are_numbers_quantities_and_words() -> None:
    rate = Variable("rate", "B/s", Role.SET, "disk.read_rate")
    assert parse_level(rate, "20 MB/s") == 2e7
    assert parse_level(rate, "20") == 20.0
    assert parse_level(rate, 2e7) == 2e7
    assert parse_level(rate, "unlimited") == math.inf
    cached = Variable("cached", "fraction", Role.SET, "cache.page", Settable("fraction", None, {"cold": 0.0}))
    assert parse_level(cached, "cold") == 0.0
    assert parse_level(cached, "50 %") == 0.5
    with pytest.raises(InputError, match="rate: '3 s' is s, not B/s"):
        parse_level(rate, "3 s")


def test_importing_takes_nothing_along() -> None:
    """A notebook that only imports it, and every command, pays for no table or fit that it does not use."""
    heavy = ("pandas", "scipy", "statsmodels", "numpy", "ray")
    code = f"import sys, insitu; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STRANGE = [(), (("size", math.inf),), (("size", 1.0), ("other", 2.0)), (("size", math.nan),)]


@pytest.mark.parametrize("levels", STRANGE)
def test_a_run_with_levels_that_its_plan_cannot_have_asked_for_is_refused(
    tmp_path: Path, levels: tuple[tuple[str, float], ...]
) -> None:
    trials = list(chain_trials(np.random.default_rng(9), 4))
    strange = replace(trials[-1].planned, assignment=Assignment(levels))
    trials[-1] = replace(trials[-1], planned=strange, state=TrialState.PLANNED, record=None)
    directory = make_run(tmp_path / "run", trials)
    with pytest.raises(InputError, match="the levels of trial 4 are none of its plan"):
        insitu.open_run(directory)
