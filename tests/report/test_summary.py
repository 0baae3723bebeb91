from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from insitu.orchestrator.errors import OutsideSupport
from insitu.orchestrator.estimation.analysis import analyse
from insitu.orchestrator.estimation.questions.queries import effect, whatif
from insitu.orchestrator.report.answers import effect_conditions, effect_text, prediction_text
from insitu.orchestrator.report.document import run_document
from insitu.orchestrator.report.page import render_report
from insitu.orchestrator.report.summary import Standing, Summary, summarise
from insitu.orchestrator.report.terminal import print_summary
from insitu.orchestrator.report.wording import interval, number, scaled_interval
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial, TrialRecord, TrialState
from tests.report.scenes import (
    GOAL,
    META,
    bent_summary,
    empty_summary,
    finished_summary,
    finished_trials,
    hostile_summary,
    running_summary,
)
from tests.standins import SORT, SORT_LAW, sort_trials


def printed(summary: Summary) -> str:
    console = Console(width=160, record=True, file=io.StringIO(), color_system=None)
    print_summary(summary, console)
    return console.export_text()


def standings(summary: Summary) -> dict[str, Standing]:
    return {reason.title: reason.standing for reason in summary.reasons}


def test_a_finished_run_is_answered_in_words() -> None:
    summary = finished_summary()
    assert summary.status == "complete"
    assert summary.headline.startswith("Taking cpu_cores from 0.9 core to 0.3 core adds 5")
    assert "95 % confidence interval" in summary.conditions
    assert "at input_size = 4 MB and disk_read_rate = 1.5 GB/s" in summary.conditions
    assert standings(summary)["No lack of fit"] is Standing.GOOD
    assert standings(summary)["Precision reached"] is Standing.GOOD
    assert standings(summary)["Trials"] is Standing.WARNING


def test_levels_are_summed_up_per_variable() -> None:
    levels = {level.variable: level for level in finished_summary().levels}
    assert set(levels) == {"cpu_cores", "disk_read_rate"}
    cpu = levels["cpu_cores"]
    assert cpu.verdicts == {"held": 25, "missed": 1, "unset": 2}
    assert cpu.worst == pytest.approx(0.082)
    assert cpu.worst_held is not None
    assert abs(cpu.worst_held) < 0.03
    disk = levels["disk_read_rate"]
    assert disk.verdicts["slack"] == 2
    assert (disk.least_slack, disk.most_slack) == pytest.approx((0.97 * 6e6, 0.97 * 20e6))
    assert (cpu.least_slack, cpu.most_slack) == (None, None)


def recorded(trial: StoredTrial) -> TrialRecord:
    assert trial.record is not None
    return trial.record


def test_levels_that_cannot_be_told_are_counted_and_how_well_the_others_are_known_is_said() -> None:
    trials = list(finished_trials())
    place = next(i for i, one in enumerate(trials) if one.state is TrialState.INVALID)
    record = recorded(trials[place])
    untold = tuple(
        replace(level, achieved=None, uncertainty=20.0) if level.verdict is LevelVerdict.MISSED else level
        for level in record.levels
    )
    trials[place] = replace(trials[place], record=replace(record, levels=untold))
    place = next(i for i, one in enumerate(trials) if not one.planned.baseline and one.state is TrialState.VALID)
    record = recorded(trials[place])
    known = tuple(replace(level, uncertainty=0.4 * level.requested) for level in record.levels)
    trials[place] = replace(trials[place], record=replace(record, levels=known))
    summary = summarise(SORT, trials, analyse(SORT, trials, GOAL), META, tolerance=0.03)
    cpu = next(level for level in summary.levels if level.variable == "cpu_cores")
    assert cpu.untold == 1
    assert cpu.widest_held == pytest.approx(0.4)
    (levels,) = [reason for reason in summary.reasons if reason.title == "Levels"]
    assert levels.standing is Standing.WARNING
    assert "1 missed; 1 bound too briefly to tell; levels that were held are at most" in levels.text
    lead = render_report(summary).partition("the band is the tolerance of ")[2].partition("</p>")[0]
    assert lead.startswith("3 %, and what the samples of a trial cannot resolve")
    assert "up to 40 % of a level that was held" in lead


def test_what_was_used_under_a_cap_that_never_bound_is_not_called_achieved() -> None:
    summary = finished_summary()
    assert "2 slack (used 5.82 MB/s to 19.4 MB/s)" in " ".join(printed(summary).split())
    document = json.loads(json.dumps(run_document(summary)))
    slack = [
        level for trial in document["trials"] for level in trial.get("levels", ()) if level["verdict"] == "slack"
    ]
    assert [level["deviation"] for level in slack] == [None, None]


