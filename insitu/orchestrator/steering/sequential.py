"""The steering of a sequential design: look after each batch, end when the goal is reached, else ask for more."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from insitu.orchestrator.design.asked import depends_on_any
from insitu.orchestrator.design.looks import Looks, planned_looks
from insitu.orchestrator.design.sequential import (
    batch_size,
    first_batch_size,
    never_told,
    out_of_reach,
    plan_batch,
)
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.design.stopping import Look, Ruling, Stop, judge
from insitu.orchestrator.report.course import Looked
from insitu.orchestrator.steering.endings import Ending, Outcome, Step, Trials, pause_after
from insitu.orchestrator.steering.state import Knowledge, knowledge_of
from insitu.orchestrator.store.ledger import was_disturbed
from insitu.orchestrator.store.records import LevelVerdict, PlannedTrial, StoredTrial, TrialState
from insitu.orchestrator.units import percent, percent_beside

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.estimation.answer import Answer
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.ledger import Ledger

_GIVEN_UP = 3
"""Misses of one level, without it ever being held, after which no trial asks for it again."""
_ENDINGS = {
    Stop.REACHED: Ending.REACHED,
    Stop.STALLED: Ending.STALLED,
    Stop.MODEL_REJECTED: Ending.MODEL_REJECTED,
    Stop.UNIDENTIFIABLE: Ending.UNIDENTIFIABLE,
    Stop.BUDGET: Ending.BUDGET,
}


class SequentialSteering:
    """Decides from the valid trials of each batch; what came out badly is not repeated but planned anew.

    Parameters
    ----------
    most_trials
        Executions that the budget allows.
    """

    def __init__(self, plan: Plan, blueprint: Blueprint, most_trials: int) -> None:
        if plan.goal is None:
            raise ValueError("a sequential design has a goal")
        self.plan = plan
        self.goal = plan.goal
        self.blueprint = blueprint
        self.most_trials = most_trials
        self._looks: list[Look] = []
        self._seen = 0

    def advance(self, ledger: Ledger, trials: Trials, spent_s: float) -> Step:
        if self.plan.budget.time_s is not None and spent_s > self.plan.budget.time_s:
            return Step(outcome=self._out_of_budget(trials(), "time"))
        if ledger.next is not None:
            return Step(pause_s=pause_after(ledger.disturbed_in_a_row))
        stored = trials()
        if stored:
            self._look_again(stored)
            if (ruling := judge(self._looks, self.goal.relative_half_width, self._tolerated)) is not None:
                return Step(outcome=outcome_of(ruling))
        room = self.most_trials - ledger.executions
        if room < 1:
            return Step(outcome=self._out_of_budget(stored, "trials"))
        knowledge = self._knowledge(stored)
        situation = knowledge.situation(self.plan, given_up(stored), by_time=self.plan.budget.trials is None)
        if (hopeless := self._hopeless(knowledge, situation)) is not None:
            return Step(outcome=hopeless)
        batch = self._next_batch(knowledge, situation, room, ledger.free_number)
        return Step(batch, pause_s=pause_after(ledger.disturbed_in_a_row), note=self._note(len(batch)))

    def _hopeless(self, knowledge: Knowledge, situation: Situation) -> Outcome | None:
        """That no further trial helps: with the goal's numbers, or with a law on the way to them."""
        if mixed := out_of_reach(situation):
            return unidentifiable(mixed)
        if knowledge.valid < first_batch_size(knowledge.composite):
            return None
        if knowledge.fits:
            return self._indifferent(knowledge)
        # what is measured has varied by itself by now, so that more trials of the same kind add nothing
        mixed = never_told(situation)
        why = f"a law that {self.goal.outcome} needs cannot be fitted"
        return unidentifiable(mixed, why) if mixed else None

    def _indifferent(self, knowledge: Knowledge) -> Outcome | None:
        """That at the levels which the machine gave, the goal's numbers do not depend on any parameter."""
        if not knowledge.target.wanted or depends_on_any(knowledge.target):
            return None
        text = f"at the levels of the trials, what the goal asks of {self.goal.outcome} depends on no parameter"
        remedy = "set what could not be set here, or ask at other levels; the report says which there were"
        return Outcome(Ending.UNIDENTIFIABLE, text, remedy)

    def _note(self, further: int) -> str:
        if not self._looks:
            return f"{further} trials before the first look"
        now = self._looks[-1]
        known = f"known to ± {self._told(now.half_width)}" if math.isfinite(now.half_width) else "not known yet"
        return f"{known} after {now.trials} valid trials; {further} more"

    def _told(self, half_width: float) -> str:
        """So that it does not read as what the goal asks for when it is not."""
        return percent_beside(half_width, self.goal.relative_half_width or 0.0)

    @property
    def _tolerated(self) -> float:
        """A misfit of the law that is smaller than this part of the outcome is no concern of the goal's."""
        return self.goal.relative_half_width or 0.1

    @cached_property
    def looks(self) -> Looks:
        """When this experiment looks, and what its intervals are widened by for that."""
        knowledge = self._knowledge(())
        spec, composite = self.plan.design, knowledge.composite
        parameters = max(len(law.parameters) for law in composite.laws)
        return planned_looks(
            first_batch_size(composite),
            batch_size(spec, composite),
            self.most_trials,
            parameters,
            self.goal.confidence,
        )

    def answer(self, stored: Sequence[StoredTrial]) -> Answer | None:
        """What the trials say about the goal, with intervals that allow for all the looks."""
        return self._knowledge(stored).answer(self.goal.confidence, self.looks.inflation)

    def course(self, stored: Sequence[StoredTrial]) -> tuple[Looked, ...]:
        """What was known after each batch that has been executed."""
        waiting = [one.planned.block for one in stored if one.state in (TrialState.PLANNED, TrialState.RUNNING)]
        last = min(waiting, default=math.inf)
        looked = []
        for block in dict.fromkeys(one.planned.block for one in stored if one.planned.block < last):
            knowledge = self._knowledge([one for one in stored if one.planned.block <= block])
            enough = knowledge.valid >= self.looks.trials[0]
            found = knowledge.answer(self.goal.confidence, self.looks.inflation) if enough else None
            looked.append(Looked(knowledge.valid, found))
        return tuple(looked)

    def _look_again(self, stored: Sequence[StoredTrial]) -> None:
        """Bring the looks up to date: one after each batch, so that a run which resumes has the same ones."""
        last = stored[-1].planned.block
        for block in range(self._seen + 1, last + 1):
            until = [trial for trial in stored if trial.planned.block <= block]
            self._looks.append(self._knowledge(until).look(self.goal, self.looks, disturbed=all_disturbed(until)))
        self._seen = last

    def _knowledge(self, stored: Sequence[StoredTrial]) -> Knowledge:
        return knowledge_of(self.plan, self.blueprint, self.goal, stored)

    def _next_batch(
        self, knowledge: Knowledge, situation: Situation, room: int, number: int
    ) -> tuple[PlannedTrial, ...]:
        stored, spec = knowledge.trials, self.plan.design
        size = batch_size(spec, knowledge.composite)
        missing = first_batch_size(knowledge.composite) - knowledge.valid
        block = stored[-1].planned.block + 1 if stored else 1
        return plan_batch(situation, spec, min(room, max(size, missing)), block, number)

    def _out_of_budget(self, stored: Sequence[StoredTrial], what: str) -> Outcome:
        valid = sum(trial.state is TrialState.VALID for trial in stored)
        known = self._looks[-1].half_width if self._looks else math.inf
        so_far = f"known to ± {self._told(known)}" if math.isfinite(known) else "not known yet"
        asked = self.goal.relative_half_width
        wanted = f"; the goal asks for ± {percent(asked)}" if asked is not None else ""
        text = f"the budget of {what} is used up: {so_far} after {valid} valid trials{wanted}"
        problem = self._knowledge(stored).problem
        text += f": {problem}" if problem else ""
        done = [trial.record for trial in stored if trial.record is not None]
        disturbed = sum(was_disturbed(record) for record in done)
        if 2 * disturbed > len(done):
            beset = f"others disturbed {disturbed} of {len(done)} trials"
            return Outcome(Ending.BUDGET, text, f"{beset}: run the plan again when the machine is quieter")
        if problem:
            return Outcome(Ending.BUDGET, text, "see the report for the trials that are left out")
        return Outcome(Ending.BUDGET, text, "run the plan again with a larger `budget`, or ask for less precision")


