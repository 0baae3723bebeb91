"""A factor that no trial could set: its parameter is left out and named, and questions about it are refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.errors import OutsideSupport
from insitu.orchestrator.estimation.analysis import analyse
from insitu.orchestrator.estimation.questions.queries import whatif
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.loading import load_model
from insitu.orchestrator.plan.types import Settable
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)

SETTABLE = {"cpu.cores": Settable("core"), "disk.read_rate": Settable("B/s")}
MODEL = Path(__file__).parents[2] / "configs/models/read-compute.yaml"


@pytest.fixture
def blueprint() -> Blueprint:
    return build_blueprint(load_model(MODEL, settable=SETTABLE))


def trials() -> list[StoredTrial]:
    rng = np.random.default_rng(5)
    stored = []
    for number in range(1, 17):
        cores, size = (0.4, 0.8)[number % 2], (12e6, 24e6)[number // 2 % 2]
        runtime = 0.05 + 2e-8 * size / cores + rng.normal(0, 0.005)
        levels = (
            LevelRecord("cpu_cores", cores, cores, 0.9, 0.0, LevelVerdict.HELD, "duty-cycle", "core"),
            LevelRecord("disk_read_rate", math.inf, None, 0.0, 0.0, LevelVerdict.UNSET, "none", "B/s"),
            LevelRecord("input_size", size, size, 0.0, 0.0, LevelVerdict.EXACT, "argument", "B"),
        )
        assignment = Assignment(tuple((level.variable, level.requested) for level in levels))
        record = TrialRecord(number, TrialState.VALID, "n", 0.0, 1.0, 0, {"wall_time": runtime}, levels)
        stored.append(StoredTrial(PlannedTrial(number, 1, assignment), TrialState.VALID, record))
    return stored


def test_the_silent_parameter_is_named_and_the_others_are_right(blueprint: Blueprint) -> None:
    goal = EffectGoal(cause="cpu_cores", outcome="runtime")
    analysis = analyse(blueprint, trials(), goal)
    assert analysis.fit is not None
    assert analysis.fit.not_estimated == ("a",)
    estimates = {estimate.name: estimate for estimate in analysis.fit.estimates}
    assert set(estimates) == {"c", "b"}
    assert estimates["b"].reported_low < 20 < estimates["b"].reported_high
    assert analysis.effect is not None


def test_questions_about_it_are_refused_even_when_extrapolating(blueprint: Blueprint) -> None:
    fit = analyse(blueprint, trials(), None).fit
    assert fit is not None
    law = blueprint.laws["runtime"]
    inside = whatif(fit, law, {"cpu_cores": 0.6, "disk_read_rate": math.inf, "input_size": 12e6})
    assert inside.low < 0.05 + 2e-8 * 12e6 / 0.6 < inside.high
    asked = {"cpu_cores": 0.6, "disk_read_rate": 10e6, "input_size": 12e6}
    for extrapolate in (False, True):
        with pytest.raises(OutsideSupport, match="a was not estimated"):
            whatif(fit, law, asked, extrapolate=extrapolate)
