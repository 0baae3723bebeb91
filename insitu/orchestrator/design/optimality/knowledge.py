"""What a design leaves uncertain, kept up to date as trials come and go, and what each candidate would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.criteria import Criterion, Exchange
from insitu.orchestrator.design.optimality.information import inverse
from insitu.orchestrator.design.optimality.innovation import Others

Matrix = list[list[Array]]
"""Entries of one matrix for each of m candidates, each of shape (m,), or a number where it is the same for all."""
_NONE = np.zeros((0, 0, 0))
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
    weights
        The criterion's, whose trace with the covariance the loss is, or zeros; shape (q, q).
    targets
        The criterion's, each of whose variances the loss has to know; shape (q, r).
    spread
        Covariance of each candidate's k outcomes, noise aside, in variances of the noise: shape (k, k, m).
    slopes
        The same with ``covariance weights covariance`` for the covariance; empty if there are no weights.
    projections
        Covariance of each outcome with each target, shape (k, r, m).
    """

    rows: Array = field(repr=False)
    covariance: Array
    weights: Array
    targets: Array
    spread: Array = field(repr=False)
    slopes: Array = field(repr=False)
    projections: Array = field(repr=False)

    @classmethod
    def of(cls, rows: Array, information: Array, criterion: Criterion) -> Knowledge:
        """What `information` leaves open to candidates of shape (m, k, q), computed afresh."""
        turned = np.ascontiguousarray(rows.transpose(1, 0, 2))
        covariance = inverse(information)
        weights, targets = criterion.weights(len(covariance)), criterion.targets(len(covariance))
        shadows = turned @ covariance
        return cls(
            rows=turned,
            covariance=covariance,
            weights=weights,
            targets=targets,
            spread=np.einsum("amq,bmq->abm", shadows, turned),
            slopes=np.einsum("amq,bmq->abm", shadows @ weights, shadows) if weights.any() else _NONE,
            projections=targets.T @ shadows.transpose(0, 2, 1),
        )

    def with_trial(self, trial: Array) -> Knowledge:
        """What is known after one trial more, with rows of shape (k, q).

        A trial less is a matter for `of`: a step of rank one would magnify rounding where it was needed.

        Notes
        -----
        Sherman and Morrison, Annals of Mathematical Statistics 21 (1950), 124-127.
        """
        after = self
        for row in trial:
            shadow = after.covariance @ row
            step = 1 / (1 + float(row @ shadow))
            outcomes = self.rows @ shadow
            slopes = after.slopes
            if slopes.size:
                told = self.rows @ (after.covariance @ (self.weights @ shadow))
                told -= step / 2 * float(shadow @ self.weights @ shadow) * outcomes
                slopes = slopes - step * (outcomes[:, None] * told + told[:, None] * outcomes)
            after = replace(
                after,
                covariance=after.covariance - step * np.outer(shadow, shadow),
                spread=after.spread - step * outcomes[:, None] * outcomes,
                slopes=slopes,
                projections=after.projections - step * outcomes[:, None] * (shadow @ self.targets)[:, None],
            )
        return after

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
        gone = np.zeros((0, len(self.covariance))) if leaving is None else leaving
        coming = _Coming(self.rows[:, pick], gone, others)
        matrix = coming.products(self.covariance, self.spread[:, :, pick])
        slopes = None
        if self.slopes.size:
            slopes = coming.products(self.covariance @ self.weights @ self.covariance, self.slopes[:, :, pick])
        told = coming.sums(self.covariance @ self.targets, self.projections[:, :, pick])
        return criterion.losses_after(self.covariance, _eliminated(matrix, slopes, told, len(self.rows)))


@dataclass(frozen=True, slots=True, eq=False)
class _Coming:
    """Candidates that come, as rows of shape (k, m, q), and rows that leave for them, shape (l, q)."""

    rows: Array
    gone: Array
    others: Others | None

    def products(self, kernel: Array, own: Array) -> Matrix:
        """Products of each two rows with a kernel between them; `own` are those of a candidate as it stands."""
        shadows = kernel @ self.gone.T
        crossed = (self.rows @ shadows).transpose(0, 2, 1)
        if self.others is not None and self.others.variance_ratio:
            offset, scale = self.others.offset, self.others.scale
            pulls = kernel @ offset.T
            mixed = (self.rows @ pulls).transpose(0, 2, 1)
            own = scale**2 * (own - mixed - mixed.transpose(1, 0, 2) + (offset @ pulls)[:, :, None])
            crossed = scale * (crossed - (offset @ shadows)[:, :, None])
        matrix = [[*own[one], *crossed[one]] for one in range(len(own))]
        return matrix + [[*crossed[:, one], *(self.gone @ shadows)[one]] for one in range(len(self.gone))]

    def sums(self, columns: Array, own: Array) -> list[Array]:
        """Products of each row with each column; `own` are those of a candidate as it stands."""
        if self.others is not None and self.others.variance_ratio:
            own = self.others.scale * (own - (self.others.offset @ columns)[:, :, None])
        return [*own, *(self.gone @ columns)[:, :, None]]


def _eliminated(matrix: Matrix, slopes: Matrix | None, told: list[Array], coming: int) -> Exchange:
    """Take rows one after the other, `coming` of them that come and then those that leave; see `losses`."""
    exchange = Exchange([], [], told)
    rows = range(len(matrix))
    for first in rows:
        pivot = matrix[first][first]
        pivot = 1 + pivot if first < coming else np.minimum(pivot - 1, -_LEAST_LEFT)
        shares = [matrix[later][first] / pivot if later > first else _NONE for later in rows]
        exchange.pivots.append(pivot)
        if slopes is not None:
            exchange.slopes.append(slopes[first][first])
            _reduce(slopes, first, shares)
        for later in rows[first + 1 :]:
            told[later] = told[later] - shares[later] * told[first]
            for column in rows[first + 1 :]:
                matrix[later][column] = matrix[later][column] - shares[later] * matrix[first][column]
    return exchange


def _reduce(slopes: Matrix, first: int, shares: Sequence[Array]) -> None:
    """Take shares of a row from later rows, and of its column from their columns."""
    after = range(first + 1, len(slopes))
    half = {one: slopes[one][first] - shares[one] / 2 * slopes[first][first] for one in after}
    for one in after:
        for other in after:
            slopes[one][other] = slopes[one][other] - shares[one] * half[other] - shares[other] * half[one]
