"""What a trial tells that the other trials of its block do not.

Trials of a block share a random effect. The others tell a part of it, and what is left of it adds to a trial's
noise: what then is left of a trial's rows, the innovation, informs as an independent trial would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """The other trials of a block: what they tell of the block's effect.

    Attributes
    ----------
    total
        Sum of their rows, shape (k, p).
    count
        How many they are.
    variance_ratio
        Variance of the block's effect over that of a trial's noise.
    """

    total: Array
    count: int
    variance_ratio: float

    @property
    def scale(self) -> float:
        """What a trial's rows are multiplied by, since the block's effect is known in part only."""
        return math.sqrt((1 + self.variance_ratio * self.count) / (1 + self.variance_ratio * (self.count + 1)))

    @property
    def offset(self) -> Array:
        """What is taken off a trial's rows before: the mean of the others, shrunk since the effect is random."""
        return self.variance_ratio / (1 + self.variance_ratio * self.count) * self.total

    def innovation(self, rows: Array) -> Array:
        """What a trial with these rows, shape (k, p), tells that the others do not."""
        return rows if self.variance_ratio == 0 else self.scale * (rows - self.offset)


def innovations(rows: Array, variance_ratio: float) -> Array:
    """Rows of independent trials that inform as much as those of one block, shape (n, k, p).

    Notes
    -----
    The rows times the inverse Cholesky factor of the trials' covariance, one trial after the other.
    """
    told = np.empty_like(rows)
    for count, row in enumerate(rows):
        told[count] = Others(rows[:count].sum(axis=0), count, variance_ratio).innovation(row)
    return told
