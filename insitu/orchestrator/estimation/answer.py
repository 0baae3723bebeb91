"""The answer to a plan's goal, from fitted laws: it ends an experiment, is reported, and makes the exit code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.composite import Parameters
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.target import Target, Wanted
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.questions.model import match
from insitu.orchestrator.estimation.questions.support import why_outside
from insitu.orchestrator.estimation.rivals.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Part:
    """One number that the goal asks for, in the unit in which it is reported.

    Attributes
    ----------
    relative_half_width
        Half the interval's width over the size of the number, or of the largest where causes are compared;
        infinite for zero, or where the trials do not tell.
    problem
        Why it is not known; empty if it is.
    """

    wanted: Wanted
    value: float
    low: float
    high: float
    relative_half_width: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the goal asks for, as far as the trials tell it.

    Attributes
    ----------
    confidence
        Of each interval.
    inflation
        What plain intervals were multiplied by, since the trials could end as soon as they were narrow enough.
    verdict
        Of a goal that compares two laws, which has no parts.
    outside
        Why places that the goal asks about lie outside the trials; empty inside.
    """

    parts: tuple[Part, ...]
    confidence: float
    inflation: float = 1.0
    verdict: Verdict | None = None
    outside: tuple[str, ...] = ()

    @property
    def half_width(self) -> float:
        """The worst relative half width; infinite without any part."""
        return max((part.relative_half_width for part in self.parts), default=math.inf)


def answer(target: Target, fits: Mapping[str, Fit], confidence: float, inflation: float = 1.0) -> Answer:
    """Answer a goal from the fits of all laws that it needs.

    Parameters
    ----------
    fits
        By the variable that the law gives.
    inflation
        As `insitu.orchestrator.design.looks.Looks` has it; 1 for an experiment of a fixed size.
    """
    from scipy import stats

    laws = target.composite.laws
    whole = {law.variable: _Whole.of(law, fits[law.variable]) for law in laws}
    values = {name: one.values for name, one in whole.items()}
    found, slopes = target.values(values), target.gradients(values)
    variances = np.zeros(len(target.wanted))
    unknown: list[list[str]] = [[] for _ in target.wanted]
    for name, rows in slopes.items():
        variances += np.einsum("kp,pq,kq->k", rows, whole[name].covariance, rows)
        for index, row in enumerate(rows):
            unknown[index] += [one for one, slope in zip(whole[name].names, row, strict=True) if slope and one]
    df = min(fits[law.variable].df for law in laws)
    halves = inflation * float(stats.t.ppf((1 + confidence) / 2, df)) * np.sqrt(np.maximum(variances, 0.0))
    parts = [
        _part(one, float(value), float(half), float(size), missing)
        for one, value, half, size, missing in zip(
            target.wanted, found, halves, target.sizes(values), unknown, strict=True
        )
    ]
    if not len(target.weights):  # it asks for the parameters of the outcome's law
        parts = [_within_bounds(part, laws[-1], fits[laws[-1].variable], inflation) for part in parts]
    return Answer(tuple(parts), confidence, inflation, outside=_outside(target, fits, values))


def _outside(target: Target, fits: Mapping[str, Fit], values: Parameters) -> tuple[str, ...]:
    """Why places of a goal lie outside the trials of the laws that it goes through."""
    if not len(target.weights):
        return ()
    known = target.composite.means(values, target.levels)
    laws = [match(fits[law.variable], law) for law in target.composite.laws]
    reasons = [
        reason
        for place in range(target.weights.shape[1])
        for law in laws
        for reason in why_outside(law, {name: float(levels[place]) for name, levels in known.items()})
    ]
    return tuple(dict.fromkeys(reasons))


def _part(wanted: Wanted, value: float, half: float, size: float, unknown: Sequence[str]) -> Part:
    if unknown or not math.isfinite(value):
        why = f"{' and '.join(unknown)} was not estimated" if unknown else "the law is not defined there"
        return Part(wanted, math.nan, -math.inf, math.inf, math.inf, why)
    ends = sorted(((value - half) * wanted.scale, (value + half) * wanted.scale))
    relative = half / size if size else math.inf
    return Part(wanted, value * wanted.scale, ends[0], ends[1], relative)


def _within_bounds(part: Part, law: Law, fit: Fit, inflation: float) -> Part:
    """A parameter's interval without what its bounds exclude; of one that stands at a bound, as its fit has it.

    The covariance takes a bound that was met for known, so that it says nothing of such a parameter.
    """
    name, bounds = part.wanted.name, law.bounds.get(part.wanted.name)
    if bounds is None or part.problem:
        return part
    low, high, half = part.low, part.high, part.relative_half_width
    if name in fit.at_bound:
        estimate = next(one for one in fit.estimates if one.name == name)
        away = inflation * max(estimate.reported_high - part.value, part.value - estimate.reported_low)
        low, high = part.value - away, part.value + away
        half = away / abs(part.value) if part.value else math.inf
    ends = sorted((bounds.low * part.wanted.scale, bounds.high * part.wanted.scale))
    return replace(part, low=max(low, ends[0]), high=min(high, ends[1]), relative_half_width=half)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A fit brought to all the parameters of its law: those that were not estimated are zero, and named."""

    values: Array
    covariance: Array
    names: tuple[str, ...]

    @staticmethod
    def of(law: Law, fit: Fit) -> _Whole:
        place = {name: index for index, name in enumerate(law.parameters)}
        at = [place[estimate.name] for estimate in fit.estimates]
        values, covariance = np.zeros(len(place)), np.zeros((len(place), len(place)))
        values[at] = [estimate.base for estimate in fit.estimates]
        covariance[np.ix_(at, at)] = np.array(fit.covariance)
        return _Whole(values, covariance, tuple(n if n in fit.not_estimated else "" for n in law.parameters))
