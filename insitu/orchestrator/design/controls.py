"""Trials that check rather than inform: replicates, centre points and trials without any intervention.

An optimal design believes the law: it tries as few distinct levels as it has parameters, and cannot see that the
law is wrong. So one trial in seven checks it.

The rule: of every seven trials the fourth is a check, and the checks are in turn without intervention, a repeat of
an earlier trial, and at the centre. It depends on a trial's number only, so it holds however trials are batched,
and spreads the checks over the whole experiment. From five trials on, 10 to 20 % of them are checks. A check that
does not come out is made up for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum

import numpy as np

from insitu.orchestrator.causal.expression import Array

EVERY = 7
"""Of so many trials one is a check."""
FIRST = 4
"""Number of the first check, counting from one."""


class Check(StrEnum):
    """What a trial is there to check."""

    CONTROL = "control"
    """No intervention: what the machine does by itself, and whether that drifts."""
    REPLICATE = "replicate"
    """An earlier trial again: the noise, whatever the law is."""
    CENTRE = "centre"
    """The middle of all factors: whether the law bends where the others do not look."""


def check_of(trial: int) -> Check | None:
    """What the trial of this number, from 1, checks; ``None`` if it is the design's."""
    turn, rest = divmod(trial - FIRST, EVERY)
    return None if rest else tuple(Check)[turn % len(Check)]


def count_checks(trials: int) -> int:
    """How many of the first trials are checks."""
    return max(0, (trials - FIRST) // EVERY + 1)


def lost_checks(trials: int, done: Iterable[Check]) -> tuple[Check, ...]:
    """Which of the checks among the first trials did not come out, and have not been made up for.

    Parameters
    ----------
    trials
        How many there have been, whatever became of them.
    done
        The checks among those that came out.
    """
    due = Counter(check for trial in range(1, trials + 1) if (check := check_of(trial)) is not None)
    due.subtract(done)
    return tuple(check for check in Check for _ in range(due[check]))


def replicate_of(history: Sequence[Hashable]) -> int:
    """Which earlier trial a replicate repeats: of those tried least often the one longest ago.

    Parameters
    ----------
    history
        What was assigned in each earlier trial; equal where all levels are.

    Raises
    ------
    ValueError
        If there is no earlier trial.
    """
    if not history:
        raise ValueError("there is no trial to repeat")
    counts = Counter(history)
    last = {assignment: number for number, assignment in enumerate(history)}
    return min(range(len(history)), key=lambda number: (counts[history[number]], last[history[number]]))


def centre_of(places: Array) -> int:
    """Candidate whose farthest factor is nearest its middle, then all of whose factors are; the first of several.

    Parameters
    ----------
    places
        Where each candidate's levels stand between a factor's lowest (0) and highest (1), shape (m, factors).
    """
    away = np.round(np.abs(places - 0.5), 9)
    return int(np.lexsort((away.mean(axis=1), away.max(axis=1)))[0])
