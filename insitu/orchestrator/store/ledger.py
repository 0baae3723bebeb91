"""Which trial is next, and what became of each planned one: the run's trials in memory, kept up by the loop."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from insitu.orchestrator.store.records import (
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)
from insitu.orchestrator.store.states import SPOILT

_MOST_DISTURBED = 9
"""Of the attempts at one planned trial that others disturbed; more, and it counts like any that came out badly."""


def was_disturbed(record: TrialRecord) -> bool:
    """Whether a trial is invalid for more than levels that were missed: others took what it needed."""
    missed = sum(level.verdict is LevelVerdict.MISSED for level in record.levels)
    return record.state is TrialState.INVALID and len(record.reasons) > missed


class Ledger:
    """The trials of a run, in the order in which they are to be executed: block by block.

    A replacement joins the end of its block, so that trials compared within a block stay together.

    Parameters
    ----------
    trials
        As the store has them; none may be running.
    """

    def __init__(self, trials: Iterable[StoredTrial]) -> None:
        self._planned: dict[int, PlannedTrial] = {}
        self._states: dict[int, TrialState] = {}
        self._chains: dict[int, list[int]] = {}
        self._waiting: list[tuple[int, int]] = []
        self._disturbed: set[int] = set()
        self.disturbed_in_a_row = 0
        self.executed_s = 0.0
        for stored in trials:
            self._add(stored.planned, stored.state)
            if stored.record is not None:
                self._note(stored.record)

    def _add(self, planned: PlannedTrial, state: TrialState) -> None:
        self._planned[planned.trial] = planned
        self._states[planned.trial] = state
        if planned.replaces is None:
            self._chains[planned.trial] = [planned.trial]
        else:
            self._chain_of(planned.replaces).append(planned.trial)
        if state is TrialState.PLANNED:
            bisect.insort(self._waiting, (planned.block, planned.trial))

    def _chain_of(self, trial: int) -> list[int]:
        while (replaced := self._planned[trial].replaces) is not None:
            trial = replaced
        return self._chains[trial]

    def add(self, planned: PlannedTrial) -> None:
        """Take in a trial that the store has as planned."""
        self._add(planned, TrialState.PLANNED)

    def finish(self, record: TrialRecord) -> None:
        """Take in a stored result."""
        self._states[record.trial] = record.state
        self._waiting.remove((self._planned[record.trial].block, record.trial))
        self._note(record)

    def _note(self, record: TrialRecord) -> None:
        self.executed_s += record.duration_s
        if was_disturbed(record):
            self._disturbed.add(record.trial)
        self.disturbed_in_a_row = self.disturbed_in_a_row + 1 if was_disturbed(record) else 0

    @property
    def next(self) -> PlannedTrial | None:
        """The trial to execute now."""
        return self._planned[self._waiting[0][1]] if self._waiting else None

    def require_next(self) -> PlannedTrial:
        """As `next`, of which the caller knows that there is one."""
        if (planned := self.next) is None:
            raise ValueError("no trial is left to execute")
        return planned

    @property
    def total(self) -> int:
        """How many trials the design planned; replacements do not count."""
        return len(self._chains)

    @property
    def valid(self) -> int:
        """How many of them have a valid result, their own or a replacement's."""
        return sum(self._states[chain[-1]] is TrialState.VALID for chain in self._chains.values())

    @property
    def executions(self) -> int:
        """Trials executed or waiting, replacements included, aborted ones not: what a budget of trials counts."""
        return self._tried(self._states)

    @property
    def free_number(self) -> int:
        """What a further trial may be numbered."""
        return max(self._planned, default=0) + 1

    def to_replace(self, most: int) -> list[PlannedTrial]:
        """Trials that came out badly and have no replacement yet, `most` per planned trial.

        An aborted one does not count towards `most`, nor one that others disturbed until there are many of them:
        they say nothing about their levels. Aborted ones come first, since no other may take the place that they
        have left in the budget.
        """
        last = [chain[-1] for chain in self._chains.values() if self._blamed(chain) <= most]
        bad = [trial for trial in last if self._states[trial] in SPOILT]
        bad.sort(key=lambda trial: self._states[trial] is not TrialState.ABORTED)
        return [self._planned[trial] for trial in bad]

    def _blamed(self, chain: list[int]) -> int:
        """Attempts that speak against a trial's own levels."""
        disturbed = sum(trial in self._disturbed for trial in chain)
        return self._tried(chain) - min(disturbed, _MOST_DISTURBED)

    def _tried(self, trials: Iterable[int]) -> int:
        return sum(self._states[trial] is not TrialState.ABORTED for trial in trials)

    def given_up(self) -> list[PlannedTrial]:
        """Planned trials whose last execution came out badly."""
        ends = {first: chain[-1] for first, chain in self._chains.items()}
        return [self._planned[first] for first, last in ends.items() if self._states[last] in SPOILT]
