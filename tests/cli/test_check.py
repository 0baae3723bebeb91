"""What ``insitu check`` shows of a design before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insitu.orchestrator.cli.app import app
from tests import plans
from tests.steering.test_kinds import execute, of_kind

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU_STATE", str(tmp_path / "state"))


def checked(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["check", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_fixed_design_says_how_precisely_it_answers(tmp_path: Path) -> None:
    run = execute(tmp_path, of_kind("c_optimal", ", trials: 12"))
    plan, out = str(tmp_path / "plan" / "plan.yaml"), str(tmp_path / "runs")
    text = checked(plan, "--out", out)
    assert "12 trials, chosen among 45 so that what the goal asks for becomes as precise as possible" in text
    assert "with a spread of 1 s between like trials (for instance), standard errors are c " in text
    assert "or more of what it could (D-efficiency)" in text
    assert "half width of the 95% interval of the effect of cores: " in text
    like = checked(plan, "--out", out, "--like", str(run.directory))
    assert "between like trials (as it was)" in like
    assert "about " in like.splitlines()[0]


def test_the_same_as_a_document(tmp_path: Path) -> None:
    run = execute(tmp_path, of_kind("d_optimal", ", trials: 12"))
    plan, out = str(tmp_path / "plan" / "plan.yaml"), str(tmp_path / "runs")
    document = json.loads(checked(plan, "--out", out, "--like", str(run.directory), "--json"))
    assert len(document["trials"]) == 14
    assert len(document["design"]) == 2
    preview = document["preview"]
    assert preview["noise_is_known"] is True
    assert set(preview["laws"][0]["standard_errors"]) == {"a", "b", "c"}
    assert 0.5 < preview["d_efficiency"] <= 1
    assert document["expected_s"] > 0


def test_a_sequential_course_like_an_earlier_run(tmp_path: Path) -> None:
    run = execute(tmp_path, of_kind("sequential", goal=", relative_half_width: 0.1"))
    plan, out = str(tmp_path / "plan" / "plan.yaml"), str(tmp_path / "runs")
    assert "in units of one trial's spread" in checked(plan, "--out", out)
    like = checked(plan, "--out", out, "--like", str(run.directory))
    assert "in units of one trial's spread" not in like
    assert "of what the goal asks for (as it was): after" in like


SEQUENTIAL = "goal: {effect: cpu_cores -> runtime, relative_half_width: 0.1}"


def of(folder: Path, plan: str, model: str = plans.MODEL) -> tuple[str, ...]:
    return str(plans.write(folder / "plan", plan, model)), "--out", str(folder / "runs")


@pytest.mark.parametrize("kind", ["sequential", "factorial", "d_optimal, trials: 9"])
def test_an_effect_up_to_what_the_machine_gives_is_not_foreseen(tmp_path: Path, kind: str) -> None:
    plan = plans.PLAN.replace("[0.4 core, 0.8 core]", "[0.4 core]").replace("factorial, replicates: 2", kind)
    text = checked(*of(tmp_path, plan))
    assert "half width" not in text
    assert "of cpu_cores becomes known is not foreseen" in text or "the answer becomes is not foreseen" in text
    assert "cpu_cores has the one level 0.4 core" in text
    assert "1 warning; " in text


def test_a_number_is_foreseen_although_a_parameter_that_it_does_not_need_is_not_told(tmp_path: Path) -> None:
    model = plans.MODEL.replace("  runtime: {", "  load: {unit: '', set_by: anomaly.cpu}\n  runtime: {")
    plan = plans.PLAN.replace("kind: factorial, replicates: 2, ", "")
    plan = plan.replace("goal: {effect: cpu_cores -> runtime, confidence: 0.95}", SEQUENTIAL)
    told = checked(*of(tmp_path, plan, model.replace("c + b", "c + d * load + b")))
    assert "half width of the interval" in told
    assert "10% of what the goal asks for: after" in told
