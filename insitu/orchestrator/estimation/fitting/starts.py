"""Where the search for the parameters of a curved law starts: declared values, bounds, and the sizes in the data.

Parameters in which the law is linear once the others stand need no start: least squares gives them. The others
are tried at points of a low-discrepancy sequence, so that the same trials always give the same fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.data import FitData
from insitu.orchestrator.plan.law_kinds import Bounds, Link

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

_POINTS = 20
"""Tried per curved parameter, before the best of them are searched from."""
_MOST_POINTS = 128
_DECADES = 1.5
"""How far from a size in the data a parameter is tried, each way."""
_WIDE = 100.0
"""Ratio of two bounds from which the space between them is divided by ratios."""
_GENERIC = 1.25
"""A value of no special meaning, to look at the shape of a law."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How the parameters of a law enter it, each of shape (p,).

    Attributes
    ----------
    straight
        Those in which the right side is linear together, once the others stand.
    low, high
        Bounds in base units.
    """

    straight: npt.NDArray[np.bool_]
    low: Array
    high: Array


def shape_of(law: Law) -> Shape:
    """Sort a law's parameters: of two that multiply each other, the first is straight."""
    straight: list[str] = []
    for name in law.parameters:
        others = {other: _GENERIC for other in law.parameters if other not in (*straight, name)}
        if law.linear or law.holding(others).linear:
            straight.append(name)
    bounds = [law.bounds.get(name, Bounds()) for name in law.parameters]
    return Shape(
        straight=np.array([name in straight for name in law.parameters], dtype=np.bool_),
        low=np.array([one.low for one in bounds], dtype=np.float64),
        high=np.array([one.high for one in bounds], dtype=np.float64),
    )


def starting_points(law: Law, data: FitData, most: int) -> tuple[Array, ...]:
    """The most promising points to search from, best first.

    Returns
    -------
    tuple of numpy.ndarray
        At most `most`, each of shape (p,) and strictly within the bounds; empty where the law is finite at none.
    """
    shape = shape_of(law)
    curved = [index for index, straight in enumerate(shape.straight) if not straight]
    tried = []
    for point in _candidates(law, data, shape, curved):
        whole = inside(_completed(law, data, shape, point), shape)
        misfit = _misfit(law, data, whole)
        if math.isfinite(misfit):
            tried.append((misfit, whole))
    tried.sort(key=lambda one: one[0])
    chosen: list[Array] = []
    for _, whole in tried:
        if len(chosen) < most and not any(np.allclose(whole, other, rtol=1e-3, atol=0) for other in chosen):
            chosen.append(whole)
    return tuple(chosen)


def inside(values: Array, shape: Shape) -> Array:
    """Values moved strictly within their bounds, where a search can start."""
    width = np.where(np.isfinite(shape.high - shape.low), shape.high - shape.low, np.maximum(np.abs(values), 1.0))
    margin = 1e-3 * width
    return np.clip(values, shape.low + margin, shape.high - margin)


def _candidates(law: Law, data: FitData, shape: Shape, curved: Sequence[int]) -> list[Array]:
    """Values of the curved parameters to try, shape (p,), the straight ones zero."""
    from scipy.stats import qmc

    declared = np.array([law.starts.get(name, math.nan) for name in law.parameters])
    if not curved:
        return [np.zeros(len(law.parameters))]
    count = min(_MOST_POINTS, _POINTS * len(curved))
    if np.isfinite(declared[curved]).all():
        count //= 4  # the model knows where; the others are for a mistake in it
    spots = qmc.Halton(2 * len(curved), scramble=False).random(count + 1)[1:]
    sizes = {index: _sizes(law, data, shape, index) for index in curved}
    points = []
    if np.isfinite(declared[curved]).all():
        points.append(np.where(shape.straight, 0.0, declared))
    for spot in spots:
        point = np.zeros(len(law.parameters))
        for place, index in enumerate(curved):
            bounds = Bounds(float(shape.low[index]), float(shape.high[index]))
            which, where = float(spot[2 * place]), float(spot[2 * place + 1])
            point[index] = _drawn(float(declared[index]), bounds, sizes[index], which, where)
        points.append(point)
    return points


