"""Which laws differ between two runs, by how much, and whether by more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.questions.columns import Interval
from insitu.orchestrator.estimation.questions.model import FittedLaw, FittedModel
from insitu.orchestrator.estimation.questions.queries import mean_at

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class ParameterChange:
    """One parameter in both runs, in the unit in which it is reported.

    Attributes
    ----------
    change, low, high
        The second less the first, with its confidence interval.
    """

    name: str
    unit: str
    first: float
    second: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LawChange:
    """One law in both runs.

    Attributes
    ----------
    f, df_law, df_noise, p_value
        Of the test that all parameters are the same.
    adjusted_p
        Allowing for the number of laws that were compared (Holm).
    at
        Levels at which the means are compared: the first run's baseline, or else the middle of its trials.
    first, second
        Mean of the outcome there, base units.
    change, low, high
        The second less the first, with its confidence interval.
    """

    outcome: str
    unit: str
    confidence: float
    parameters: tuple[ParameterChange, ...]
    f: float
    df_law: int
    df_noise: float
    p_value: float
    adjusted_p: float
    at: dict[str, float]
    units: dict[str, str]
    words: dict[str, tuple[str, ...]]
    first: float
    second: float
    change: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the law changed by more than noise."""
        return self.adjusted_p < SIGNIFICANT

    @property
    def most_changed(self) -> ParameterChange:
        """The parameter that moved farthest, in units of its own uncertainty."""
        return max(self.parameters, key=lambda one: abs(one.change) / max(one.high - one.low, 1e-300))


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A law that cannot be compared, and why."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two runs; the surest change first."""

    laws: tuple[LawChange, ...]
    not_compared: tuple[NotCompared, ...]


def compare_models(first: FittedModel, second: FittedModel) -> Comparison:
    """Test each law that both runs fitted for a change of its parameters.

    Notes
    -----
    Wald's test with the covariances of both fits, as Chow's without the assumption that both runs spread alike;
    its degrees of freedom after Krishnamoorthy and Yu, Modified Nel and Van der Merwe test for the multivariate
    Behrens-Fisher problem (2004). Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    changes: list[LawChange] = []
    skipped: list[NotCompared] = []
    for outcome in dict.fromkeys((*first.blueprint.laws, *second.blueprint.laws)):
        reason = _why_not(outcome, first, second)
        if reason:
            skipped.append(NotCompared(outcome, reason))
        else:
            changes.append(_change(first.laws[outcome], second.laws[outcome], first.words))
    adjusted = holm([one.p_value for one in changes])
    laws = [replace(one, adjusted_p=p_value) for one, p_value in zip(changes, adjusted, strict=True)]
    return Comparison(tuple(sorted(laws, key=lambda one: one.p_value)), tuple(skipped))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P values that allow for their number, in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def _why_not(outcome: str, first: FittedModel, second: FittedModel) -> str:
    for model, which in ((first, "first"), (second, "second")):
        if outcome not in model.blueprint.laws:
            return f"the {which} run's model has no law for it"
        if outcome not in model.laws:
            return f"not fitted in the {which} run: {model.why_not(outcome).reason}"
    if first.laws[outcome].whole.text != second.laws[outcome].whole.text:
        return (
            f"the runs have different laws for it: {first.laws[outcome].whole.text} "
            f"and {second.laws[outcome].whole.text}"
        )
    if not _common(first.laws[outcome].fit, second.laws[outcome].fit):
        return "no parameter was estimated in both runs"
    return ""


def _common(first: Fit, second: Fit) -> tuple[str, ...]:
    """Parameters that both estimated, and that at least one does not take for known."""
    known = set(first.at_bound) & set(second.at_bound)
    return tuple(name for name in first.parameters if name in second.parameters and name not in known)


@dataclass(frozen=True, slots=True, eq=False)
class _Estimates:
    """Some parameters of one fit: shapes (q,) and (q, q)."""

    values: Array
    covariance: Array
    df: float


def _estimates(fit: Fit, names: tuple[str, ...]) -> _Estimates:
    chosen = [fit.parameters.index(name) for name in names]
    return _Estimates(fit.values[chosen], fit.covariance_matrix[np.ix_(chosen, chosen)], fit.df)


def _change(first: FittedLaw, second: FittedLaw, words: Mapping[str, tuple[str, ...]]) -> LawChange:
    from scipy import stats

    names = _common(first.fit, second.fit)
    before, after = _estimates(first.fit, names), _estimates(second.fit, names)
    test = _wald(before, after)
    at = _reference(first.fit)
    here, there = mean_at(first, at), mean_at(second, at)
    change = _difference(
        _Number(here.mean, here.error(first.fit), first.fit.df),
        _Number(there.mean, there.error(second.fit), second.fit.df),
        first.fit.confidence,
    )
    return LawChange(
        outcome=first.variable,
        unit=first.fit.unit,
        confidence=first.fit.confidence,
        parameters=tuple(_parameter(name, first.fit, second.fit) for name in names),
        f=test.f,
        df_law=len(names),
        df_noise=test.df_noise,
        p_value=float(stats.f.sf(test.f, len(names), test.df_noise)),
        adjusted_p=1.0,
        at=at,
        units={support.variable: support.unit for support in first.fit.support},
        words={name: words[name] for name in at if name in words},
        first=here.mean,
        second=there.mean,
        change=change.value,
        low=change.low,
        high=change.high,
    )


@dataclass(frozen=True, slots=True)
class _Test:
    f: float
    df_noise: float


def _wald(before: _Estimates, after: _Estimates) -> _Test:
    """F statistic of no change in any of q parameters; parameters of very different sizes stand side by side."""
    total = before.covariance + after.covariance
    scale = np.sqrt(np.diag(total))
    scale = np.where(scale == 0, 1.0, scale)
    inverse = np.linalg.pinv(total / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    moved = (after.values - before.values) / scale
    size = len(moved)
    room = 0.0
    for one in (before, after):
        share = (one.covariance / np.outer(scale, scale)) @ inverse
        room += (float(np.trace(share @ share)) + float(np.trace(share)) ** 2) / one.df
    df = (size + size**2) / room
    df_noise = max(1.0, df - size + 1)
    return _Test(float(moved @ inverse @ moved) / size * df_noise / df, df_noise)


@dataclass(frozen=True, slots=True)
class _Number:
    value: float
    error: float
    df: float


def _difference(before: _Number, after: _Number, confidence: float) -> Interval:
    """Welch's interval of a difference; the degrees of freedom after Satterthwaite."""
    from scipy.special import stdtrit

    variances = before.error**2, after.error**2
    total = sum(variances)
    change = after.value - before.value
    if total == 0:
        return Interval(change, change, change)
    df = total**2 / (variances[0] ** 2 / before.df + variances[1] ** 2 / after.df)
    half = float(stdtrit(df, (1 + confidence) / 2)) * math.sqrt(total)
    return Interval(change, change - half, change + half)


def _parameter(name: str, first: Fit, second: Fit) -> ParameterChange:
    before, after = (fit.estimates[fit.parameters.index(name)] for fit in (first, second))
    change = _difference(
        _Number(before.reported, before.reported_std_error, first.df),
        _Number(after.reported, after.reported_std_error, second.df),
        first.confidence,
    )
    return ParameterChange(
        name, before.unit, before.reported, after.reported, change.value, change.low, change.high
    )


def _reference(fit: Fit) -> dict[str, float]:
    return {
        support.variable: fit.baseline[support.variable]
        if support.variable in fit.baseline
        else statistics.median_low([point.levels[support.variable] for point in fit.points])
        for support in fit.support
    }
