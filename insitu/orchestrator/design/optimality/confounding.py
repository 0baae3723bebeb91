"""Which parameters a design mixes up, and which candidate trials would tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE, mixed_columns
from insitu.orchestrator.design.optimality.information import applied, square_root, stacked


@dataclass(frozen=True, slots=True)
class Confounding:
    """What trials leave open.

    Attributes
    ----------
    sets
        Parameters that cannot be told apart, by their numbers; of a single one the trials say nothing at all.
    separated_by
        Candidates that, if all are tried, tell them apart: the one that does most first. A trial for one set
        alone may mix it up with another, so they are for all sets together.
    remaining
        Sets that then are left: of those no candidate says anything.
    """

    sets: tuple[tuple[int, ...], ...]
    separated_by: tuple[int, ...]
    remaining: tuple[tuple[int, ...], ...]


def confounding(candidates: Array, *, rows: Array | None = None, information: Array | None = None) -> Confounding:
    """Find the parameters that a design mixes up, and the trials that would separate them.

    Parameters
    ----------
    candidates
        Shape (m, p), or (m, k, p) where a trial informs by k rows.
    rows
        Of the design's trials, shape (n, p).
    information
        Of other trials, shape (p, p).

    Notes
    -----
    The trial that separates parameters best is the one whose rows are longest along the directions in the
    parameters that the design says nothing about, where all columns have length one.
    """
    stack = stacked(candidates)
    size = stack.shape[2]
    parts = [np.zeros((0, size)) if rows is None else np.reshape(rows, (-1, size))]
    if information is not None:
        parts.append(square_root(information))
    known = np.vstack(parts)
    lengths = np.linalg.norm(np.concatenate([known, stack.reshape(-1, size)]), axis=0)
    scale = np.where(lengths == 0, 1.0, lengths)
    separating: list[int] = []
    unknown = _unknown(known / scale)
    while len(unknown):
        shadows = applied(stack / scale, unknown.T) / RANK_TOLERANCE
        told = np.linalg.slogdet(np.eye(stack.shape[1]) + shadows @ shadows.transpose(0, 2, 1))[1]
        best = int(np.argmax(told))
        fewer = _unknown(np.concatenate([known, stack[[*separating, best]].reshape(-1, size)]) / scale)
        if len(fewer) == len(unknown):
            break
        separating.append(best)
        unknown = fewer
    whole = np.concatenate([known, stack[separating].reshape(-1, size)])
    return Confounding(mixed_columns(known), tuple(separating), mixed_columns(whole))


def _unknown(rows: Array) -> Array:
    """Orthonormal directions to which all rows are at right angles, shape (d, p)."""
    size = rows.shape[1]
    lengths = np.linalg.norm(rows, axis=0)
    scale = np.where(lengths == 0, 1.0, lengths)
    whole = np.zeros((max(len(rows), size), size))
    whole[: len(rows)] = rows / scale
    _, strengths, directions = np.linalg.svd(whole, full_matrices=False)
    null = directions[strengths < RANK_TOLERANCE * max(1.0, float(strengths[0]))] / scale
    basis: Array = np.linalg.qr(null.T)[0].T if len(null) else null
    return basis