def test_the_terminal_shows_law_estimates_levels_and_spoilt_trials() -> None:
    text = printed(finished_summary())
    for part in (
        "runtime = c + a * input_size / disk_read_rate + b * input_size / cpu_cores",
        "core*s/GB",
        "[59.0, 61.4]",
        "cgroup1.cpu.cfs",
        "25 held, 1 missed, 2 unset",
        "+8.2 %",
        "cpu_cores missed its level",
        "exit status 2",
    ):
        assert part in text


def test_a_missing_term_is_said_plainly() -> None:
    text = printed(bent_summary())
    assert "The law does not fit" in text
    assert "A term in 1 / cpu_cores is missing from the law" in text


def test_runs_without_a_fit_say_why() -> None:
    empty, running = printed(empty_summary()), printed(running_summary())
    assert "No trial has finished yet" in empty
    assert "3 valid trials are too few" in running
    assert "23 still to come" in running
    assert running_summary().status == "executing"


def test_a_goal_that_was_not_reached_is_a_warning() -> None:
    goal = replace(GOAL, relative_half_width=0.001)
    summary = finished_summary()
    assert standings(summary).get("Precision not reached") is None
    strict = summarise(SORT, summary.trials, summary.analysis, {}, goal, answer=summary.answer)
    assert standings(strict)["Precision not reached"] is Standing.WARNING


def test_markup_in_names_is_not_taken_as_rich_markup() -> None:
    summary = replace(finished_summary(), headline="[bold]x[/bold] [/]")
    assert "[bold]x[/bold] [/]" in printed(summary)
    assert "<script>" in printed(hostile_summary())


@pytest.mark.parametrize(
    "summary", [finished_summary, bent_summary, running_summary, empty_summary, hostile_summary]
)
def test_the_document_is_strict_json(summary: Callable[[], Summary]) -> None:
    document = json.loads(json.dumps(run_document(summary()), allow_nan=False))
    assert (document["format"], document["version"]) == ("insitu-run", 1)
    assert len(document["trials"]) == sum(document["states"].values())


def test_the_document_spells_infinity() -> None:
    document = json.loads(json.dumps(run_document(finished_summary())))
    baselines = [trial for trial in document["trials"] if trial["baseline"]]
    assert baselines[0]["assignment"]["cpu_cores"] == "inf"
    assert document["effect"]["cause"] == "cpu_cores"
    assert [e["name"] for e in document["fit"]["estimates"]] == ["c", "a", "b"]


def test_predictions_in_words() -> None:
    fit = analyse(SORT, sort_trials(np.random.default_rng(1)), GOAL).fit
    assert fit is not None
    text = prediction_text(whatif(fit, SORT_LAW, {"cpu_cores": 0.4}))
    first, second = text.splitlines()
    assert first.startswith("runtime = 6")
    assert "at cpu_cores = 0.4 core (95 % prediction interval of one trial)" in first
    assert "at the baseline: input_size = 4 MB and disk_read_rate = 1.5 GB/s" in second
    with pytest.raises(OutsideSupport):
        whatif(fit, SORT_LAW, {"cpu_cores": 0.2})
    flagged = prediction_text(whatif(fit, SORT_LAW, {"cpu_cores": 0.2}, extrapolate=True))
    assert "EXTRAPOLATED: cpu_cores = 0.2 core is outside the trials" in flagged


def test_effects_are_told_in_the_direction_of_growth() -> None:
    fit = analyse(SORT, sort_trials(np.random.default_rng(1)), GOAL).fit
    assert fit is not None
    down, up = (effect(fit, SORT_LAW, "cpu_cores", *ends) for ends in ((0.9, 0.3), (0.3, 0.9)))
    assert effect_text(down) == effect_text(up)
    assert effect_text(up).startswith("Taking cpu_cores from 0.9 core to 0.3 core adds")
    assert effect_conditions(up) == effect_conditions(down)


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (1.23456, 0.0123, "1.235"),
        (123.456, 12.3, "123"),
        (0.5, 0.25, "0.50"),
        (2.5e-9, 1e-10, "2.5e-09"),
        (3.14159, 0.0, "3.142"),
        (float("inf"), 1.0, "inf"),
        (-0.001, 0.36, "0.00"),
        (-0.5, 0.25, "-0.50"),
    ],
)
def test_numbers_carry_the_digits_that_their_uncertainty_allows(value: float, half: float, text: str) -> None:
    assert number(value, half) == text


def test_intervals_share_one_unit() -> None:
    assert scaled_interval(0.95, 0.9, 1.01, "s") == "950 ms [900, 1010]"
    assert scaled_interval(2.5e7, 2.4e7, 2.6e7, "B/s") == "25.0 MB/s [24.0, 26.0]"
    assert interval(1.0, 0.5, 1.5, "") == "1.00 [0.50, 1.50]"
