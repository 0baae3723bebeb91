"""The steering of a comparison: look after each batch, end when one of two laws is rejected, else ask for more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.orchestrator.design.contest import (
    contest_batch_size,
    contest_out_of_reach,
    first_contest_size,
    plan_contest,
)
from insitu.orchestrator.design.stopping import Look, Misfit, Ruling, Stop, is_misfit, judge
from insitu.orchestrator.estimation.answer import Answer
from insitu.orchestrator.estimation.rivals.verdict import Side, Verdict
from insitu.orchestrator.report.verdicts import NAMES, odds, rejection
from insitu.orchestrator.steering.contest import Compared, Rivalry
from insitu.orchestrator.steering.endings import Ending, Outcome, Step, Trials, pause_after
from insitu.orchestrator.steering.sequential import all_disturbed, outcome_of, unidentifiable
from insitu.orchestrator.store.records import PlannedTrial, StoredTrial, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.ledger import Ledger

_WINDOW = 5
"""Looks over which the evidence has to grow, if the trials meanwhile become twice as many."""


@dataclass(frozen=True, slots=True)
class RivalLook:
    """The state of a comparison after a batch.

    Attributes
    ----------
    look
        Without a precision: how many valid trials there are, and whether others spoilt the batch.
    misfits
        What replicates say against each law.
    problem
        Why a law is not fitted.
    """

    look: Look
    verdict: Verdict | None
    misfits: tuple[Misfit | None, Misfit | None] = (None, None)
    problem: str = ""

    @property
    def trials(self) -> int:
        return self.look.trials


class ComparisonSteering:
    """Decides from the valid trials of each batch; what came out badly is not repeated but planned anew.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """

    def __init__(self, plan: Plan, blueprint: Blueprint, most_trials: int) -> None:
        self.plan = plan
        self.rivalry = Rivalry(plan, blueprint)
        self.most_trials = most_trials
        self._looks: list[RivalLook] = []
        self._seen = 0

    def advance(self, ledger: Ledger, trials: Trials, spent_s: float) -> Step:
        if self.plan.budget.time_s is not None and spent_s > self.plan.budget.time_s:
            return Step(outcome=self._out_of_budget(trials(), "time"))
        if ledger.next is not None:
            return Step(pause_s=pause_after(ledger.disturbed_in_a_row))
        stored = trials()
        now = self._look_again(stored)
        ruling = judge_rivals(self._looks, self.rivalry.goal.tolerance)
        if ruling is not None:
            return Step(outcome=outcome_of(ruling))
        if self.most_trials <= ledger.executions:
            return Step(outcome=self._out_of_budget(stored, "trials"))
        if (hopeless := out_of_reach(now)) is not None:
            return Step(outcome=hopeless)
        batch = self._next_batch(now, stored, self.most_trials - ledger.executions, ledger.free_number)
        return Step(batch, pause_s=pause_after(ledger.disturbed_in_a_row), note=self._note(len(batch)))

    def _look_again(self, stored: Sequence[StoredTrial]) -> Compared:
        """Bring the looks up to date: one after each batch, so that a run which resumes has the same ones."""
        last = stored[-1].planned.block if stored else 0
        for block in range(self._seen + 1, last):
            until = [trial for trial in stored if trial.planned.block <= block]
            self._look(self.rivalry.after(until), until)
        now = self.rivalry.after(stored)
        if last > self._seen:
            self._look(now, stored)
        self._seen = last
        return now

    def _look(self, compared: Compared, stored: Sequence[StoredTrial]) -> None:
        look = Look(compared.valid, math.inf, disturbed=all_disturbed(stored))
        misfits = (compared.misfit(Side.LAW), compared.misfit(Side.RIVAL))
        self._looks.append(RivalLook(look, compared.verdict, misfits, compared.problem))

    def _next_batch(
        self, now: Compared, stored: Sequence[StoredTrial], room: int, number: int
    ) -> tuple[PlannedTrial, ...]:
        size = contest_batch_size(now.contest, self.plan.design)
        missing = first_contest_size(now.contest) - now.valid
        block = stored[-1].planned.block + 1 if stored else 1
        return plan_contest(now.contest, self.plan.design, min(room, max(size, missing)), block, number)

    def _note(self, further: int) -> str:
        if not self._looks:
            return f"{further} trials before the first look"
        return f"{_standing(self._looks[-1])} after {self._looks[-1].trials} valid trials; {further} more"

    def _out_of_budget(self, stored: Sequence[StoredTrial], what: str) -> Outcome:
        valid = sum(trial.state is TrialState.VALID for trial in stored)
        so_far = _standing(self._looks[-1]) if self._looks else "nothing is known yet"
        text = f"the budget of {what} is used up: {so_far} after {valid} valid trials, and neither law is rejected"
        return Outcome(Ending.BUDGET, text, "run the plan again with a larger `budget`, or in a quieter place")


def compare(plan: Plan, blueprint: Blueprint, stored: Sequence[StoredTrial]) -> Answer | None:
    """What the trials of a run say about two laws; ``None`` while they are too few."""
    verdict = Rivalry(plan, blueprint).after(stored).verdict
    return None if verdict is None else Answer((), verdict.confidence, verdict=verdict)


def out_of_reach(compared: Compared) -> Outcome | None:
    """Why no trial that the plan allows could decide; ``None`` if one could."""
    if mixed := contest_out_of_reach(compared.contest):
        return unidentifiable(mixed)
    if not compared.indistinguishable:
        return None
    text = "the law and the rival predict the same at every trial that the plan allows, so none could decide"
    return Outcome(Ending.UNIDENTIFIABLE, text, "allow levels at which they differ, or set a further variable")


def judge_rivals(looks: Sequence[RivalLook], tolerance: float) -> Ruling | None:
    """Whether a comparison ends after its latest look; budgets are the caller's."""
    if not looks:
        return None
    now = looks[-1]
    missed = [is_misfit(misfit, len(looks), tolerance) for misfit in now.misfits]
    beaten = [now.verdict is not None and now.verdict.rejects(side) for side in Side]
    if all(one or other for one, other in zip(missed, beaten, strict=True)):
        return _both_rejected(now, missed)
    if now.verdict is not None and (preferred := now.verdict.preferred) is not None:
        text = f"{rejection(now.verdict, preferred)} after {now.trials} valid trials"
        remedy = "see the report" if preferred is Side.LAW else "write the rival into the model, and ask further"
        return Ruling(Stop.REACHED, text, remedy)
    return judge([one.look for one in looks], None, tolerance) or _stall(looks)


