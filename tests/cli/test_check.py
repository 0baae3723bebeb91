"""What ``insitu check`` shows of a design before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insitu.orchestrator.cli.app import app
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
