"""What a design leaves uncertain, kept up to date as trials come and go, and what each candidate would change."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.criteria import Criterion, Exchange
from insitu.orchestrator.design.information import inverse
from insitu.orchestrator.design.innovation import Others

_LEAST_LEFT = 1e-12
"""What is left of one after the leverage of a row that is taken out, whatever rounding says."""


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """The covariance that a design leaves, and how uncertain each candidate's outcomes are under it.

    Attributes
    ----------
    rows
        Of the m candidates, shape (k, m, q); their numbers are next to last here, so that sums run along them.
    covariance
        Inverse of the information, shape (q, q).
    targets
        The criterion's, shape (q, r).
    spread
        Covariance of each candidate's k outcomes, noise aside, in variances of the noise: shape (k, k, m).
    projections
        Covariance of each outcome with each target, shape (k, r, m).
    """

    rows: Array = field(repr=False)
    covariance: Array
    targets: Array
    spread: Array = field(repr=False)
    projections: Array = field(repr=False)

    @classmethod
    def of(cls, rows: Array, information: Array, criterion: Criterion) -> Knowledge:
        """What `information` leaves open to candidates of shape (m, k, q), computed afresh."""
        turned = np.ascontiguousarray(rows.transpose(1, 0, 2))
        covariance = inverse(information)
        targets = criterion.targets(len(covariance))
        shadows = turned @ covariance
        spread = np.einsum("amq,bmq->abm", shadows, turned)
        return cls(turned, covariance, targets, spread, targets.T @ shadows.transpose(0, 2, 1))

    def with_trial(self, trial: Array) -> Knowledge:
        """What is known after one trial more, with rows of shape (k, q).

        A trial less is a matter for `of`: a step of rank one would magnify rounding where it was needed.

        Notes
        -----
        Sherman and Morrison, Annals of Mathematical Statistics 21 (1950), 124-127.
        """
        covariance, spread, projections = self.covariance, self.spread, self.projections
        for row in trial:
            shadow = covariance @ row
            step = 1 / (1 + float(row @ shadow))
            outcomes = self.rows @ shadow
            covariance = covariance - step * np.outer(shadow, shadow)
            spread = spread - step * outcomes[:, None] * outcomes
            if self.targets.shape[1]:
                projections = projections - step * outcomes[:, None] * (shadow @ self.targets)[:, None]
        return Knowledge(self.rows, covariance, self.targets, spread, projections)

    def losses(
        self,
        criterion: Criterion,
        *,
        leaving: Array | None = None,
        others: Others | None = None,
        among: NDArray[np.int64] | None = None,
    ) -> Array:
        """Loss after one more trial, for each candidate.

        Parameters
        ----------
        leaving
            Rows of a trial that is taken out for it, shape (k, q).
        others
            The trials whose block it joins.
        among
            Candidates to look at instead of all.

        Notes
        -----
        Elimination of ``D + R covariance R'``, where R has the rows that come and then those that leave, and D is
        1 for the former and -1 for the latter. For one row that comes and one that leaves, and a determinant, this
        is the exchange formula of Fedorov, Theory of Optimal Experiments (1972), section 3.3. A trial that is
        needed may leave, since what comes is taken first.
        """
        pick = slice(None) if among is None else among
        rows, spread, projections = self.rows[:, pick], self.spread[:, :, pick], self.projections[:, :, pick]
        gone = np.zeros((0, len(self.covariance))) if leaving is None else leaving
        shadows = self.covariance @ gone.T
        crossed = (rows @ shadows).transpose(0, 2, 1)
        if others is not None and others.variance_ratio:
            pulls = self.covariance @ others.offset.T
            mixed = (rows @ pulls).transpose(0, 2, 1)
            spread = spread - mixed - mixed.transpose(1, 0, 2) + (others.offset @ pulls)[:, :, None]
            spread = others.scale**2 * spread
            projections = others.scale * (projections - (pulls.T @ self.targets)[:, :, None])
            crossed = others.scale * (crossed - (others.offset @ shadows)[:, :, None])
        # the matrix's rows and columns, each entry of shape (m,) or a number
        matrix = [[*spread[one], *crossed[one]] for one in range(len(rows))]
        matrix += [[*crossed[:, one], *(gone @ shadows)[one]] for one in range(len(gone))]
        told = [*projections, *(shadows.T @ self.targets)[:, :, None]]
        return criterion.losses_after(self.covariance, _eliminated(matrix, told, len(rows)))


def _eliminated(matrix: list[list[Array]], told: list[Array], coming: int) -> Exchange:
    """Take rows one after the other, `coming` of them that come and then those that leave; see `losses`."""
    pivots: list[Array] = []
    for first in range(len(matrix)):
        pivot = matrix[first][first]
        pivots.append(1 + pivot if first < coming else np.minimum(pivot - 1, -_LEAST_LEFT))
        for later in range(first + 1, len(matrix)):
            share = matrix[later][first] / pivots[first]
            told[later] = told[later] - share * told[first]
            for column in range(first + 1, len(matrix)):
                matrix[later][column] = matrix[later][column] - share * matrix[first][column]
    return Exchange(pivots, told)
