"""How precisely a sequential design will know what its goal asks for, foreseen before any trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE
from insitu.orchestrator.design.belief import Belief, stacked_information
from insitu.orchestrator.design.looks import Looks
from insitu.orchestrator.design.sequential import plan_batch
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.plan.types import DesignSpec
from insitu.orchestrator.store.records import Assignment

_FURTHEST = 200
"""Trials beyond which nothing is foreseen."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What will be known at one look.

    Attributes
    ----------
    trials
        Valid ones by then.
    half_widths
        Of the interval of each number that the goal asks for, in base units, shape (k,): with the noise of the
        beliefs. Without any earlier fit that is one, so a half width is in units of one trial's spread.
    """

    trials: int
    half_widths: tuple[float, ...]


def foresee(situation: Situation, spec: DesignSpec, looks: Looks, parameters: int) -> tuple[Foreseen, ...]:
    """Go through the looks of an experiment all of whose trials come out as they were asked for.

    Parameters
    ----------
    situation
        Before the first trial, with nominal values or with those of an earlier run.
    parameters
        Of the largest law: what the noise's degrees of freedom lack to the trials.
    """
    found: list[Foreseen] = []
    assignments: list[Assignment] = list(situation.tried)
    for block, trials in enumerate((count for count in looks.trials if count <= _FURTHEST), start=1):
        now = replace(situation, beliefs=after_trials(situation, assignments), tried=tuple(assignments))
        batch = plan_batch(now, spec, trials - len(assignments), block, len(assignments) + 1)
        assignments += [planned.assignment for planned in batch]
        quantile = looks.quantile(max(1, trials - parameters))
        errors = standard_errors(situation, after_trials(situation, assignments))
        found.append(Foreseen(trials, tuple((quantile * errors).tolist())))
    return tuple(found)


def after_trials(situation: Situation, assignments: Sequence[Assignment]) -> dict[str, Belief]:
    """The beliefs, after trials at these levels."""
    names = situation.space.columns()
    levels = {name: np.array([one.as_dict()[name] for one in assignments]) for name in names}
    values = {name: belief.values for name, belief in situation.beliefs.items()}
    known: Mapping[str, Array] = situation.composite.means(values, levels) if assignments else {}
    return {
        name: replace(
            belief, levels={one: np.asarray(known[one]) for one in belief.law.parents} if assignments else {}
        )
        for name, belief in situation.beliefs.items()
    }


def standard_errors(situation: Situation, beliefs: Mapping[str, Belief]) -> Array:
    """Of the numbers that the goal asks for, shape (k,); infinite where the trials do not tell.

    A number can be told although parameters that it does not need, or needs only together, are not. One that
    depends on none so far, as an effect up to a level that only the machine knows, is not foreseen.
    """
    laws = situation.composite.laws
    gradients = situation.target.gradients({name: belief.values for name, belief in beliefs.items()})
    count = len(situation.target.wanted)
    parts = [gradients.get(law.variable, np.zeros((count, len(law.parameters)))) for law in laws]
    contrasts = np.hstack(parts)
    information = stacked_information(situation.composite, beliefs)
    lengths = np.sqrt(np.diag(information))
    scale = np.where(lengths == 0, 1.0, lengths)
    strengths, directions = np.linalg.eigh(information / np.outer(scale, scale))
    told = strengths > RANK_TOLERANCE**2 * max(1.0, float(strengths[-1]))
    along = (contrasts / scale) @ directions
    open_parts = np.linalg.norm(along[:, ~told], axis=1)
    errors = np.sqrt((along[:, told] ** 2 / strengths[told]).sum(axis=1))
    foreseen = contrasts.any(axis=1) | situation.target.compared  # a cause without effect beside others is told
    is_told = foreseen & (open_parts <= RANK_TOLERANCE * np.linalg.norm(along, axis=1))
    found: Array = np.where(is_told, errors, math.inf)
    return found
