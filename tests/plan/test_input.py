"""A variable that is always at some level: what of the input is in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.design.kinds.factorial import Factorial
from insitu.orchestrator.design.protocol import Request
from insitu.orchestrator.plan.loading import load_plan
from insitu.orchestrator.plan.types import Budget
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

WITH_CACHE = changed(
    MODEL,
    "laws:\n  runtime: c +",
    "  cached: {unit: fraction, set_by: cache.page}\nlaws:\n  runtime: c + d * cached +",
)
CACHED = changed(PLAN, "factors:\n", "factors:\n  cached: {levels: [warm, 50 %, cold]}\n")


def test_levels_have_names_and_the_first_is_that_of_baseline_trials(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(CACHED)
    (tmp_path / "model.yaml").write_text(WITH_CACHE)
    plan = load_plan(tmp_path / "plan.yaml", settable=SETTABLE)
    assert plan.factors[0].levels == (1.0, 0.5, 0.0)
    trials = (
        Factorial()
        .plan_trials(Request(dataclasses.replace(plan, budget=Budget())), np.random.default_rng(1))
        .trials
    )
    baselines = {trial.assignment.as_dict()["cached"] for trial in trials if trial.baseline}
    assert baselines == {1.0}
    assert {trial.assignment.as_dict()["cached"] for trial in trials} == {1.0, 0.5, 0.0}


def test_it_must_be_a_factor(faults_of: Faults) -> None:
    (fault,) = faults_of(plan=PLAN, model=WITH_CACHE)
    assert fault.startswith("plan.yaml:9:3 'cached' must be a factor: cache.page is always at some level")
    assert "add cached: {levels: [cold]}" in fault


def test_only_one_key_decides(faults_of: Faults) -> None:
    plan = changed(CACHED, "  data:\n", "  page_cache: warm\n  data:\n")
    (fault,) = faults_of(plan=plan, model=WITH_CACHE)
    assert fault.startswith("plan.yaml:5:3 'page_cache' and the factor 'cached' both say what of the input")


def test_there_must_be_an_input(faults_of: Faults) -> None:
    plan = changed(CACHED, '  prepare: [head, -c, "{input_size}", "{data}/text"]\n', "")
    plan = changed(plan, "[sort, -o,", '[sort, "{input_size}", -o,')
    (fault,) = faults_of(plan=plan, model=WITH_CACHE)
    assert fault.startswith("plan.yaml:8:3 'cached' is about {scratch}/in, but there is no prepare that makes it")


def test_a_share_is_not_negative_and_not_unlimited(faults_of: Faults) -> None:
    plan = changed(CACHED, "[warm, 50 %, cold]", "[-10 %, unlimited, hot]")
    first, second, third = faults_of(plan=plan, model=WITH_CACHE)
    assert first.startswith("plan.yaml:9:21 the level '-10 %' of 'cached' is not zero or above")
    assert second.startswith(
        "plan.yaml:9:28 'cached' has no level that asks for nothing, so it cannot be unlimited"
    )
    assert second.endswith("| write cold, warm, or what lies between")
    assert third.startswith("plan.yaml:9:39 'hot' is not a quantity")
