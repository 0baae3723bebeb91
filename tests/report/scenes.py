"""Summaries to render: a finished run with some trouble in it, an empty one, and a hostile one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.simulated import Truth
from insitu.orchestrator.causal.target import target_of
from insitu.orchestrator.cli import results
from insitu.orchestrator.estimation.analysis import analyse
from insitu.orchestrator.estimation.answer import Answer, answer
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.types import Factor, Variable
from insitu.orchestrator.report.summary import Summary, summarise
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial, TrialState
from tests import simulated_runs
from tests.standins import SORT, sort_trials

GOAL = EffectGoal(cause="cpu_cores", outcome="runtime", relative_half_width=0.1)
META: dict[str, Json] = {
    "name": "sort-under-throttle",
    "run_id": "2026-11-21-sort-7f3a",
    "created_at": 1.7e9,
    "seed": 7,
    "insitu_version": "0.1.0",
    "schema_version": 1,
    "writer_pid": 4242,
    "node": {"kernel": "6.18.0", "cores": 2, "cgroup": "v1 hybrid"},
    "versions": {"python": "3.11.7", "ray": "2.52.0"},
}


def finished_trials() -> tuple[StoredTrial, ...]:
    """Two dozen trials, of which one missed its level and one failed; both were replaced."""
    trials = list(sort_trials(np.random.default_rng(1)))
    missed = next(i for i, trial in enumerate(trials) if not trial.planned.baseline)
    failed = next(i for i, trial in enumerate(trials) if i > missed and not trial.planned.baseline)
    for place, state, reason in (
        (missed, TrialState.INVALID, "cpu_cores missed its level: 8.2 % above what was asked"),
        (failed, TrialState.FAILED, "exit status 2: sort: write failed: No space left on device"),
    ):
        trial, record = trials[place], trials[place].record
        assert record is not None
        levels = tuple(
            replace(level, achieved=level.requested * 1.082, verdict=LevelVerdict.MISSED)
            if level.variable == "cpu_cores" and state is TrialState.INVALID
            else replace(level, verdict=LevelVerdict.SLACK, achieved=level.requested * 0.97, bound_share=0.0)
            if level.variable == "disk_read_rate"
            else level
            for level in record.levels
        )
        spoilt = replace(record, state=state, reasons=(reason,), levels=levels)
        number = len(trials) + 1
        again = replace(
            trial,
            planned=replace(trial.planned, trial=number, replaces=trial.planned.trial),
            record=replace(record, trial=number),
        )
        trials[place] = replace(trial, state=state, record=spoilt)
        trials.append(again)
    return tuple(trials)


def answered(trials: Sequence[StoredTrial]) -> Answer | None:
    """The answer to the goal, as a run of a fixed design has it."""
    fit = analyse(SORT, trials, GOAL).fit
    if fit is None:
        return None
    factors = [Factor(span.variable, span.requested) for span in fit.support]
    return answer(target_of(GOAL, SORT, factors, fit.baseline), {"runtime": fit}, GOAL.confidence)


def finished_summary() -> Summary:
    trials = finished_trials()
    return summarise(
        SORT, trials, analyse(SORT, trials, GOAL), META, GOAL, tolerance=0.05, answer=answered(trials)
    )


def bent_summary() -> Summary:
    """The law misses a term."""
    trials = sort_trials(np.random.default_rng(3), extra=lambda v: 0.4 / v["cpu_cores"])
    return summarise(
        SORT, trials, analyse(SORT, trials, GOAL), META, GOAL, tolerance=0.05, answer=answered(trials)
    )


def running_summary() -> Summary:
    """Too few trials have finished for a fit."""
    trials = [
        trial if number < 3 else StoredTrial(trial.planned, TrialState.PLANNED)
        for number, trial in enumerate(sort_trials(np.random.default_rng(1)))
    ]
    return summarise(SORT, trials, analyse(SORT, trials, GOAL), {**META, "status": "executing"}, GOAL)


def empty_summary() -> Summary:
    return summarise(SORT, (), analyse(SORT, (), GOAL), {"name": "not-started"}, GOAL)


HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


def hostile_summary() -> Summary:
    """Every name, reason and fact tries to be markup."""
    trials = []
    for trial in finished_trials():
        record = trial.record
        assert record is not None
        levels = tuple(replace(level, mechanism=HOSTILE, note=HOSTILE) for level in record.levels)
        record = replace(record, node=HOSTILE, reasons=(HOSTILE,), sandbox=HOSTILE, levels=levels)
        trials.append(replace(trial, record=record))
    law = replace(SORT.laws["runtime"], text=HOSTILE, parameter_units={"c": HOSTILE, "a": "", "b": ""})
    extra = Variable(HOSTILE, HOSTILE, SORT.variables["runtime"].role, HOSTILE)
    blueprint = replace(SORT, laws={"runtime": law}, variables={**SORT.variables, HOSTILE: extra})
    meta = {"name": HOSTILE, "status": HOSTILE, HOSTILE: HOSTILE, "reason": "</script>" + HOSTILE}
    return summarise(blueprint, trials, analyse(blueprint, trials, GOAL), meta, GOAL)


def simulated_summary(goal: str, truth: Truth = simulated_runs.truth, trials: int = 16, **more: Any) -> Summary:
    """Of a run that the loop executed on a simulated node."""
    plan = simulated_runs.with_goal(goal).replace("trials: 60", f"trials: {trials}")
    with tempfile.TemporaryDirectory(prefix="scene-") as folder:
        return results.summary_of(simulated_runs.execute(Path(folder), plan, truth=truth, **more))


@cache
def narrowed_summary() -> Summary:
    """Several looks, and a budget that is not enough."""
    return simulated_summary("{effect: cores -> runtime, relative_half_width: 0.001}")


@cache
def ranking_summary() -> Summary:
    return simulated_summary("{causes: runtime, relative_half_width: 0.1}")


@cache
def invalid_summary() -> Summary:
    """No trial held its levels."""
    return simulated_summary(simulated_runs.GOAL, trials=60, kind=simulated_runs.BrokenNode)


@cache
def rejected_summary() -> Summary:
    """The law is wrong by more than the precision asked for."""
    return simulated_summary("{effect: cores -> runtime, relative_half_width: 0.001}", simulated_runs.bent)
