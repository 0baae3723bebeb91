"""Answers from a fitted law: what would happen if, and how large is an effect; always with intervals."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError, OutsideSupport
from insitu.orchestrator.estimation.data import LawAt, evaluate
from insitu.orchestrator.estimation.fit import Fit, SupportRange
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law

_SLACK = 1e-9
"""Relative rounding that a bound forgives."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outcome at some levels, base units.

    Attributes
    ----------
    mean, mean_low, mean_high
        The mean over many trials, with its confidence interval.
    low, high
        Prediction interval of one new trial.
    levels, units
        Of every variable in the law.
    defaults
        Variables that the question left out and that stand at the baseline.
    leverage
        Against ``Fit.max_leverage``: how far out the question lies.
    extrapolated
        Why the question is outside the data's support; empty inside it.
    """

    outcome: str
    unit: str
    confidence: float
    mean: float
    mean_low: float
    mean_high: float
    low: float
    high: float
    levels: dict[str, float]
    units: dict[str, str]
    defaults: tuple[str, ...]
    leverage: float
    extrapolated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Effect:
    """Change of the outcome's mean when one variable goes from ``low`` to ``high``, base units.

    Attributes
    ----------
    relative_half_width
        Half the interval's width over the size of the change; infinite for no change.
    at
        Levels of the other variables, of which ``defaults`` stand at the baseline.
    """

    cause: str
    cause_unit: str
    outcome: str
    unit: str
    confidence: float
    low: float
    high: float
    change: float
    change_low: float
    change_high: float
    relative_half_width: float
    at: dict[str, float]
    units: dict[str, str]
    defaults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Question:
    levels: dict[str, float]
    defaults: tuple[str, ...]
    outside: tuple[str, ...]


def whatif(fit: Fit, law: Law, do: Mapping[str, float], extrapolate: bool = False) -> Prediction:
    """Predict the outcome under do(variable := level).

    Parameters
    ----------
    do
        Base-unit levels; infinity is *unlimited*. Variables left out stand at the baseline.
    extrapolate
        Answer outside the data's support too, and say so in the answer.

    Raises
    ------
    OutsideSupport
        If the data have nothing to say about these levels.
    InputError
        If a name is not in the law, a level has no default, or the law is not defined there.
    """
    whole, law = law, _estimated_part(fit, law)
    question = _ask(fit, law, do)
    _refuse_unestimated(fit, whole, question.levels)
    here = _evaluated(fit, law, question.levels)
    leverage = float(here.row @ np.array(fit.inverse_gram) @ here.row)
    outside = question.outside
    if not outside and leverage > fit.max_leverage * (1 + _SLACK):
        outside = (
            f"the combination of levels lies outside the trials: its leverage is {leverage:.3g}, "
            f"theirs at most {fit.max_leverage:.3g}",
        )
    _refuse(outside, extrapolate)
    mean = float(here.row @ _parameters(fit)) + here.offset
    half_mean = _t_quantile(fit) * fit.sigma * math.sqrt(leverage)
    half_new = _t_quantile(fit) * fit.sigma * math.sqrt(1 + leverage)
    return Prediction(
        outcome=fit.outcome,
        unit=fit.unit,
        confidence=fit.confidence,
        mean=mean,
        mean_low=mean - half_mean,
        mean_high=mean + half_mean,
        low=mean - half_new,
        high=mean + half_new,
        levels=question.levels,
        units={support.variable: support.unit for support in fit.support},
        defaults=question.defaults,
        leverage=leverage,
        extrapolated=outside,
    )


def effect(
    fit: Fit,
    law: Law,
    cause: str,
    low: float,
    high: float,
    at: Mapping[str, float] | None = None,
    extrapolate: bool = False,
) -> Effect:
    """Estimate the change of the outcome's mean when `cause` goes from `low` to `high`.

    The other variables stand `at` their levels, or at the baseline.

    Raises
    ------
    OutsideSupport
        If one end lies outside the data's support.
    InputError
        As for `whatif`.
    """
    whole, law = law, _estimated_part(fit, law)
    others = dict(at or {})
    if cause in others:
        raise InputError(f"{cause} is the cause and cannot also stand at a level")
    ends = [_ask(fit, law, {**others, cause: level}) for level in (low, high)]
    for end in ends:
        _refuse_unestimated(fit, whole, end.levels)
    _refuse((*ends[0].outside, *ends[1].outside), extrapolate)
    first, second = (_evaluated(fit, law, end.levels) for end in ends)
    contrast = second.row - first.row
    change = float(contrast @ _parameters(fit)) + second.offset - first.offset
    half = _t_quantile(fit) * math.sqrt(max(0.0, float(contrast @ np.array(fit.covariance) @ contrast)))
    return Effect(
        cause=cause,
        cause_unit=fit.support_of(cause).unit,
        outcome=fit.outcome,
        unit=fit.unit,
        confidence=fit.confidence,
        low=ends[0].levels[cause],
        high=ends[1].levels[cause],
        change=change,
        change_low=change - half,
        change_high=change + half,
        relative_half_width=half / abs(change) if change else math.inf,
        at={name: level for name, level in ends[0].levels.items() if name != cause},
        units={support.variable: support.unit for support in fit.support},
        defaults=ends[0].defaults,
    )


def _refuse_unestimated(fit: Fit, law: Law, levels: Mapping[str, float]) -> None:
    """No extrapolation helps where a term of the law was never seen at work."""
    row = _evaluated(fit, law, levels).row
    for name, value in zip(law.parameters, row, strict=True):
        if name in fit.not_estimated and value:
            raise OutsideSupport(
                f"{name} was not estimated: {law.term_texts[name]} was zero in every trial, and is not here",
                hint="run the plan where its variables can be set",
            )


def _estimated_part(fit: Fit, law: Law) -> Law:
    """The law less what could not be estimated; refuses another law than the fitted one."""
    names = tuple(estimate.name for estimate in fit.estimates)
    law_text, law = law.text, law.without(fit.not_estimated)
    if fit.law != law_text or names != tuple(law.parameters):
        raise InputError(
            f"the fitted law of {fit.outcome} is not the one in the model: {fit.law!r} against {law.text!r}",
            hint="refit with `insitu report`",
        )
    return law


def _ask(fit: Fit, law: Law, do: Mapping[str, float]) -> _Question:
    known = {support.variable: support for support in fit.support}
    for name in do:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InputError(
                f"the law of {fit.outcome} does not mention {name}",
                hint=f"did you mean {near[0]}?" if near else f"it mentions {', '.join(known)}",
            )
    levels: dict[str, float] = {}
    defaults: list[str] = []
    outside: list[str] = []
    for name in law.parents:
        if name in do:
            levels[name] = _resolve(known[name], do[name], outside)
        elif name in fit.baseline:
            levels[name] = fit.baseline[name]
            defaults.append(name)
        else:
            raise InputError(
                f"the question leaves {name} open, and no trial without intervention says where it stands",
                hint=f"add {name}=<level>, between {_span(known[name])}",
            )
    return _Question(levels, tuple(defaults), tuple(outside))


def _resolve(support: SupportRange, level: float, outside: list[str]) -> float:
    if math.isnan(level):
        raise InputError(f"the level of {support.variable} is not a number")
    if math.isinf(level) and level > 0:
        if support.natural is not None:
            return support.natural
        outside.append(f"no trial left {support.variable} unlimited; the trials have {_span(support)}")
        return level
    if not support.low - abs(support.low) * _SLACK <= level <= support.high + abs(support.high) * _SLACK:
        shown = format_quantity(level, support.unit)
        outside.append(f"{support.variable} = {shown} is outside the trials, which have {_span(support)}")
    return level


def _span(support: SupportRange) -> str:
    if math.isnan(support.low):
        return "it unlimited, always"
    return f"{format_quantity(support.low, support.unit)} to {format_quantity(support.high, support.unit)}"


def _refuse(outside: tuple[str, ...], extrapolate: bool) -> None:
    if outside and not extrapolate:
        raise OutsideSupport(
            "; ".join(dict.fromkeys(outside)), hint="ask within that range, or extrapolate with --extrapolate"
        )


def _evaluated(fit: Fit, law: Law, levels: Mapping[str, float]) -> LawAt:
    here = evaluate(law, levels)
    if not here.finite:
        raise InputError(
            f"the law of {fit.outcome} is not defined at "
            + ", ".join(f"{name} = {level:g}" for name, level in levels.items())
        )
    return here


def _parameters(fit: Fit) -> Array:
    return np.array([estimate.base for estimate in fit.estimates])


def _t_quantile(fit: Fit) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + fit.confidence) / 2, fit.df))
