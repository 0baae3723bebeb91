"""What the page says of the question, whatever kind it is, and of how the run ended."""

from __future__ import annotations

import re
from html import unescape

import pytest

from insitu.orchestrator.report.goal_section import goal_section
from insitu.orchestrator.report.page import render_report
from insitu.orchestrator.report.plots import plot_data
from insitu.orchestrator.report.summary import Standing, Summary
from tests.report.scenes import (
    finished_summary,
    invalid_summary,
    narrowed_summary,
    ranking_summary,
    rejected_summary,
    simulated_summary,
)


def text_of(summary: Summary) -> str:
    """The page without its scripts, as words."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", render_report(summary), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_an_effect() -> None:
    summary = narrowed_summary()
    section = goal_section(summary)
    assert section is not None
    assert section.question == "How much does cores change runtime, to ± 0.1 % with 95 % confidence?"
    (row,) = section.rows
    assert row.name == "cores from 1 core to 0.2 core"
    assert row.value.endswith(" ms")
    assert row.standing is Standing.WARNING
    assert section.narrowed
    text = text_of(summary)
    assert "Budget used up The budget of trials is used up: known to ± " in text
    assert "Run the plan again with a larger budget , or ask for less precision" in text
    assert "runtime follows from cores directly." in text


def test_the_looks_are_those_of_the_run() -> None:
    summary = narrowed_summary()
    drawn = plot_data(summary)["narrowing"]
    assert isinstance(drawn, dict)
    assert drawn["asked"] == pytest.approx(0.1)
    assert drawn["x"] == [look.trials for look in summary.looks]
    assert summary.answer is not None
    assert drawn["worst"][-1] == pytest.approx(100 * summary.answer.half_width)


def test_a_ranking_is_told_from_the_largest() -> None:
    section = goal_section(ranking_summary())
    assert section is not None
    assert [row.name.split()[0] for row in section.rows] == ["cores", "size", "disk_kind"]
    assert all(not row.value.startswith("-") for row in section.rows)
    assert section.rows[2].name == "disk_kind from ssd to hdd"
    assert "relative to the largest" in " ".join(section.notes)


def test_predictions_at_several_places() -> None:
    places = "[{cores: 0.5, disk_kind: hdd, size: 16 MB}, {cores: 1.0, disk_kind: ssd, size: 32 MB}]"
    summary = simulated_summary(f"{{prediction: runtime, at: {places}, relative_half_width: 0.05}}")
    assert re.fullmatch(r"runtime is 1\.\d+ s to 1\.\d+ s at the 2 places", summary.headline)
    section = goal_section(summary)
    assert section is not None
    assert {row.name for row in section.rows} == {
        "disk_kind = hdd, size = 16 MB and cores = 0.5 core",
        "disk_kind = ssd, size = 32 MB and cores = 1 core",
    }
    assert all(row.standing is Standing.GOOD for row in section.rows)


def test_parameters_have_the_units_of_the_model() -> None:
    section = goal_section(simulated_summary("{parameters: runtime, relative_half_width: 0.5}"))
    assert section is not None
    assert [row.name for row in section.rows] == ["c", "seek", "b"]
    assert section.rows[2].value.endswith(" core*s/MB")


def test_a_goal_without_a_precision_is_neither_reached_nor_missed() -> None:
    summary = finished_summary()
    section = goal_section(summary)
    assert section is not None
    assert section.rows[0].standing is Standing.GOOD
    page = text_of(summary)
    assert "How much does cpu_cores change runtime, to ± 10 % with 95 % confidence?" in page


def test_a_run_without_any_valid_trial_says_why_it_has_no_answer() -> None:
    text = text_of(invalid_summary())
    assert "Stalled No trial of the last 3 batches could be fitted" in text
    assert "There is no answer: 0 valid trials are too few" in text
    assert "cores: 30 % above what was asked" in text


def test_a_law_that_is_rejected_is_said_at_the_top_and_among_the_checks() -> None:
    text = text_of(rejected_summary())
    assert "Model rejected The law misses the means of replicates by " in text
    assert text.count("The law misses more than replicates differ among themselves") == 1


def test_trials_say_what_they_are_for_and_every_check_what_it_found() -> None:
    summary = narrowed_summary()
    page = render_report(summary)
    for purpose in ("informing", "control", "replicate"):
        assert f'data-sort="{purpose}"' in page
    fit = summary.analysis.fit
    assert fit is not None
    text = text_of(summary)
    assert all(" ".join(finding.sentence.split()) in text for finding in fit.findings)
    assert 'data-sort="informing"' not in render_report(finished_summary())