def _drawn(declared: float, within: Bounds, sizes: Array, which: float, where: float) -> float:
    """One value for a curved parameter, from two numbers between 0 and 1."""
    low, high = within.low, within.high
    if math.isfinite(low) and math.isfinite(high):
        if low > 0 and high / low > _WIDE:
            return float(low * (high / low) ** where)
        return low + (high - low) * where
    size = declared if math.isfinite(declared) else 0.0
    if not size:
        size = float(sizes[min(int(which * len(sizes)), len(sizes) - 1)])
    value = float(size * 10.0 ** (_DECADES * (2 * where - 1)))
    if value < low:
        return low + abs(value)
    return high - abs(value) if value > high else value


def _sizes(law: Law, data: FitData, shape: Shape, index: int) -> Array:
    """Sizes that a curved parameter may have: those of the variables, and what gives the outcome."""
    outcome = _size(data.observed)
    found = [1.0]
    for name in law.parents:
        size = _size(data.columns[name])
        found += [size, 1 / size, outcome / size]
    for others in (0.0, 1.0):  # what the parameter alone would have to be to give the outcome
        values = np.where(shape.straight, 1.0, others)
        values[index] = 1.0
        with np.errstate(all="ignore"):
            found.append(outcome / _size(law.gradient(values, data.columns)[:, index]))
    positive = [size for size in found if math.isfinite(size) and size > 0]
    signs = (1.0, 1.0, 1.0, -1.0)  # rates and times are seldom negative
    return np.array([sign * size for sign in signs for size in dict.fromkeys(positive)])


def _size(values: Array) -> float:
    known = np.abs(values[np.isfinite(values) & (values != 0)])
    return float(np.median(known)) if len(known) else 1.0


def _completed(law: Law, data: FitData, shape: Shape, point: Array) -> Array:
    """A point with its straight parameters found by least squares within their bounds."""
    from scipy.optimize import lsq_linear

    straight = shape.straight
    if not straight.any():
        return point
    base = np.where(straight, 0.0, point)
    with np.errstate(all="ignore"):
        right, mean = law.right_side(base, data.columns), law.mean(base, data.columns)
        rows = law.gradient(base, data.columns)[:, straight]
        target = data.observed
        if law.link is Link.LOG:
            rows, target = rows / mean[:, None], np.log(np.where(data.observed > 0, data.observed, np.nan))
        weights = 1 / np.abs(target) if law.relative_noise and law.link is Link.IDENTITY else np.ones_like(target)
        weights = np.where(np.isfinite(weights), weights, 0.0)
        left, columns = (target - right) * weights, rows * weights[:, None]
        usable = np.isfinite(left) & np.isfinite(columns).all(axis=1)
        scales = np.linalg.norm(columns[usable], axis=0)
    scales[scales == 0] = 1.0
    if not usable.any() or not np.isfinite(scales).all():
        return np.full_like(point, np.nan)
    low, high = shape.low[straight] * scales, shape.high[straight] * scales
    whole = base.copy()
    if np.isinf(low).all() and np.isinf(high).all():
        whole[straight] = np.linalg.lstsq(columns[usable] / scales, left[usable], rcond=None)[0] / scales
    else:
        found = lsq_linear(columns[usable] / scales, left[usable], bounds=(low, high), method="bvls")
        whole[straight] = found.x / scales
    return whole


def _misfit(law: Law, data: FitData, values: Array) -> float:
    """Sum of squares in units of the noise; infinite where the law is not finite or not positive as it must be."""
    if not np.isfinite(values).all():
        return math.inf
    with np.errstate(all="ignore"):
        mean = law.mean(values, data.columns)
        left = np.log(data.observed) - np.log(mean) if law.relative_noise else data.observed - mean
        total = float(left @ left)
    return total if math.isfinite(total) else math.inf


def silent_parameters(law: Law, columns: Mapping[str, Array]) -> tuple[str, ...]:
    """Parameters that change nothing in any trial, whatever their values: nothing was seen of them."""
    from scipy.stats import qmc

    if law.linear:
        heard = np.count_nonzero(law.design_matrix(columns), axis=0) > 0
    else:
        heard = np.zeros(len(law.parameters), dtype=np.bool_)
        for spot in qmc.Halton(len(law.parameters), scramble=False).random(_MOST_POINTS + 1)[1:]:
            slopes = law.gradient(10.0 ** (24 * spot - 12), columns)
            heard |= np.count_nonzero(np.nan_to_num(slopes, posinf=1.0, neginf=1.0), axis=0) > 0
    return tuple(name for name, one in zip(law.parameters, heard, strict=True) if not one)
