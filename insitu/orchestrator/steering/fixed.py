"""The steering of a design that is fixed beforehand: its trials, repeated where they came out badly."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from insitu.orchestrator.design.protocol import replacement
from insitu.orchestrator.steering.endings import Ending, Outcome, Step, Trials, pause_after

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.ledger import Ledger

MOST_REPLACEMENTS = 3
"""Of one planned trial: a level that cannot be held is not held the fifth time either."""


class FixedSteering:
    """Executes planned trials, and repeats within the budget those that came out badly."""

    def __init__(self, plan: Plan, most_trials: int) -> None:
        self.plan = plan
        self.most_trials = most_trials

    def advance(self, ledger: Ledger, trials: Trials, spent_s: float) -> Step:
        room = self.most_trials - ledger.executions
        again = ledger.to_replace(MOST_REPLACEMENTS)[: max(0, room)]
        if ledger.next is None and not again:
            return Step(outcome=self._end(ledger))
        if self.plan.budget.time_s is not None and spent_s > self.plan.budget.time_s:
            text = f"{ledger.valid} of {ledger.total} trials within the budget of time"
            return Step(outcome=Outcome(Ending.BUDGET, text))
        numbers = itertools.count(ledger.free_number)
        fresh = tuple(replacement(bad, number) for bad, number in zip(again, numbers, strict=False))
        return Step(fresh, pause_s=pause_after(ledger.disturbed_in_a_row))

    def _end(self, ledger: Ledger) -> Outcome:
        missing = ledger.given_up()
        if not missing:
            return Outcome(Ending.COMPLETE)
        which = ", ".join(str(planned.trial) for planned in missing[:10])
        have, trials = ("has", "trial") if len(missing) == 1 else ("have", "trials")
        text = f"{len(missing)} of {ledger.total} planned trials {have} no valid result ({trials} {which})"
        spent = ledger.executions >= self.most_trials
        return Outcome(Ending.BUDGET if spent else Ending.INVALID, text)
