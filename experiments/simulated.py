"""Stands in for a node whose subject takes as long as a true law says, with noise: known truth, without ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Guards, Role, Variable
from insitu.orchestrator.store.records import (
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)

Truth = Callable[[Mapping[str, float], np.random.Generator], Mapping[str, float]]
"""Levels to measurements, by the names that records have: ``{"wall_time": 1.2}``."""


def record_of(
    planned: PlannedTrial, variables: Mapping[str, Variable], measured: Mapping[str, float]
) -> TrialRecord:
    """What a trial would have recorded whose levels were all held to the last digit."""
    levels = tuple(_level(name, level, variables[name]) for name, level in planned.assignment.levels)
    wall_s = measured.get("wall_time", 1.0)
    return TrialRecord(planned.trial, TrialState.VALID, "node", 0.0, wall_s + 0.1, 0, dict(measured), levels)


def _level(name: str, level: float, variable: Variable) -> LevelRecord:
    if variable.role is Role.PARAMETER:
        return LevelRecord(name, level, level, 1.0, 0.0, LevelVerdict.EXACT, "argument", variable.unit)
    if level == variable.rest:
        return LevelRecord(name, level, None, 0.0, 0.0, LevelVerdict.UNSET, "none", variable.unit)
    return LevelRecord(name, level, level, 1.0, 0.0, LevelVerdict.HELD, "simulated", variable.unit)


@dataclass
class SimulatedNode:
    """A node that the loop can use in place of a cluster."""

    variables: Mapping[str, Variable]
    truth: Truth
    rng: np.random.Generator
    now: float = field(default=0.0, init=False)

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        return 0.0

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        record = self.execute(order.planned)
        self.now += record.duration_s
        return TrialOutcome(record, {})

    def execute(self, planned: PlannedTrial) -> TrialRecord:
        return record_of(planned, self.variables, self.truth(planned.assignment.as_dict(), self.rng))

    def stored(self, planned: PlannedTrial) -> StoredTrial:
        return StoredTrial(planned, TrialState.VALID, self.execute(planned))
