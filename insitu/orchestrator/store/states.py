"""The states of a trial and the only ways between them.

::

    planned -> running -> valid | invalid | failed | aborted
       ^          |
       +----------+   found running after a crash
"""

from __future__ import annotations

from insitu.orchestrator.store.records import TrialState

_NEXT: dict[TrialState, frozenset[TrialState]] = {
    TrialState.PLANNED: frozenset({TrialState.RUNNING}),
    TrialState.RUNNING: frozenset(set(TrialState) - {TrialState.RUNNING}),
    TrialState.VALID: frozenset(),
    TrialState.INVALID: frozenset(),
    TrialState.FAILED: frozenset(),
    TrialState.ABORTED: frozenset(),
}

FINISHED = frozenset(state for state, following in _NEXT.items() if not following)
"""The states that a trial never leaves."""


SPOILT = tuple(state for state in TrialState if state in FINISHED - {TrialState.VALID})
"""Finished, and not fitted."""


class IllegalTransition(RuntimeError):
    """A trial was asked to go where its state does not lead; a fault of the program, not of its user."""


def transition(current: TrialState, following: TrialState) -> TrialState:
    """Return the state after the step from `current` to `following`.

    Raises
    ------
    IllegalTransition
        If there is no such step.
    """
    if following not in _NEXT[current]:
        raise IllegalTransition(f"a trial that is {current} cannot become {following}")
    return following
