"""What the terminal shows of a goal: each look while trials run, the answer and the ending when they have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insitu.orchestrator import experiment
from insitu.orchestrator.cli.app import app
from insitu.orchestrator.cli.progress import progress
from tests import plans, simulated_runs

BUDGET = simulated_runs.with_goal("{effect: cores -> runtime, relative_half_width: 0.001}").replace(
    "trials: 60", "trials: 14"
)
WIDTH = 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def shown(run: Path) -> list[str]:
    result = CliRunner().invoke(app, ["show", str(run)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_each_look_is_a_line_among_those_of_the_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded, blueprint = experiment.read(plans.write(tmp_path / "look", BUDGET, simulated_runs.MODEL))
    with progress(simulated_runs.prepared(loaded, blueprint), quiet=False) as watcher:
        simulated_runs.execute(tmp_path, BUDGET, watcher=watcher)
    lines = capsys.readouterr().err.splitlines()
    looks = [number for number, line in enumerate(lines) if line.startswith("known to ± ")]
    assert lines[0] == "8 trials before the first look"
    assert looks == [9, 12, 15]
    assert lines[9].endswith(" after 8 valid trials; 2 more")
    assert lines[1].startswith("   1/8    0.")
    assert any(line.endswith("disk_kind hdd, size 32 MB") for line in lines)
    assert sum(line.endswith(" (replicate)") for line in lines) == 1
    assert not any("\x1b" in line for line in lines)


def test_show_says_how_it_ended_and_what_to_do_next(tmp_path: Path) -> None:
    lines = shown(simulated_runs.execute(tmp_path, BUDGET))
    text = " ".join(" ".join(lines).split())
    assert "Budget used up: the budget of trials is used up: known to ± " in text
    assert "next: run the plan again with a larger `budget`, or ask for less precision" in text
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in text


def test_show_lists_each_number_of_an_answer_with_several(tmp_path: Path) -> None:
    plan = simulated_runs.with_goal("{causes: runtime, relative_half_width: 0.1}")
    lines = shown(simulated_runs.execute(tmp_path, plan))
    heading = lines.index(next(line for line in lines if line.startswith("What changes runtime most, to ± 10 %")))
    assert lines[heading + 1].split() == ["cause", "estimate", "interval", "half", "width"]
    assert [line.split()[0] for line in lines[heading + 2 : heading + 5]] == ["cores", "size", "disk_kind"]
    assert "disk_kind from ssd to hdd" in lines[heading + 4]
    assert max(map(len, lines)) <= WIDTH


def test_check_writes_categories_as_words(tmp_path: Path) -> None:
    plan = plans.write(tmp_path / "plan", simulated_runs.PLAN, simulated_runs.MODEL)
    result = CliRunner().invoke(app, ["check", str(plan), "--out", str(tmp_path / "runs")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if re.match(r" +\d+ +1 ", line)]
    assert len(rows) == 8
    assert {"ssd", "hdd"} == {word for row in rows for word in row if word in ("ssd", "hdd", "0", "1.0")}