def _both_rejected(now: RivalLook, missed: Sequence[bool]) -> Ruling:
    how = [
        f"{NAMES[side]} {_how_far(misfit) if off else 'foretells the trials worse than the other'}"
        for side, off, misfit in zip(Side, missed, now.misfits, strict=True)
    ]
    sentence = next((misfit.sentence for misfit in now.misfits if misfit is not None and misfit.sentence), "")
    text = f"neither law holds: {', and '.join(how)}"
    return Ruling(
        Stop.MODEL_REJECTED, text, sentence or "add what is missing to either law, and run the plan again"
    )


def _how_far(misfit: Misfit | None) -> str:
    size = (
        f"{misfit.relative_size:.1%} of the outcome (p = {misfit.p_value:.2g})" if misfit is not None else "much"
    )
    return f"misses the means of replicates by {size}"


def _stall(looks: Sequence[RivalLook]) -> Ruling | None:
    if len(looks) <= _WINDOW:
        return None
    then, now = looks[-1 - _WINDOW], looks[-1]
    if then.verdict is None or now.verdict is None or now.trials < 2 * then.trials:
        return None
    if now.verdict.strongest > then.verdict.strongest:
        return None
    return Ruling(
        Stop.STALLED,
        f"{now.trials - then.trials} further valid trials brought no evidence against either law",
        "the two hardly differ at the levels that the plan allows, beside the noise: allow further levels",
    )


def _standing(look: RivalLook) -> str:
    if look.verdict is not None:
        return odds(look.verdict)
    return f"nothing is known yet{': ' if look.problem else ''}{look.problem}"
