"""Where a law has data: whether a question lies among the trials, at their edge, or outside them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from insitu.orchestrator.causal.expression import Array, Expression, Index, Is, walk
from insitu.orchestrator.errors import OutsideSupport
from insitu.orchestrator.estimation.fit import Fit, SupportRange
from insitu.orchestrator.estimation.fitting.data import information_rows
from insitu.orchestrator.estimation.questions.model import FittedLaw
from insitu.orchestrator.units import format_quantity

SLACK = 1e-9
"""Relative rounding that a bound forgives."""
NEAR = 0.05
"""Distance from the trials, as a share of what they span in each variable, that still counts as among them."""
LIKE = 0.1
"""Likewise, for a trial to be like the question."""
_WIDE = 8.0
"""Ratio of the highest to the lowest level beyond which levels are compared by their logarithms."""


class Place(StrEnum):
    """Where a question lies."""

    INSIDE = "inside"
    """Among the trials: a mixture of their levels, or nearly one."""
    EDGE = "edge"
    """Each level by itself was tried, but no trials lie around the combination."""
    OUTSIDE = "outside"
    """Beyond the levels or the leverage of the trials: answered on demand only."""


@dataclass(frozen=True, slots=True)
class Support:
    """Where a question lies, and why there.

    Attributes
    ----------
    like_trials
        Fitted trials of which every level is near the question's.
    """

    place: Place
    why: tuple[str, ...]
    like_trials: int


def span_text(support: SupportRange) -> str:
    """The levels that trials had, in words."""
    if math.isnan(support.low):
        return "it unlimited, always"
    return f"{format_quantity(support.low, support.unit)} to {format_quantity(support.high, support.unit)}"


def why_level_outside(support: SupportRange, level: float) -> str:
    """Why a level is outside the trials; empty if it is not."""
    if math.isinf(level) and level > 0:
        if support.natural is not None and math.isinf(support.natural):
            return ""
        return f"no trial left {support.variable} unlimited; the trials have {span_text(support)}"
    if support.low - abs(support.low) * SLACK <= level <= support.high + abs(support.high) * SLACK:
        return ""
    shown = format_quantity(level, support.unit)
    return f"{support.variable} = {shown} is outside the trials, which have {span_text(support)}"


def leverage_at(fitted: FittedLaw, levels: Mapping[str, float]) -> float:
    """Distance from the trials in the sense of the fit: x' (X'X)^-1 x, with x the row of these levels."""
    columns = {name: np.array([level]) for name, level in levels.items()}
    row = information_rows(fitted.law, fitted.fit.values, columns)[0]
    return float(row @ np.array(fitted.fit.inverse_gram) @ row)


def why_leverage_outside(fit: Fit, leverage: float) -> str:
    """Why a combination of levels is outside the trials; empty if it is not."""
    if leverage <= fit.max_leverage * (1 + SLACK):
        return ""
    return (
        f"the combination of levels lies outside the trials: its leverage is {leverage:.3g}, "
        f"theirs at most {fit.max_leverage:.3g}"
    )


def why_outside(fitted: FittedLaw, levels: Mapping[str, float]) -> tuple[str, ...]:
    """Every reason why levels of a law's parents are outside its trials."""
    fit = fitted.fit
    words = _with_categories(fitted.law.expression)  # these have no range; `question.pose` looks at them
    beyond = tuple(
        reason
        for support in fit.support
        if support.variable in levels
        and support.variable not in words
        and (reason := why_level_outside(support, levels[support.variable]))
    )
    if beyond:
        return beyond
    reason = why_leverage_outside(fit, leverage_at(fitted, {name: levels[name] for name in fitted.law.parents}))
    return (reason,) if reason else ()


def refuse(outside: Iterable[str], *, extrapolate: bool) -> None:
    """Refuse what lies outside the support, unless it was asked for.

    Raises
    ------
    OutsideSupport
        With every reason.
    """
    reasons = tuple(dict.fromkeys(outside))
    if reasons and not extrapolate:
        raise OutsideSupport(
            "; ".join(reasons),
            hint="ask within that range, or extrapolate with --extrapolate (in Python: extrapolate=True)",
        )


