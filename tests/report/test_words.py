"""Categories are read as their words, wherever a level is shown."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from insitu.orchestrator.cli import results
from insitu.orchestrator.report.goal_section import goal_section
from insitu.orchestrator.report.page import render_report
from insitu.orchestrator.report.plots import plot_data
from insitu.orchestrator.report.summary import Summary
from insitu.orchestrator.report.terminal import print_summary
from tests import simulated_runs

CODE = re.compile(r"disk_kind\W{1,3}(=|from|to)?\W{0,2}\d")
"""The name with a number where its word should be."""


def summary_of(folder: Path, goal: str) -> Summary:
    return results.summary_of(simulated_runs.execute(folder, simulated_runs.with_goal(goal)))


def test_of_an_effect(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "{effect: disk_kind -> runtime, relative_half_width: 0.1}")
    assert summary.headline.startswith("Taking disk_kind from ssd to hdd adds ")


def test_of_a_prediction(tmp_path: Path) -> None:
    place = "{cores: 0.5, disk_kind: hdd, size: 16 MB}"
    summary = summary_of(tmp_path, f"{{prediction: runtime, at: {place}, relative_half_width: 0.05}}")
    assert "disk_kind = hdd" in summary.headline


@pytest.mark.parametrize(
    ("precision", "ending"), [("0.1", "known to ± "), ("0.001", "the budget of trials is used up")]
)
def test_a_widened_interval_is_said_to_be_one_whatever_ended_the_run(
    tmp_path: Path, precision: str, ending: str
) -> None:
    plan = simulated_runs.with_goal(simulated_runs.GOAL.replace("0.1", precision))
    run = simulated_runs.execute(tmp_path, plan.replace("trials: 60", "trials: 16"))
    summary = results.summary_of(run, looks=True)
    section = goal_section(summary)
    assert summary.ending.startswith(ending)
    assert section is not None
    assert ", as for any run that may end early" in summary.conditions
    assert any(
        note.endswith(" wider than plain ones, as for any run that may end early.") for note in section.notes
    )


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summary_of(tmp_path_factory.mktemp("words"), simulated_runs.GOAL)


def test_in_the_terminal(summary: Summary) -> None:
    console = Console(width=80, record=True, file=io.StringIO(), color_system=None)
    print_summary(summary, console)
    text = " ".join(console.export_text().split())
    assert "disk_kind = ssd" in text
    assert not CODE.search(text)


def test_on_the_page_and_in_its_plots(summary: Summary) -> None:
    page = render_report(summary)
    assert 'title="argument">hdd</td>' in page
    drawn = plot_data(summary)
    assert not CODE.search(json.dumps(drawn))
    curves = {curve["variable"]: curve for curve in drawn["curves"]}  # type: ignore[index,union-attr,call-overload]
    assert curves["disk_kind"]["words"] == ["ssd", "hdd"]  # type: ignore[index,call-overload]
    assert curves["disk_kind"]["x"] == [0.0, 1.0]  # type: ignore[index,call-overload]
