"""Answers from one fitted law: what would happen if, and how large is an effect; always with intervals.

In closed form: exact for a law that is linear in its parameters with normal noise, else to first order in what is
not known of the parameters. Questions that go through several laws are put to `asking`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.fit import Fit, SupportRange
from insitu.orchestrator.estimation.fitting.spread import Spread
from insitu.orchestrator.estimation.questions.columns import Interval
from insitu.orchestrator.estimation.questions.fidelity import Fidelity
from insitu.orchestrator.estimation.questions.model import FittedLaw, match
from insitu.orchestrator.estimation.questions.support import (
    leverage_at,
    refuse,
    refuse_unestimated,
    span_text,
    why_level_outside,
    why_leverage_outside,
)
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law


@dataclass(frozen=True, slots=True)
class Quantile:
    """What a share of trials stays below, with its confidence interval, base units."""

    share: float
    value: float
    low: float
    high: float


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
        Of every variable that the answer starts from, or goes through.
    defaults
        Variables that the question left out and that stand at the baseline.
    leverage
        Against ``Fit.max_leverage``: how far out the question lies; not a number where several laws answer.
    extrapolated
        Why the question is outside the data's support; empty inside it.
    quantiles
        Of the distribution over trials, those that were asked for.
    draws
        How many gave the answer; 0 for one in closed form.
    slack
        Caps that are above what the subject uses anyhow, in words.
    between
        Means of the measured variables on the way to the outcome.
    of_quantile
        Which quantile the law gives in the place of the mean; ``None`` for a mean.
    words
        Of variables with categories: what their numbers stand for.
    fidelity
        How far to trust it; ``None`` where only the law was asked.
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
    quantiles: tuple[Quantile, ...] = ()
    draws: int = 0
    slack: tuple[str, ...] = ()
    between: dict[str, float] = field(default_factory=dict)
    of_quantile: float | None = None
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fidelity: Fidelity | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Change of the outcome's mean when one variable goes from ``low`` to ``high``, base units.

    Attributes
    ----------
    relative_half_width
        Half the interval's width over the size of the change; infinite for no change.
    at
        Levels of the other variables, of which ``defaults`` stand at the baseline.
    extrapolated
        Why an end is outside the data's support; empty inside it.
    slack
        Caps that are above what the subject uses anyhow, in words.
    through
        Measured variables on paths from the cause to the outcome, causes before effects.
    direct
        Whether the outcome's own law has the cause, too.
    words
        Of variables with categories: what their numbers stand for.
    fidelity
        How far to trust it; ``None`` where only the law was asked.
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
    extrapolated: tuple[str, ...] = ()
    slack: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    direct: bool = True
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fidelity: Fidelity | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    levels: dict[str, float]
    defaults: tuple[str, ...]
    outside: tuple[str, ...]


def whatif(fit: Fit, law: Law, do: Mapping[str, float], extrapolate: bool = False) -> Prediction:
    """Predict the outcome of one law under do(variable := level).

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
    fitted = match(fit, law)
    question = _ask(fitted, do)
    refuse_unestimated(fitted, question.levels)
    answer = predict(fitted, question.levels)
    reason = why_leverage_outside(fit, answer.leverage)
    outside = question.outside or ((reason,) if reason else ())
    refuse(outside, extrapolate=extrapolate)
    return replace(answer, defaults=question.defaults, extrapolated=outside)


def effect(
    fit: Fit,
    law: Law,
    cause: str,
    low: float,
    high: float,
    at: Mapping[str, float] | None = None,
    extrapolate: bool = False,
) -> Effect:
    """Estimate the change of the outcome's mean when `cause` goes from `low` to `high`, by one law.

    The other variables stand `at` their levels, or at the baseline.

    Raises
    ------
    OutsideSupport
        If one end lies outside the data's support.
    InputError
        As for `whatif`.
    """
    fitted = match(fit, law)
    others = dict(at or {})
    if cause in others:
        raise InputError(f"{cause} is the cause and cannot also stand at a level")
    ends = [_ask(fitted, {**others, cause: level}) for level in (low, high)]
    for end in ends:
        refuse_unestimated(fitted, end.levels)
    outside = tuple(dict.fromkeys((*ends[0].outside, *ends[1].outside)))
    refuse(outside, extrapolate=extrapolate)
    change = contrast(fitted, ends[0].levels, ends[1].levels)
    half = (change.high - change.low) / 2
    return Effect(
        cause=cause,
        cause_unit=fit.support_of(cause).unit,
        outcome=fit.outcome,
        unit=fit.unit,
        confidence=fit.confidence,
        low=ends[0].levels[cause],
        high=ends[1].levels[cause],
        change=change.value,
        change_low=change.low,
        change_high=change.high,
        relative_half_width=half / abs(change.value) if change.value else math.inf,
        at={name: level for name, level in ends[0].levels.items() if name != cause},
        units={support.variable: support.unit for support in fit.support},
        defaults=ends[0].defaults,
        extrapolated=outside,
    )


