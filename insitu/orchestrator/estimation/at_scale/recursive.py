"""Least squares that takes one more trial in time that does not grow with the number of trials.

For laws that are linear in their parameters; `linearised` has what can be had for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.at_scale.moments import Moments
from insitu.orchestrator.estimation.at_scale.triangle import (
    LinearFit,
    LossOfPrecision,
    Triangle,
    triangle_of,
    weighted_table,
)

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster's share: the triangle of its rows, as `RecursiveState.factor`."""

    name: str
    factor: Matrix


@dataclass(frozen=True, slots=True)
class RecursiveState:
    """All that `RecursiveFit` knows, as numbers and names that JSON can carry without loss.

    Attributes
    ----------
    factor, moments
        As of `triangle.Triangle`.
    """

    outcome: str
    parameters: tuple[str, ...]
    factor: Matrix
    moments: Moments
    clusters: tuple[ClusterState, ...] = ()

    __pydantic_config__: ClassVar[dict[str, str | bool]] = {"extra": "forbid", "allow_inf_nan": False}

    def as_document(self) -> dict[str, Any]:
        """The state as a tree that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: object) -> RecursiveState:
        """Read what `as_document` wrote.

        Raises
        ------
        InputError
            If it is not such a tree, or its numbers are not finite or not of one shape.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            state: RecursiveState = TypeAdapter(cls).validate_python(document)
        except ValidationError as error:
            detail = error.errors()[0]
            where = ".".join(map(str, detail["loc"]))
            raise InputError(
                f"a fit's state is damaged: {where}: {detail['msg']}", hint="refit the trials"
            ) from error
        size = len(state.parameters) + 1
        for factor in (state.factor, *(cluster.factor for cluster in state.clusters)):
            if len(factor) != size or any(len(row) != size for row in factor):
                raise InputError(
                    "a fit's state is damaged: a triangle has the wrong shape", hint="refit the trials"
                )
        if min(state.moments.n, state.moments.weight, state.moments.spread) < 0:
            raise InputError("a fit's state is damaged: a sum is negative", hint="refit the trials")
        return state


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCovariance:
    """Covariance of the parameters that holds when trials of one cluster (a node, a day) share errors.

    Attributes
    ----------
    matrix
        Shape (p, p).
    df
        Degrees of freedom of intervals: clusters less one.
    """

    matrix: Array
    df: int


