"""All that least squares needs to know of any number of rows: one triangle, and how far the outcome spread.

The triangle is the R of a QR factorisation of the rows with the outcome as their last column. More rows are
rotated into it, two triangles are joined into one, and a row can be taken out again, all without the rows that
came before. Beside sums of squares and products (X'X), which are also enough, it keeps twice the digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import mixed_columns
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.at_scale.moments import Moments

_BLOCK_CELLS = 8192
"""Cells of a table that is factorised at once: it stays in the first cache, and BLAS does not split it."""
_LEAST_REMAINDER = 1e-6
"""Share of a row that others must leave to it, for its removal to keep ten digits."""


class LossOfPrecision(ArithmeticError):
    """A row cannot be taken out without losing the fit's digits; fit what remains anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Triangle:
    """The rows seen so far, as far as least squares can tell.

    Attributes
    ----------
    factor
        Upper triangle of shape (p + 1, p + 1): R in the first p columns, Q'y in the last one, and below Q'y the
        root of the residual sum of squares. The signs of its rows mean nothing.
    moments
        Of the outcome.

    Notes
    -----
    Rotations are stable for each column by itself, so that columns of very different size need no scaling; the
    relative error of estimates is some 1e-15 times the condition number of the columns at length one. Blocks
    of rows are factorised apart and their triangles joined (TSQR: Demmel, Grigori, Hoemmen and Langou,
    *Communication-optimal parallel and sequential QR and LU factorizations*, SIAM J. Sci. Comput. 34, 2012).
    """

    factor: Array
    moments: Moments

    @classmethod
    def empty(cls, parameters: int) -> Triangle:
        """Of no rows yet."""
        return cls(np.zeros((parameters + 1, parameters + 1)), Moments())

    @property
    def parameters(self) -> int:
        return len(self.factor) - 1

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.moments.n

    def with_rows(
        self, rows: Array, response: Array, *, weights: Array | None = None, offsets: Array | None = None
    ) -> Triangle:
        """Take in rows; all numbers are finite and all weights positive.

        Parameters
        ----------
        rows
            Design rows, shape (m, p).
        response
            Outcome less the law's offset, shape (m,).
        weights
            Inverse of each row's variance, up to one factor for all, shape (m,); left out, they are one.
        offsets
            What was taken off the outcome, shape (m,); only `moments` need it.
        """
        table = weighted_table(rows, response, weights)
        return self.with_table(table, Moments.of(response if offsets is None else response + offsets, weights))

    def with_table(self, table: Array, moments: Moments) -> Triangle:
        """As `with_rows`, of a table that is weighted already and has the outcome as its last column."""
        return self._joined(triangle_of(table) if len(table) > len(self.factor) else table, moments)

    def joined_with(self, other: Triangle) -> Triangle:
        """The triangle of both sets of rows."""
        return self._joined(other.factor, other.moments)

    def _joined(self, below: Array, moments: Moments) -> Triangle:
        if not moments.n:
            return self
        return Triangle(triangle_of(np.vstack([self.factor, below])), self.moments.joined_with(moments))

    def without_row(self, row: Array, response: float, *, weight: float = 1.0, offset: float = 0.0) -> Triangle:
        """Take out a row that was taken in, with the weight that it had.

        Raises
        ------
        LossOfPrecision
            If the row carries nearly all that is known in some direction, be it a parameter or the residuals.

        Notes
        -----
        With ``R'q = x`` the rest has ``R'(I - qq')R``, so its triangle is the Cholesky factor of ``I - qq'`` times
        R. That factor's condition number is ``1 / (1 - q'q)``: about as many digits are lost, and the refusal
        begins where fewer than ten would be left.
        """
        table = np.append(row, response) * math.sqrt(weight)
        share = self._share_of(table)
        if self.n < 2 or self.moments.weight <= weight or 1 - float(share @ share) < _LEAST_REMAINDER:
            raise LossOfPrecision("the row carries nearly all that is known of some direction")
        # numpy has the lower factor L of LL'; the triangle is made of L'
        remainder = np.linalg.cholesky(np.eye(len(table)) - np.outer(share, share)).T
        return Triangle(np.triu(remainder @ self.factor), self.moments.without(response + offset, weight))

    def _share_of(self, table: Array) -> Array:
        """The row in terms of the triangle; infinite where the triangle has nothing in the row's direction."""
        from scipy.linalg import solve_triangular

        if not np.diagonal(self.factor).all():
            return np.full(len(table), math.inf)
        share: Array = solve_triangular(self.factor, table, trans="T", check_finite=False)
        return share

    def with_columns(self, columns: Sequence[int]) -> Triangle:
        """The triangle of the same rows with some of their p columns."""
        return replace(self, factor=triangle_of(self.factor[:, [*columns, self.parameters]]))

    def fitted(self, names: Sequence[str], outcome: str) -> LinearFit:
        """Solve for the parameters.

        Parameters
        ----------
        names
            Of the p parameters, for messages.
        outcome
            Variable of the law, for messages.

        Raises
        ------
        NotIdentified
            If there are too few rows, or they cannot tell some parameters apart.
        """
        from scipy.linalg import solve_triangular

        size = self.parameters
        refuse_unidentified(self.factor[:size, :size], self.n, names, outcome)
        root: Array = solve_triangular(self.factor[:size, :size], np.eye(size), check_finite=False)
        rss = float(self.factor[size, size]) ** 2
        return LinearFit(
            values=solve_triangular(self.factor[:size, :size], self.factor[:size, size], check_finite=False),
            root=root,
            sigma=math.sqrt(rss / (self.n - size)),
            n=self.n,
            df=self.n - size,
            r_squared=1 - rss / self.moments.spread if self.moments.spread > 0 else math.nan,
        )


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """Least squares estimates of p parameters, in the units of the rows.

    Attributes
    ----------
    values
        Shape (p,).
    root
        Inverse of R, shape (p, p); times its transpose it is the inverse of X'X.
    sigma
        Residual standard deviation; of a row of weight one.
    r_squared
        About the mean of the outcome; NaN where the outcome is constant.
    """

    values: Array
    root: Array
    sigma: float
    n: int
    df: int
    r_squared: float

    @property
    def inverse_gram(self) -> Array:
        """Inverse of X'X, shape (p, p)."""
        inverse: Array = self.root @ self.root.T
        return inverse

    @property
    def covariance_matrix(self) -> Array:
        """Of the parameters, shape (p, p)."""
        return self.sigma**2 * self.inverse_gram

    def leverage(self, row: Array) -> float:
        """Variance of the mean at a design row, in units of sigma squared: ``x' (X'X)^-1 x``."""
        return float(((row @ self.root) ** 2).sum())