def all_disturbed(stored: Sequence[StoredTrial]) -> bool:
    """Whether others disturbed every trial of the last batch."""
    batch = [trial.record for trial in stored if trial.planned.block == stored[-1].planned.block]
    return all(record is not None and was_disturbed(record) for record in batch)


def given_up(stored: Sequence[StoredTrial]) -> Mapping[str, frozenset[float]]:
    """Variable to levels that were missed again and again, and never held."""
    missed: Counter[tuple[str, float]] = Counter()
    held: set[tuple[str, float]] = set()
    records = itertools.chain.from_iterable(trial.record.levels for trial in stored if trial.record is not None)
    for level in records:
        if level.verdict is LevelVerdict.MISSED:
            missed[level.variable, level.requested] += 1
        elif level.verdict is LevelVerdict.HELD:
            held.add((level.variable, level.requested))
    hopeless = [one for one, count in missed.items() if count >= _GIVEN_UP and one not in held]
    names = dict.fromkeys(name for name, _ in hopeless)
    return {name: frozenset(level for one, level in hopeless if one == name) for name in names}


def unidentifiable(mixed: Sequence[str], why: str = "") -> Outcome:
    """That no trial tells some parameters apart.

    Parameters
    ----------
    why
        What that prevents, if it is not the goal that needs each of them.
    """
    which = " and ".join(mixed)
    why = why or f"the goal needs {'it' if len(mixed) == 1 else 'them'}"
    apart = "" if len(mixed) == 1 else " apart"
    text = f"no trial that the plan allows tells {which}{apart}, and {why}"
    remedy = "allow further levels, or set what could not be set here; the report says which"
    return Outcome(Ending.UNIDENTIFIABLE, text, remedy)


def outcome_of(ruling: Ruling) -> Outcome:
    """A ruling, as the end of an execution."""
    return Outcome(_ENDINGS[ruling.stop], ruling.text, ruling.next_step)
