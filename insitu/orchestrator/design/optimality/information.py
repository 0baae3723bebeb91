"""Information, and candidate trials in coordinates in which one is worth about one in every direction.

Parameters have very different sizes (seconds beside seconds per byte and core), so every search below runs in
coordinates in which the mean candidate, with what is known already, has the identity for its information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE
from insitu.orchestrator.design.optimality.criteria import Criterion

RIDGE = 1e-7
"""Trials' worth of the mean candidate that every search starts from, so that singular designs can be compared."""


def stacked(rows: Array) -> Array:
    """Candidate rows of shape (m, p), or (m, k, p) where a trial informs by k of them, as (m, k, p).

    Raises
    ------
    ValueError
        If there are none, or one is not finite.
    """
    rows = np.asarray(rows, dtype=float)
    rows = rows[:, None, :] if rows.ndim == 2 else rows
    if rows.ndim != 3 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(f"candidates are finite rows of parameters, not an array of shape {rows.shape}")
    return rows


def information_of(rows: Array) -> Array:
    """Information of trials with these rows, shape (p, p)."""
    flat = np.asarray(rows, dtype=float).reshape(-1, np.shape(rows)[-1])
    information: Array = flat.T @ flat
    return information


def applied(rows: Array, matrix: Array) -> Array:
    """Rows of shape (m, k, p) times a matrix, shape (p, r), or a vector: as one product of two matrices."""
    product: Array = (rows.reshape(-1, rows.shape[2]) @ matrix).reshape(*rows.shape[:2], *matrix.shape[1:])
    return product


def inverse(information: Array) -> Array:
    """The covariance, symmetric to the last digit."""
    covariance = np.linalg.inv(information)
    symmetric: Array = (covariance + covariance.T) / 2
    return symmetric


def square_root(information: Array) -> Array:
    """Rows that inform as much as a matrix of information, shape (p, p): its ``root.T @ root``.

    Raises
    ------
    ValueError
        If it is not a finite symmetric matrix without negative eigenvalues.
    """
    lengths = np.sqrt(np.abs(np.diag(information)))
    scale = np.where(lengths == 0, 1.0, lengths)
    scaled = information / np.outer(scale, scale)
    if not np.isfinite(scaled).all() or not np.allclose(scaled, scaled.T, rtol=0, atol=1e-9):
        raise ValueError("information is a finite symmetric matrix")
    strengths, directions = np.linalg.eigh(scaled)
    if strengths.size and strengths[0] < -1e-9 * max(1.0, float(strengths[-1])):
        raise ValueError("information has no negative eigenvalues")
    root: Array = np.sqrt(np.maximum(strengths, 0.0))[:, None] * directions.T * scale
    return root


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Candidates, and what is known already, in the searches' coordinates.

    Attributes
    ----------
    transform
        Parameters are this times the coordinates, shape (p, q).
    silent
        Directions in the parameters, each divided by its `scale`, of which neither the candidates nor what is
        known say anything, and which have no coordinate; shape (p - q, p).
    scale
        Shape (p,).
    rows
        Shape (m, k, q).
    information
        What is known, shape (q, q), with `RIDGE` on its diagonal.
    """

    transform: Array
    silent: Array
    scale: Array
    rows: Array
    information: Array

    @classmethod
    def of(cls, rows: Array, information: Array | None) -> Coordinates:
        """Coordinates for candidates of shape (m, k, p)."""
        size = rows.shape[2]
        known = np.zeros((size, size)) if information is None else np.asarray(information, dtype=float)
        if known.shape != (size, size):
            raise ValueError(f"information of shape {known.shape} for {size} parameters")
        root = square_root(known)
        together = information_of(rows) / len(rows) + root.T @ root
        lengths = np.sqrt(np.diag(together))
        scale = np.where(lengths == 0, 1.0, lengths)
        strengths, directions = np.linalg.eigh(together / np.outer(scale, scale))
        told = strengths > RANK_TOLERANCE**2 * max(1.0, float(strengths[-1]))
        if not told.any():
            raise ValueError("no candidate says anything of any parameter")
        transform = directions[:, told] / np.sqrt(strengths[told]) / scale[:, None]
        mapped_root = root @ transform
        count = int(told.sum())
        return cls(
            transform=transform,
            silent=directions[:, ~told].T,
            scale=scale,
            rows=(rows.reshape(-1, size) @ transform).reshape(len(rows), -1, count),
            information=mapped_root.T @ mapped_root + RIDGE * np.eye(count),
        )

    @property
    def parameters(self) -> int:
        return int(self.transform.shape[1])

    def value(self, criterion: Criterion, loss: float) -> float:
        """The criterion's value in the parameters themselves, where its loss in these coordinates is `loss`."""
        if self.parameters < len(self.transform):
            asked = criterion.asked(len(self.transform)) / self.scale[:, None]
            told = np.linalg.norm(self.silent @ asked, axis=0) <= RANK_TOLERANCE * np.linalg.norm(asked, axis=0)
            return criterion.value(loss if asked.shape[1] and told.all() else math.inf)
        return criterion.value(loss, 2 * float(np.linalg.slogdet(self.transform)[1]))
