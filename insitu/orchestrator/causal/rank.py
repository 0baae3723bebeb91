"""Which columns of a design matrix its rows cannot tell apart; made for columns of very different sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array

RANK_TOLERANCE = 1e-6
"""Columns of length one that are closer than this to the span of others add nothing but rounding."""
_TAKES_PART = 1e-3
"""Weight above which a column is a part of a dependence, where the largest possible is one."""


def mixed_columns(matrix: Array) -> tuple[tuple[int, ...], ...]:
    """Smallest sets of columns, each of which mixes with the others of its set and with no other.

    Parameters
    ----------
    matrix
        Finite, of shape (n, p). Its columns are scaled to length one, so that seconds can stand beside bytes
        per core. With fewer rows than columns some always mix.

    Returns
    -------
    tuple of tuple of int
        Numbers of columns, rising; a set of one is a column of zeros. Empty at full rank.

    Notes
    -----
    The projector on the null space has a block for each set of columns that depend on each other alone, and
    zeros elsewhere, whichever basis of the null space it is computed from.
    """
    columns = matrix.shape[1]
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = np.zeros((max(matrix.shape[0], columns), columns))  # of full height, so that every direction is given
    scaled[: matrix.shape[0]] = matrix / np.where(lengths == 0, 1.0, lengths)
    _, strengths, directions = np.linalg.svd(scaled, full_matrices=False)
    null = directions[strengths < RANK_TOLERANCE * max(1.0, float(strengths[0]))] if columns else directions
    together = np.abs(null.T @ null) > _TAKES_PART**2
    waiting = [index for index in range(columns) if together[index, index]]
    sets: list[tuple[int, ...]] = []
    while waiting:
        found = _reached(waiting[0], together)
        sets.append(found)
        waiting = [index for index in waiting if index not in found]
    return tuple(sets)


def _reached(start: int, together: NDArray[np.bool_]) -> tuple[int, ...]:
    found = {start}
    waiting = [start]
    while waiting:
        fresh: Sequence[int] = [
            int(one) for one in np.flatnonzero(together[waiting.pop()]) if int(one) not in found
        ]
        found.update(fresh)
        waiting.extend(fresh)
    return tuple(sorted(found))