def predict(fitted: FittedLaw, levels: Mapping[str, float]) -> Prediction:
    """Predict what a law gives at levels of all its parents; whether they are inside the support is not asked.

    Raises
    ------
    InputError
        If the law is not defined there.
    """
    fit = fitted.fit
    here = mean_at(fitted, levels)
    mean, error = np.array([here.mean]), np.array([here.error(fit)])
    spread = Spread(fit.link, fit.noise, fit.sigma, fit.sigma_df, fit.df)
    band = spread.mean_band(mean, error, fit.confidence)
    trial = band if fit.method is Method.QUANTILE else spread.trial_band(mean, error, fit.confidence)
    return Prediction(
        outcome=fit.outcome,
        unit=fit.unit,
        confidence=fit.confidence,
        mean=here.mean,
        mean_low=float(band.low[0]),
        mean_high=float(band.high[0]),
        low=float(trial.low[0]),
        high=float(trial.high[0]),
        levels={name: levels[name] for name in fitted.law.parents},
        units={support.variable: support.unit for support in fit.support},
        defaults=(),
        leverage=leverage_at(fitted, levels),
        extrapolated=(),
        of_quantile=fit.quantile,
    )


def contrast(fitted: FittedLaw, low: Mapping[str, float], high: Mapping[str, float]) -> Interval:
    """Change of what a law gives between levels of all its parents, with its confidence interval.

    Raises
    ------
    InputError
        If the law is not defined there.
    """
    first, second = mean_at(fitted, low), mean_at(fitted, high)
    change = second.mean - first.mean
    difference = MeanAt(change, second.gradient - first.gradient)
    half = t_quantile(fitted.fit) * difference.error(fitted.fit)
    return Interval(change, change - half, change + half)


def has_exact_quantiles(fitted: FittedLaw) -> bool:
    """Whether the theory of a normal sample holds: a linear law with normal noise, by least squares."""
    fit = fitted.fit
    plain = fit.link is Link.IDENTITY and fit.noise is Noise.NORMAL
    return fitted.law.linear and plain and fit.method is Method.LEAST_SQUARES and fit.prior is None


def exact_quantile(fitted: FittedLaw, levels: Mapping[str, float], share: float) -> Quantile:
    """Quantile over trials of a law with normal noise.

    Notes
    -----
    The confidence interval is by the noncentral t distribution: Owen, A survey of properties and applications of
    the noncentral t-distribution (1968).
    """
    from scipy import stats

    fit = fitted.fit
    here = mean_at(fitted, levels)
    factor = here.error(fit) / fit.sigma if fit.sigma else 0.0
    z = float(stats.norm.ppf(share))
    value = here.mean + z * fit.sigma
    if factor == 0:
        return Quantile(share, value, value, value)
    tail = (1 - fit.confidence) / 2
    low, high = (
        here.mean + factor * fit.sigma * float(stats.nct.ppf(one, fit.df, z / factor)) for one in (tail, 1 - tail)
    )
    return Quantile(share, value, low, high)


@dataclass(frozen=True, slots=True, eq=False)
class MeanAt:
    """A law's mean at some levels, and its derivative by each parameter, shape (p,); base units."""

    mean: float
    gradient: Array

    def error(self, fit: Fit) -> float:
        """Standard error of the mean."""
        return math.sqrt(max(0.0, float(self.gradient @ fit.covariance_matrix @ self.gradient)))

    @property
    def finite(self) -> bool:
        """Whether the law is defined there."""
        return math.isfinite(self.mean) and bool(np.isfinite(self.gradient).all())


def is_defined(fitted: FittedLaw, levels: Mapping[str, float]) -> bool:
    """Whether a law is defined at levels of all its parents."""
    return _evaluated(fitted, levels).finite


def _evaluated(fitted: FittedLaw, levels: Mapping[str, float]) -> MeanAt:
    columns = {name: np.array([levels[name]], dtype=np.float64) for name in fitted.law.parents}
    values = fitted.fit.values
    return MeanAt(float(fitted.law.mean(values, columns)[0]), fitted.law.gradient(values, columns)[0])


def mean_at(fitted: FittedLaw, levels: Mapping[str, float]) -> MeanAt:
    """Evaluate a law at levels of all its parents.

    Raises
    ------
    InputError
        If it is not defined there.
    """
    here = _evaluated(fitted, levels)
    if not here.finite:
        raise InputError(
            f"the law of {fitted.variable} is not defined at "
            + ", ".join(f"{name} = {levels[name]:g}" for name in fitted.law.parents)
        )
    return here


def _ask(fitted: FittedLaw, do: Mapping[str, float]) -> _Question:
    fit = fitted.fit
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
    for name in fitted.law.parents:
        if name in do:
            levels[name] = _resolve(known[name], do[name], outside)
        elif name in fit.baseline:
            levels[name] = fit.baseline[name]
            defaults.append(name)
        else:
            raise InputError(
                f"the question leaves {name} open, and no trial without intervention says where it stands",
                hint=f"add {name}=<level>, as in the trials: {span_text(known[name])}",
            )
    return _Question(levels, tuple(defaults), tuple(outside))


def _resolve(support: SupportRange, level: float, outside: list[str]) -> float:
    if math.isnan(level):
        raise InputError(f"the level of {support.variable} is not a number")
    if math.isinf(level) and level > 0 and support.natural is not None:
        return support.natural
    if reason := why_level_outside(support, level):
        outside.append(reason)
    return level


def t_quantile(fit: Fit) -> float:
    """Half width of an interval in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(fit.df, (1 + fit.confidence) / 2))
