"""Whether one law is contained in another, and how likely trials are where a difference of the two matters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.law import Link
from insitu.orchestrator.causal.rank import RANK_TOLERANCE
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.fitting.data import FitData
from insitu.orchestrator.estimation.fitting.solution import Task
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.estimation.rivals.at_best import best_likelihood
from insitu.orchestrator.estimation.rivals.foretelling import FINEST, is_plain

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.plan.types import Variable

_SAME = 1e-6
"""Relative difference of two predictions below which they are one."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A law at all trials that a plan allows.

    Attributes
    ----------
    values
        Of its parameters, base units, shape (p,): estimates, or nominal ones before any trial.
    levels
        Of its parents at the m trials, each of shape (m,).
    """

    law: Law
    values: Array
    levels: Mapping[str, Array]

    @cached_property
    def means(self) -> Array:
        """Shape (m,)."""
        return self.law.mean(self.values, self.levels)

    @cached_property
    def slopes(self) -> Array:
        """Derivatives of the means by the parameters, shape (m, p)."""
        return self.law.gradient(self.values, self.levels)


def contains(large: Placed, small: Placed) -> bool:
    """Whether one law, with parameters to suit, predicts at all allowed trials what the other does.

    Notes
    -----
    Exact where both laws are linear in their parameters. Elsewhere it is found at the values of the smaller law:
    its predictions and their derivatives have to lie within the reach of the larger one.
    """
    if large.law.noise is not small.law.noise:
        return False
    finite = _where_finite(large, small)
    if not finite.any():
        return False
    if all(one.law.linear and one.law.link is Link.IDENTITY for one in (large, small)):
        between = small.law.offsets(small.levels) - large.law.offsets(large.levels)
        return _spanned(np.column_stack([small.slopes, between])[finite], large.slopes[finite])
    near = replace(large, values=nearest_values(large, small.means, finite))
    scale = np.abs(small.means[finite]).max()
    if not np.abs(near.means - small.means)[finite].max() <= _SAME * scale:
        return False
    return _spanned(small.slopes[finite], near.slopes[finite], tolerance=1e-4)


def _where_finite(first: Placed, second: Placed) -> npt.NDArray[np.bool_]:
    """At which places both laws have a derivative, shape (m,)."""
    return np.asarray(np.isfinite(np.hstack([first.slopes, second.slopes])).all(axis=1))


def nearest_values(placed: Placed, means: Array, finite: npt.NDArray[np.bool_]) -> Array:
    """Values of the parameters with which a law comes nearest to some predictions, shape (p,).

    Parameters
    ----------
    finite
        The places that count, shape (m,).
    """
    from scipy import optimize

    scale = np.where(placed.values == 0, 1.0, np.abs(placed.values))

    def missing(scaled: Array) -> Array:
        found = placed.law.mean(scaled * scale, placed.levels)[finite] - means[finite]
        return np.asarray(np.nan_to_num(found, nan=1e150, posinf=1e150, neginf=-1e150))

    start = placed.values / scale
    tight = 1e-14
    found = optimize.least_squares(missing, start, x_scale="jac", xtol=tight, ftol=tight, gtol=tight, max_nfev=200)
    values: Array = found.x * scale
    return values


def _spanned(columns: Array, basis: Array, tolerance: float = 1e-9) -> bool:
    """Whether all columns lie in the span of the basis."""
    lengths = np.linalg.norm(columns, axis=0)
    left = columns - _onto(basis, columns)
    return bool((np.linalg.norm(left, axis=0) <= tolerance * np.where(lengths > 0, lengths, 1.0)).all())


def _onto(basis: Array, columns: Array) -> Array:
    """Columns projected on the span of a basis, of the same shape."""
    lengths = np.linalg.norm(basis, axis=0)
    scaled = basis[:, lengths > 0] / lengths[lengths > 0]
    left, strengths, _ = np.linalg.svd(scaled, full_matrices=False)
    kept = left[:, strengths > 1e-10 * strengths.max(initial=1.0)]
    found: Array = kept @ (kept.T @ columns)
    return found


def likelihood_beyond(
    large: Placed,
    small: Placed,
    data: FitData,
    variables: Mapping[str, Variable],
    finest: float,
    tolerance: float,
) -> float:
    """As `best_likelihood` of the larger law, whose parameters are such that the difference matters.

    That is: at some trial that the plan allows, it lies away from the nearest that the smaller law can give by
    more than a share `tolerance` of that.

    Notes
    -----
    Each allowed trial and each sign asks that a linear function of the parameters is not negative. Where the best
    parameters miss that by h, the least rise of the squared residuals is ``h^2 / (g' (X'X)^-1 g)`` with g the
    function's slope (a Lagrange multiplier); the largest likelihood is that of the trial with the least rise. For
    a law that is not linear in its parameters, or has relative noise, this is of first order. Bounds of the
    larger law are left out, which can only make it likelier.
    """
    law = replace(large.law, bounds={})
    best = best_likelihood(law, data, variables, finest)
    fit = _solved(law, data, variables)
    if fit is None:
        return best
    least = least_rise(replace(large, law=law, values=fit.values), small, fit.inverse_gram, tolerance)
    if least == 0 or math.isinf(best):
        return best
    count = len(data.observed)
    least_squares = count * (FINEST if law.relative_noise else finest) ** 2
    return best - count / 2 * math.log1p(least / max(fit.squares, least_squares))


def least_rise(there: Placed, small: Placed, inverse_gram: Array, tolerance: float) -> float:
    """By how much the squared residuals rise, in units of the noise, where the difference comes to matter.

    Parameters
    ----------
    there
        The larger law at the parameters with the least squares.
    inverse_gram
        Of its parameters, shape (p, p): how the squares rise away from there.
    """
    finite = _where_finite(there, small)
    slopes, basis = there.slopes[finite], small.slopes[finite]
    away = (there.means - small.means)[finite]
    own, turned = away - _onto(basis, away[:, None])[:, 0], slopes - _onto(basis, slopes)
    common = there.means[finite] - own
    sign = np.where(common < 0, -1.0, 1.0)
    least = math.inf
    for side in (1.0, -1.0):
        short = tolerance * np.abs(common) - side * own
        slope = side * turned - tolerance * sign[:, None] * (slopes - turned)
        room = np.einsum("mp,pq,mq->m", slope, inverse_gram, slope)
        with np.errstate(all="ignore"):
            rise = np.where(short <= 0, 0.0, np.where(room > 0, short**2 / room, math.inf))
        least = min(least, float(rise.min(initial=math.inf)))
    return least


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    """Values with the least squares in units of the noise, and how these rise away from there."""

    values: Array
    inverse_gram: Array
    squares: float


def _solved(law: Law, data: FitData, variables: Mapping[str, Variable]) -> _Solved | None:
    if not is_plain(law):
        try:
            fit = solve(Task(law, data, variables))
        except NotIdentified:
            return None
        return _Solved(fit.values, fit.inverse_gram, float(fit.residuals @ fit.residuals))
    rows, response = law.design_matrix(data.columns), data.observed - law.offsets(data.columns)
    lengths = np.linalg.norm(rows, axis=0)
    if len(rows) <= len(lengths) or not lengths.all():
        return None
    left, strengths, right = np.linalg.svd(rows / lengths, full_matrices=False)
    if strengths[-1] < RANK_TOLERANCE * strengths[0]:
        return None
    root = right.T / strengths / lengths[:, None]
    values = root @ (left.T @ response)
    residuals = response - rows @ values
    return _Solved(values, root @ root.T, float(residuals @ residuals))