def refuse_unestimated(fitted: FittedLaw, levels: Mapping[str, float]) -> None:
    """Refuse levels at which a term that was never seen at work is not zero: no extrapolation helps there.

    Raises
    ------
    OutsideSupport
        With the parameter and its term.
    """
    for name in fitted.fit.not_estimated:
        others = [other for other in fitted.whole.parameters if other != name]
        alone = fitted.whole.without(others)
        here = {parent: np.array([levels[parent]]) for parent in alone.parents}
        if alone.linear and alone.design_matrix(here)[0].any():
            term = fitted.whole.term_texts[name]
            raise OutsideSupport(
                f"{name} was not estimated: {term} was zero in every trial, and is not here",
                hint="run the plan where its variables can be set",
            )


def support_of(
    fitted: FittedLaw, levels: Mapping[str, float], settled: Collection[str], outside: tuple[str, ...] = ()
) -> Support:
    """Say where a question about a law lies.

    Parameters
    ----------
    levels
        Of the law's parents, and of what else the question settles.
    settled
        What the question settles itself: a trial is like it if these levels are near.
    outside
        Why it is outside, if that is known already.
    """
    tried = fitted.tried
    words = {name for name in _with_categories(fitted.law.expression) if name in tried}
    same = np.ones(len(fitted.fit.points), dtype=np.bool_)
    for name in words:
        same &= tried[name] == levels[name]
    place = {
        name: _in_spans(np.append(tried[name][same], levels[name]))
        for name in levels
        if name in tried and name not in words and (name in settled or name in fitted.law.parents)
    }
    near = np.ones(int(same.sum()), dtype=np.bool_)
    for name, scaled in place.items():
        if name in settled:
            near &= np.abs(scaled[:-1] - scaled[-1]) <= LIKE
    like = int(near.sum())
    outside = outside or why_outside(fitted, levels)
    if outside:
        return Support(Place.OUTSIDE, outside, like)
    parents = [scaled for name, scaled in place.items() if name in fitted.law.parents]
    if len(near) == 0 or (parents and _distance_from_hull(np.column_stack(parents)) > NEAR):
        why = f"no trials of {fitted.variable} lie around this combination of levels"
        return Support(Place.EDGE, (why,), like)
    return Support(Place.INSIDE, (), like)


def _with_categories(law: Expression) -> frozenset[str]:
    """Variables of a law that have words in the place of numbers."""
    found: set[str] = set()
    for node in walk(law):
        if isinstance(node, Index):
            found.update(variable.name for variable in node.by)
        elif isinstance(node, Is):
            found.add(node.variable.name)
    return frozenset(found)


def _in_spans(values: Array) -> Array:
    """One variable's levels in units of what the trials span; the question's is the last."""
    if len(values) == 1:
        return np.zeros(1)
    trials = values[:-1]
    if np.isinf(values).any():  # unlimited: what counts of a rate is how long a unit takes
        with np.errstate(divide="ignore"):
            values = 1.0 / values
    elif trials.min() > 0 and values[-1] > 0 and trials.max() / trials.min() > _WIDE:
        values = np.log(values)
    span = float(np.ptp(values[:-1]))
    size = span if span > SLACK * float(np.abs(values[:-1]).max()) else max(float(np.abs(values[0])), 1e-300)
    scaled: Array = (values - values[0]) / size
    return np.nan_to_num(scaled, nan=1e9, posinf=1e9, neginf=-1e9)


def _distance_from_hull(points: Array) -> float:
    """How far the last point is from the nearest mixture of the others, in the variable in which it is farthest.

    Notes
    -----
    A linear program: weights that are not negative and add up to one, and a distance to be least.
    """
    from scipy.optimize import linprog

    trials, asked = points[:-1], points[-1]
    count, size = trials.shape
    if np.any(np.all(np.abs(trials - asked) <= NEAR, axis=1)):
        return 0.0
    column = np.ones((size, 1))
    found = linprog(
        c=np.append(np.zeros(count), 1.0),
        A_ub=np.block([[trials.T, -column], [-trials.T, -column]]),
        b_ub=np.concatenate([asked, -asked]),
        A_eq=np.append(np.ones(count), 0.0)[None, :],
        b_eq=[1.0],
        method="highs",
    )
    return float(found.fun) if found.success else math.inf
