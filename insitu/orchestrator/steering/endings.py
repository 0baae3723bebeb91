"""How an experiment ends, and who decides that it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from insitu.orchestrator.store.ledger import Ledger
    from insitu.orchestrator.store.records import PlannedTrial, StoredTrial


class Ending(StrEnum):
    """Why an execution of a plan ended."""

    COMPLETE = "complete"
    """Every planned trial has a valid result."""
    REACHED = "reached"
    """The goal's precision is reached."""
    BUDGET = "budget"
    """The budget of trials or time was used up before that."""
    STALLED = "stalled"
    """Further trials bring the goal no nearer."""
    MODEL_REJECTED = "model_rejected"
    """The law does not hold."""
    UNIDENTIFIABLE = "unidentifiable"
    """No trial that the plan allows could answer the goal."""
    SUBJECT_FAILED = "subject_failed"
    """The subject failed several times in a row."""
    INVALID = "invalid"
    """Some planned trial stayed invalid through all its replacements."""
    ABORTED = "aborted"
    """The node came to a state in which the plan lets nothing go on; to be resumed when it is well again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended, what to say about it, and what the user can do next."""

    ending: Ending
    text: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Trials to add, or the end; neither: the trials that wait are executed first.

    Attributes
    ----------
    pause_s
        How long to wait before the next trial, for others to be done.
    note
        What was found on the way, for whoever watches.
    """

    trials: tuple[PlannedTrial, ...] = ()
    outcome: Outcome | None = None
    pause_s: float = 0.0
    note: str = ""


def pause_after(disturbed_in_a_row: int) -> float:
    """Seconds to wait after so many trials that others disturbed, one after the other."""
    return min(2.0 ** (disturbed_in_a_row - _AT_ONCE), _LONGEST_PAUSE_S) if disturbed_in_a_row > _AT_ONCE else 0.0


_AT_ONCE = 2
"""Disturbed trials in a row after which the next still follows at once."""
_LONGEST_PAUSE_S = 16.0


Trials = Callable[[], "Sequence[StoredTrial]"]


class Steering(Protocol):
    """Decides from the trials so far."""

    def advance(self, ledger: Ledger, trials: Trials, spent_s: float) -> Step:
        """What comes next.

        Parameters
        ----------
        trials
            Gives the stored trials, which only some decisions need.
        spent_s
            Time that the budget counts.
        """
        ...
