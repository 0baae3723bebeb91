"""The loop: design, execution, store, estimation, and design again, until the experiment ends.

No statistics and no system calls here; data goes one way around.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from insitu.orchestrator.errors import Aborted, Postponed
from insitu.orchestrator.execution.orders import data_programs, order_for
from insitu.orchestrator.steering.choice import steering_of
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import PlannedTrial, TrialRecord, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.execution.cluster import LocalCluster
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.run import RunStore

T = TypeVar("T")

_FAILURES_IN_A_ROW = 3
_SPENT = "spent_s"


class Watcher(Protocol):
    """Is told what happens; the terminal's progress implements it."""

    def stage(self, text: str) -> None:
        """Something other than a trial is under way."""

    def looked(self, text: str) -> None:
        """The trials so far have been looked at, and further ones chosen."""

    def started(self, planned: PlannedTrial, ledger: Ledger) -> None:
        """A trial begins."""

    def ended(self, record: TrialRecord, ledger: Ledger) -> None:
        """A trial has been stored."""


def execute(
    experiment: Experiment,
    store: RunStore,
    cluster: LocalCluster,
    watcher: Watcher,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Execute the planned trials that have no result yet, one after the other.

    Each is in the store before the next begins. The plan's design says what follows invalid and failed ones.

    Raises
    ------
    CannotExecute
        If the node cannot go on; everything stored so far stays.
    """
    ledger = Ledger(store.trials())
    began = clock() - spent_s(store, ledger)
    try:
        return _execute(experiment, store, ledger, cluster, watcher, clock, pause, began)
    except Aborted as exc:
        store.reset_running()
        return Outcome(Ending.ABORTED, f"aborted: {exc.message}")
    finally:
        store.set_meta(_SPENT, clock() - began)


def _execute(
    experiment: Experiment,
    store: RunStore,
    ledger: Ledger,
    cluster: LocalCluster,
    watcher: Watcher,
    clock: Callable[[], float],
    pause: Callable[[float], None],
    began: float,
) -> Outcome:
    plan = experiment.plan
    steering = steering_of(plan, experiment.blueprint, experiment.most_trials)
    failures = 0
    wait = _Wait(plan.guards.node_wait_s, watcher, clock)
    if programs := data_programs(plan):
        watcher.stage("making the run's data")
        wait.for_node(partial(cluster.make_data, programs, plan.guards))
    while True:
        step = steering.advance(ledger, store.trials, clock() - began)
        store.plan_trials(step.trials)
        for fresh in step.trials:
            ledger.add(fresh)
        if step.note:
            watcher.looked(step.note)
        if step.outcome is not None:
            return step.outcome
        if step.pause_s:
            watcher.stage(f"waiting {step.pause_s:g} s for a quieter moment")
            pause(step.pause_s)
        planned = ledger.require_next()
        watcher.started(planned, ledger)
        store.start(planned.trial)
        result = wait.for_node(partial(cluster.run_trial, order_for(plan, planned)))
        store.finish(result.record, result.samples)
        ledger.finish(result.record)
        watcher.ended(result.record, ledger)
        if result.record.state is TrialState.ABORTED:
            raise Aborted("; ".join(result.record.reasons))
        failures = failures + 1 if result.record.state is TrialState.FAILED else 0
        if failures == _FAILURES_IN_A_ROW:
            return Outcome(Ending.SUBJECT_FAILED, "; ".join(result.record.reasons))


@dataclass(frozen=True, slots=True)
class _Wait:
    """Asks again, for a bounded time, while a node that is not well postpones what it is asked for."""

    at_most_s: float
    watcher: Watcher
    clock: Callable[[], float]

    def for_node(self, ask: Callable[[], T]) -> T:
        """Give what is done in the end; raise `Aborted` if the node has not become well."""
        began: float | None = None
        while True:
            try:
                return ask()
            except Postponed as exc:
                if began is None:
                    began = self.clock()
                    self.watcher.stage(f"waiting for the node: {exc.message}")
                elif self.clock() - began >= self.at_most_s:
                    waited = f"nothing was started, after waiting for {self.at_most_s:g} s"
                    raise Aborted(f"{exc.message}; {waited}") from exc


def spent_s(store: RunStore, ledger: Ledger) -> float:
    """Time that the budget counts so far; of an execution that was killed, its trials alone."""
    stored = store.meta().get(_SPENT)
    return max(ledger.executed_s, stored if isinstance(stored, float) else 0.0)
