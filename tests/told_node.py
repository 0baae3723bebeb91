"""Stands in for a node whose trials end as a test says, so that the loop is seen without ray."""

from __future__ import annotations

from insitu.orchestrator.errors import Postponed
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, PlannedTrial, TrialRecord, TrialState

MISSED = LevelRecord("cpu_cores", 0.5, 0.7, 1.0, 0.01, LevelVerdict.MISSED, "cgroup1.cpu.cfs", "core")


class Node:
    """Stands in for a cluster: answers with the next of the states it was given, valid when they are used up.

    `None` among them postpones, and so does every attempt while `well` is false. Each trial has samples. One that
    is invalid has missed its level, or was `disturbed`.
    """

    def __init__(self, *states: TrialState | None) -> None:
        self.states = list(states)
        self.well = True
        self.disturbed = False
        self.data_made = 0
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def _ask(self) -> None:
        self.now += 1.0
        if not self.well or (self.states and self.states[0] is None):
            del self.states[:1]
            raise Postponed("host.load1 is 9, above 3")

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        self._ask()
        self.data_made += 1
        return 0.0

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        self._ask()
        state = self.states.pop(0) if self.states else TrialState.VALID
        assert state is not None
        reasons = () if state is TrialState.VALID else (f"it was {state}",)
        levels = (MISSED,) if state is TrialState.INVALID and not self.disturbed else ()
        record = TrialRecord(order.planned.trial, state, "node", 0.0, 1.0, 0, {}, levels, reasons=reasons)
        return TrialOutcome(record, {"time_s": [0.0, 1.0]})


class Watcher:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def looked(self, text: str) -> None:
        self.stages.append(text)

    def started(self, planned: PlannedTrial, ledger: Ledger) -> None:
        pass

    def ended(self, record: TrialRecord, ledger: Ledger) -> None:
        pass