class RecursiveFit:
    """A law's least squares fit, refitted after each trial.

    Parameters
    ----------
    outcome
        Variable of the law.
    parameters
        Names, in the order of the design rows.

    Notes
    -----
    The time of `add`, `remove` and `fitted` is that of a few factorisations of a (p + 1) by (p + 1) triangle. A
    cluster-robust covariance needs the residuals at the newest estimate, summed per cluster against the design
    rows; both come from one more triangle per cluster, which holds that cluster's rows alone. Its time grows
    with the number of clusters, not of trials; 8 (p + 1)^2 bytes are kept for each.
    """

    def __init__(self, outcome: str, parameters: Sequence[str]) -> None:
        self.outcome = outcome
        self.parameters = tuple(parameters)
        self.triangle = Triangle.empty(len(self.parameters))
        self._places: dict[str, int] = {}
        self._clusters = np.zeros((0, *self.triangle.factor.shape))

    def add(
        self,
        rows: Array,
        response: Array,
        *,
        weights: Array | None = None,
        offsets: Array | None = None,
        cluster: str | None = None,
    ) -> None:
        """Take in one more trial, or many.

        Parameters
        ----------
        rows
            Design rows, shape (m, p).
        response
            Outcome less `offsets`, the part of the law without any parameter, shape (m,).
        weights
            Inverse of each trial's variance, up to one factor for all, shape (m,); left out, they are one.
        offsets
            Shape (m,); left out, they are zero.
        cluster
            The trials' cluster; given for all trials of a fit, or for none.

        Raises
        ------
        InputError
            If a number is not finite, a weight is not positive, or some trials have a cluster and some have none.
        """
        _check(rows, response, weights, offsets)
        if self.triangle.n and (cluster is None) == bool(self._places):
            raise InputError("some trials have a cluster and some have none", hint="give all of them one, or none")
        self.triangle = self.triangle.with_rows(rows, response, weights=weights, offsets=offsets)
        if cluster is not None:
            place = self._place_of(cluster)
            table = weighted_table(rows, response, weights)
            self._clusters[place] = triangle_of(np.vstack([self._clusters[place], table]))

    def _place_of(self, cluster: str) -> int:
        place = self._places.setdefault(cluster, len(self._places))
        if place == len(self._clusters):  # twice the room, so that all additions together cost one pass
            more = np.zeros((max(4, place), *self.triangle.factor.shape))
            self._clusters = np.concatenate([self._clusters, more])
        return place

    def remove(self, row: Array, response: float, *, weight: float = 1.0, offset: float = 0.0) -> None:
        """Take out a trial that was taken in, such as one that turned out to be invalid.

        Raises
        ------
        LossOfPrecision
            If the fit of the other trials would lose its digits, or the trials have clusters, of which most know
            too little for a removal; add the others to a new fit then. The fit is as before.
        """
        if self._places:
            raise LossOfPrecision("trials in clusters cannot be taken out one by one; fit the others anew")
        _check(row[None, :], np.array([response]), np.array([weight]), np.array([offset]))
        self.triangle = self.triangle.without_row(row, response, weight=weight, offset=offset)

    def fitted(self) -> LinearFit:
        """The fit of all trials so far.

        Raises
        ------
        NotIdentified
            If there are too few, or they cannot tell some parameters apart.
        """
        return self.triangle.fitted(self.parameters, self.outcome)

    def cluster_covariance(self) -> ClusterCovariance:
        """Covariance of the parameters, robust against errors that trials of one cluster share.

        Raises
        ------
        NotIdentified
            As `fitted`, or if there are fewer than two clusters.

        Notes
        -----
        The sandwich ``B (sum of s s') B`` with ``s = X_g' e_g`` for each cluster g and B the inverse of X'X
        (Liang and Zeger, Biometrika 73, 1986), times G / (G - 1) (n - 1) / (n - p). Of a cluster's triangle,
        ``R_g'`` times ``Q_g' y - R_g b`` is s, without the cancellation of ``X_g' y - X_g' X_g b``.
        """
        fit = self.fitted()
        clusters = len(self._places)
        if clusters < 2:
            raise NotIdentified(
                f"the trials have {clusters} clusters, and an interval across clusters needs two",
                hint="run trials on a second node, or ask for ordinary intervals",
            )
        triangles = self._clusters[:clusters]
        residuals = triangles @ np.append(-fit.values, 1.0)
        scores = np.einsum("gqp,gq->gp", triangles[:, :, :-1], residuals)
        half = (scores @ fit.root) @ fit.root.T
        correction = clusters / (clusters - 1) * (fit.n - 1) / fit.df
        return ClusterCovariance(correction * (half.T @ half), clusters - 1)

    def state(self) -> RecursiveState:
        """All that is known, as plain data."""
        return RecursiveState(
            outcome=self.outcome,
            parameters=self.parameters,
            factor=_plain(self.triangle.factor),
            moments=self.triangle.moments,
            clusters=tuple(
                ClusterState(name, _plain(self._clusters[place])) for name, place in self._places.items()
            ),
        )

    @classmethod
    def from_state(cls, state: RecursiveState) -> RecursiveFit:
        """Go on where `state` was taken; every later fit is the same to the last digit."""
        fit = cls(state.outcome, state.parameters)
        fit.triangle = Triangle(np.array(state.factor), state.moments)
        for cluster in state.clusters:
            place = fit._place_of(cluster.name)
            fit._clusters[place] = np.array(cluster.factor)
        return fit


def _check(rows: Array, response: Array, weights: Array | None, offsets: Array | None) -> None:
    given = [rows, response, *(one for one in (weights, offsets) if one is not None)]
    if not all(np.isfinite(one).all() for one in given):
        raise InputError("a trial has a number that is not finite", hint="leave such trials out")
    if weights is not None and not (weights > 0).all():
        raise InputError("a trial's weight is not positive", hint="leave trials without weight out")


def _plain(matrix: Array) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())
