"""The design that tells two laws apart: trials at which they differ most, given how well each is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.belief import Belief, stacked_information, stacked_rows
from insitu.orchestrator.design.optimality.batch import next_batch
from insitu.orchestrator.design.optimality.criteria import d_optimal
from insitu.orchestrator.design.optimality.discrimination import Rival, discriminate
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.sequential import (
    batch_size,
    first_batch_size,
    out_of_reach,
    plan_batch,
)
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.plan.types import DesignSpec
from insitu.orchestrator.store.records import PlannedTrial

Numbers = npt.NDArray[np.int64]
"""Of candidates."""
_KNOWN = 1e-12
"""Of a matrix of information with ones on its diagonal, the least eigenvalue at which it counts as regular."""
_DIFFERENT = 1e-9
"""Difference of two predictions, in standard deviations of a trial, that is more than rounding."""


@dataclass(frozen=True, slots=True)
class Contest:
    """All that the choice of the next trials depends on: the same candidates as each of two laws has them."""

    law: Situation
    rival: Situation

    @property
    def sides(self) -> tuple[Situation, Situation]:
        return self.law, self.rival


def first_contest_size(contest: Contest) -> int:
    """Trials before the first look: as many as the larger law takes."""
    return max(first_batch_size(side.composite) for side in contest.sides)


def contest_batch_size(contest: Contest, spec: DesignSpec) -> int:
    """Trials between two looks."""
    return max(batch_size(spec, side.composite) for side in contest.sides)


def contest_out_of_reach(contest: Contest) -> tuple[str, ...]:
    """Parameters of either law that neither the trials so far nor any candidate tell apart."""
    open_sides = [side for side in contest.sides if any(law.parameters for law in side.composite.laws)]
    return next((mixed for side in open_sides if (mixed := out_of_reach(side))), ())


def plan_contest(
    contest: Contest, spec: DesignSpec, count: int, block: int, first_number: int
) -> tuple[PlannedTrial, ...]:
    """Choose the trials of one batch, one in seven of them a check, in random order; as `plan_batch`."""
    return plan_batch(contest.law, spec, count, block, first_number, partial(_telling, contest))


def _telling(contest: Contest, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Numbers of the candidates that set the laws apart; while parameters are open, of those that tell them."""
    if count < 1:
        return ()
    found = [stacked_rows(side.composite, side.beliefs, side.space.columns()) for side in contest.sides]
    whole = _finite(found)
    law, rival = (rows[whole] for rows in found)
    seconds = contest.law.seconds
    costs = None if seconds is None else seconds[whole]
    known = [stacked_information(side.composite, side.beliefs) for side in contest.sides]
    covariances = [_inverse(one) for one in known]
    if covariances[0] is not None and covariances[1] is not None:
        rivals = [_rival(side, whole) for side in contest.sides]
        noise = _noise(contest, whole)
        chosen = discriminate(rivals[0], rivals[1], noise, count, costs=costs)
        if max(map(abs, chosen.differences)) > _DIFFERENT:
            return tuple(int(whole[index]) for index in chosen.trials)
    rows = _side_by_side(law, rival)
    if not contest.law.tried:
        chosen_first = exchange(rows, count, d_optimal(), rng, information=None).trials
        return tuple(int(whole[index]) for index in chosen_first)
    together = _block_diagonal(known[0], known[1])
    batch = next_batch(rows, count, d_optimal(), information=together, costs=costs)
    return tuple(int(whole[index]) for index in batch.trials)


def _finite(found: Sequence[Array]) -> Numbers:
    """Numbers of the candidates at which all laws of both sides are defined."""
    defined = [np.isfinite(rows).all(axis=(1, 2)) for rows in found]
    return np.flatnonzero(np.all(defined, axis=0)).astype(np.int64)


def _rival(side: Situation, whole: Numbers) -> Rival:
    """What one law says of the candidates; the laws before it are taken at their means."""
    columns = {name: column[whole] for name, column in side.space.columns().items()}
    values = {name: belief.values for name, belief in side.beliefs.items()}
    known = side.composite.means(values, columns)
    belief = _outcome(side)
    covariance = _inverse(belief.information())
    assert covariance is not None
    return Rival(known[side.composite.outcome], belief.law.gradient(belief.values, known), covariance)


def _noise(contest: Contest, whole: Numbers) -> Array:
    """Standard deviation of a trial at each candidate, by the law that spreads less; shape (candidates,)."""
    found = []
    for side in contest.sides:
        belief = _outcome(side)
        mean = _rival(side, whole).means
        found.append(belief.noise * (np.abs(mean) if belief.law.relative_noise else np.ones_like(mean)))
    least: Array = np.minimum(*found)
    return np.maximum(least, 1e-300)


def _outcome(side: Situation) -> Belief:
    return side.beliefs[side.composite.outcome]


def _side_by_side(law: Array, rival: Array) -> Array:
    """Rows of one trial for both laws, each with columns of its own, shape (m, k, p)."""
    count = len(law)
    first = np.concatenate([law, np.zeros((count, law.shape[1], rival.shape[2]))], axis=2)
    second = np.concatenate([np.zeros((count, rival.shape[1], law.shape[2])), rival], axis=2)
    return np.concatenate([first, second], axis=1)


def _block_diagonal(first: Array, second: Array) -> Array:
    size = len(first)
    whole = np.zeros((size + len(second), size + len(second)))
    whole[:size, :size], whole[size:, size:] = first, second
    return whole


def _inverse(information: Array) -> Array | None:
    """The covariance; ``None`` where the trials so far leave a parameter open."""
    lengths = np.sqrt(np.diag(information))
    if not len(lengths):
        return information
    if not lengths.all():
        return None
    scaled = information / np.outer(lengths, lengths)
    strengths, directions = np.linalg.eigh(scaled)
    if strengths[0] < _KNOWN:
        return None
    whitened = directions / lengths[:, None]
    found: Array = (whitened / strengths) @ whitened.T
    return found
