"""The loop: plan, design, execution, store, estimation, until the experiment ends.

No statistics and no system calls here; data goes one way around.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from insitu.orchestrator.design.protocol import replacement
from insitu.orchestrator.errors import Aborted, Postponed
from insitu.orchestrator.execution.orders import data_programs, order_for
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import PlannedTrial, TrialRecord, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.execution.cluster import LocalCluster
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.run import RunStore

T = TypeVar("T")

MOST_REPLACEMENTS = 3
"""Of one planned trial: a level that cannot be held is not held the fifth time either."""
_FAILURES_IN_A_ROW = 3
_SPENT = "spent_s"


class Ending(StrEnum):
    """Why an execution of a plan ended."""

    COMPLETE = "complete"
    """Every planned trial has a valid result."""
    BUDGET = "budget"
    """The budget of trials or time was used up before that."""
    SUBJECT_FAILED = "subject_failed"
    """The subject failed several times in a row."""
    INVALID = "invalid"
    """Some planned trial stayed invalid through all its replacements."""
    ABORTED = "aborted"
    """The node came to a state in which the plan lets nothing go on; to be resumed when it is well again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended, and what to say about it."""

    ending: Ending
    text: str = ""


class Watcher(Protocol):
    """Is told what happens; the terminal's progress implements it."""

    def stage(self, text: str) -> None:
        """Something other than a trial is under way."""

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
) -> Outcome:
    """Execute the planned trials that have no result yet, one after the other.

    Each is in the store before the next begins. Invalid and failed ones are replaced within the budget.

    Raises
    ------
    CannotExecute
        If the node cannot go on; everything stored so far stays.
    """
    ledger = Ledger(store.trials())
    began = clock() - spent_s(store, ledger)
    try:
        return _execute(experiment, store, ledger, cluster, watcher, clock, began)
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
    began: float,
) -> Outcome:
    plan = experiment.plan
    failures = 0
    wait = _Wait(plan.guards.node_wait_s, watcher, clock)
    if programs := data_programs(plan):
        watcher.stage("making the run's data")
        wait.for_node(partial(cluster.make_data, programs, plan.guards))
    while True:
        _replace(experiment, store, ledger)
        if outcome := ending_of(plan, ledger, experiment.most_trials, clock() - began):
            return outcome
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


def ending_of(plan: Plan, ledger: Ledger, most_trials: int, spent_s: float) -> Outcome | None:
    """How an execution ends that has come so far, or ``None`` if there is a trial to execute.

    Parameters
    ----------
    most_trials
        Executions that the budget allows, replacements included.
    spent_s
        Time that the budget counts.
    """
    to_replace = ledger.executions < most_trials and ledger.to_replace(MOST_REPLACEMENTS)
    if ledger.next is None and not to_replace:
        return _judge(ledger, most_trials)
    if plan.budget.time_s is not None and spent_s > plan.budget.time_s:
        return Outcome(Ending.BUDGET, f"{ledger.valid} of {ledger.total} trials within the budget of time")
    return None


def _replace(experiment: Experiment, store: RunStore, ledger: Ledger) -> None:
    for bad in ledger.to_replace(MOST_REPLACEMENTS):
        if ledger.executions >= experiment.most_trials:
            return
        again = replacement(bad, ledger.free_number)
        store.add(again)
        ledger.add(again)


def _judge(ledger: Ledger, most_trials: int) -> Outcome:
    missing = ledger.given_up()
    if not missing:
        return Outcome(Ending.COMPLETE)
    which = ", ".join(str(planned.trial) for planned in missing[:10])
    have, trials = ("has", "trial") if len(missing) == 1 else ("have", "trials")
    text = f"{len(missing)} of {ledger.total} planned trials {have} no valid result ({trials} {which})"
    return Outcome(Ending.BUDGET if ledger.executions >= most_trials else Ending.INVALID, text)
