"""Whatever becomes of trials, every planned one ends valid or given up, and blocks stay together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.design.protocol import replacement
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import Assignment, PlannedTrial, StoredTrial, TrialRecord, TrialState
from insitu.orchestrator.store.states import FINISHED, SPOILT
from tests.told_node import MISSED

ENDED = sorted(FINISHED)
BLOCKS = st.lists(st.integers(1, 4), min_size=1, max_size=4)
"""Trials per block."""


def planned_in(blocks: list[int]) -> list[PlannedTrial]:
    numbers = [block for block, size in enumerate(blocks, 1) for _ in range(size)]
    return [PlannedTrial(trial, block, Assignment((("x", 1.0),))) for trial, block in enumerate(numbers, 1)]


def record(trial: int, state: TrialState, *, disturbed: bool = False) -> TrialRecord:
    if state is not TrialState.INVALID:
        return TrialRecord(trial, state, "here", 0.0, 0.5, 0, {}, ())
    reasons: tuple[str, ...] = ("cpu_cores: 0.7 core instead of 0.5 core",)
    if disturbed:
        reasons += ("other processes used 1.88 cores",)
    return TrialRecord(trial, state, "here", 0.0, 0.5, 0, {}, (MISSED,), reasons=reasons)


class Store:
    """What a store remembers, to begin again from."""

    def __init__(self, trials: list[PlannedTrial]) -> None:
        self.trials = {planned.trial: StoredTrial(planned, TrialState.PLANNED) for planned in trials}

    def add(self, planned: PlannedTrial) -> None:
        assert planned.trial not in self.trials
        self.trials[planned.trial] = StoredTrial(planned, TrialState.PLANNED)

    def finish(self, result: TrialRecord) -> None:
        self.trials[result.trial] = StoredTrial(self.trials[result.trial].planned, result.state, result)


@given(BLOCKS, st.integers(0, 3), st.lists(st.sampled_from(ENDED), max_size=80), st.data())
def test_every_planned_trial_ends_valid_or_given_up(
    blocks: list[int], most: int, outcomes: list[TrialState], data: st.DataObject
) -> None:
    plan = planned_in(blocks)
    store = Store(plan)
    ledger = Ledger(store.trials.values())
    executed: list[PlannedTrial] = []
    while True:
        if data.draw(st.booleans()):  # killed here, and resumed from the store
            ledger = Ledger(store.trials.values())
        for bad in ledger.to_replace(most):
            again = replacement(bad, ledger.free_number)
            store.add(again)
            ledger.add(again)
        planned = ledger.next
        if planned is None:
            break
        state = outcomes[len(executed)] if len(executed) < len(outcomes) else TrialState.VALID
        executed.append(planned)
        store.finish(record(planned.trial, state))
        ledger.finish(record(planned.trial, state))
    numbers = [planned.trial for planned in executed]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    aborted = [number for number in numbers if store.trials[number].state is TrialState.ABORTED]
    assert ledger.executions == len(executed) - len(aborted)
    assert ledger.executed_s == 0.5 * len(executed)
    assert ledger.total == len(plan)
    assert ledger.valid + len(ledger.given_up()) == ledger.total
    assert ledger.to_replace(most) == []
    order = [planned.block for planned in executed]
    assert order == sorted(order)
    origin = {planned.trial: planned.trial for planned in plan}
    for planned in sorted(executed, key=lambda one: one.trial):
        if planned.replaces is not None:
            origin[planned.trial] = origin[planned.replaces]
            replaced = store.trials[planned.replaces]
            assert replaced.state in SPOILT
            assert (replaced.planned.block, replaced.planned.assignment) == (
                planned.block,
                planned.assignment,
            )
    for first in plan:
        chain = [store.trials[trial].state for trial in numbers if origin[trial] == first.trial]
        tried = [state for state in chain if state is not TrialState.ABORTED]
        assert 1 <= len(tried) <= most + 1
        assert TrialState.VALID not in chain[:-1]
        assert (chain[-1] is TrialState.VALID) == (first not in ledger.given_up())
        assert chain[-1] is TrialState.VALID or len(tried) == most + 1


def test_a_replacement_joins_the_end_of_its_block() -> None:
    first, second, third = planned_in([2, 1])
    ledger = Ledger([StoredTrial(one, TrialState.PLANNED) for one in (first, second, third)])
    ledger.finish(record(1, TrialState.FAILED))
    (bad,) = ledger.to_replace(1)
    again = replacement(bad, 4)
    ledger.add(again)
    assert ledger.to_replace(1) == []
    order = []
    while (planned := ledger.next) is not None:
        order.append(planned)
        ledger.finish(record(planned.trial, TrialState.VALID))
    assert order == [second, again, third]
    assert (ledger.valid, ledger.total, ledger.executions) == (3, 3, 4)


def test_aborted_trials_are_replaced_first_and_take_nothing_of_the_budget() -> None:
    trials = planned_in([3])
    ledger = Ledger([StoredTrial(one, TrialState.PLANNED) for one in trials])
    for trial, state in enumerate((TrialState.INVALID, TrialState.VALID, TrialState.ABORTED), 1):
        ledger.finish(record(trial, state))
    assert (ledger.executions, ledger.free_number) == (2, 4)
    assert ledger.to_replace(1) == [trials[2], trials[0]]


def test_an_empty_run() -> None:
    ledger = Ledger([])
    assert (ledger.next, ledger.free_number) == (None, 1)
    assert (ledger.valid, ledger.total, ledger.executions, ledger.given_up()) == (0, 0, 0, [])


def test_a_trial_that_others_disturbed_is_repeated_beyond_its_attempts_but_not_for_ever() -> None:
    (first,) = planned_in([1])
    ledger = Ledger([StoredTrial(first, TrialState.PLANNED)])
    attempts = 0
    while (planned := ledger.next) is not None:
        ledger.finish(record(planned.trial, TrialState.INVALID, disturbed=True))
        attempts += 1
        assert ledger.disturbed_in_a_row == attempts
        for bad in ledger.to_replace(1):
            ledger.add(replacement(bad, ledger.free_number))
    assert attempts == 11
    assert ledger.given_up() == [first]


def test_a_level_that_is_missed_counts_although_others_disturbed_before() -> None:
    (first,) = planned_in([1])
    ledger = Ledger([StoredTrial(first, TrialState.PLANNED)])
    for disturbed in (True, True, False, False):
        planned = ledger.require_next()
        ledger.finish(record(planned.trial, TrialState.INVALID, disturbed=disturbed))
        for bad in ledger.to_replace(1):
            ledger.add(replacement(bad, ledger.free_number))
    assert ledger.next is None
    assert ledger.disturbed_in_a_row == 0
