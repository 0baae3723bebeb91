"""When a trial has ended in any case."""

from __future__ import annotations

import pytest

from insitu.orchestrator.execution.agent import hard_deadline_s
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial


def order(*levels: SetLevel) -> TrialOrder:
    return TrialOrder(
        planned=PlannedTrial(1, 1, Assignment(())),
        command=Program(("true",)),
        prepare=None,
        environment=(),
        page_cache="any",
        levels=levels,
        parameters=(),
        guards=Guards(),
    )


def test_a_trial_has_the_time_that_its_levels_need_to_be_brought_about() -> None:
    cores = SetLevel("cores", "cpu.cores", "core", 0.5)
    neighbour, none = (SetLevel("neighbour", "anomaly.memory", "B", level) for level in (100e9, 0.0))
    plain_s = hard_deadline_s(order())
    assert hard_deadline_s(order(cores, none)) == plain_s
    assert hard_deadline_s(order(cores, neighbour)) == pytest.approx(plain_s + 100)