def weighted_table(rows: Array, response: Array, weights: Array | None) -> Array:
    """Design rows with the outcome as their last column, each times the root of its weight; shape (m, p + 1)."""
    table = np.column_stack([rows, response])
    if weights is not None:
        table *= np.sqrt(weights)[:, None]
    return table


def triangle_of(table: Array) -> Array:
    """R of the QR factorisation of a table of any height, square: rows of zeros fill up a table of few rows.

    Parameters
    ----------
    table
        Shape (m, q); any memory order, and the one whose columns are contiguous is not copied about.
    """
    columns = table.shape[1]
    height = max(4 * columns, _BLOCK_CELLS // columns)
    while len(table) > 2 * height:
        blocks, rest = divmod(len(table), height)
        whole = table[: blocks * height].T.reshape(columns, blocks, height).transpose(1, 2, 0)
        above = _qr(whole).reshape(blocks * columns, columns)
        table = np.vstack([above, table[blocks * height :]]) if rest else above
    factor = _qr(table)
    if len(factor) < columns:
        factor = np.vstack([factor, np.zeros((columns - len(factor), columns))])
    return factor


def _qr(tables: Array) -> Array:
    """R alone, of one table or of a stack of them."""
    found: Any = np.linalg.qr(tables, mode="r")
    factor: Array = found
    return factor


def refuse_unidentified(triangle: Array, n: int, names: Sequence[str], outcome: str) -> None:
    """Say what rows with this R, or with these design rows, cannot tell apart.

    Raises
    ------
    NotIdentified
        If there is such a thing, or there are too few rows for intervals.
    """
    if n <= len(names):
        raise NotIdentified(
            f"{n} rows are too few for the {len(names)} parameters of {outcome} and their intervals",
            hint=f"at least {len(names) + 1} are needed",
            parameters=tuple(names),
        )
    if sets := mixed_columns(triangle):
        mixed = [tuple(names[index] for index in one) for one in sets]
        told = [
            f"tell {' and '.join(one)} apart" if len(one) > 1 else f"say anything about {one[0]}" for one in mixed
        ]
        raise NotIdentified(
            f"the rows cannot {', nor '.join(told)} in the law of {outcome}",
            hint="vary the levels of their variables independently of each other",
            parameters=tuple(name for one in mixed for name in one),
        )
