"""A law that was fitted to a table, as the `Fit` that everyone else has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.at_scale.shares import Share, Span
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import joined
from insitu.orchestrator.estimation.fit import Diagnostics, Estimate, Fit, Matrix, SupportRange
from insitu.orchestrator.estimation.fitting.bounded import fit_bounded
from insitu.orchestrator.plan.law_kinds import Bounds
from insitu.orchestrator.plan.types import Variable

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law


def fit_share(law: Law, share: Share, variables: Mapping[str, Variable], confidence: float) -> Fit:
    """Fit a law to all rows that were folded into a share.

    Raises
    ------
    NotIdentified
        If there are too few rows, or they cannot tell some parameters apart.
    """
    whole = law
    zero = [column for column in range(len(law.parameters)) if not share.triangle.factor[:, column].any()]
    if 0 < len(zero) < len(law.parameters):
        law, share = law.without([law.parameters[column] for column in zero]), share.without_columns(zero)
    found = _solve(law, share.triangle)
    sample = np.concatenate([share.sample, share.extremes])
    max_leverage = float(np.einsum("ij,jk,ik->i", sample, found.inverse_gram, sample).max())
    factor, spread = share.triangle.factor[:-1, :-1], share.triangle.moments.spread
    return Fit(
        outcome=law.variable,
        unit=variables[law.variable].unit,
        law=whole.text,
        confidence=confidence,
        estimates=_estimates(law, found, confidence),
        covariance=_matrix(found.sigma**2 * found.inverse_gram),
        inverse_gram=_matrix(found.inverse_gram),
        sigma=found.sigma,
        n=share.triangle.n,
        df=found.df,
        r_squared=1 - found.sigma**2 * found.df / spread if spread > 0 else math.nan,
        lack_of_fit=None,
        lack_of_fit_reason="the rows of a table are read once, and are not sorted into replicates",
        missing_term=None,
        support=tuple(_support(name, share.spans[name], variables[name]) for name in law.parents),
        max_leverage=max_leverage,
        baseline={},
        points=(),
        skipped=(),
        diagnostics=Diagnostics(
            heteroscedasticity_p=None,
            normality_p=None,
            max_leverage=max_leverage,
            max_leverage_trial=0,
            condition_number=float(np.linalg.cond(factor / np.linalg.norm(factor, axis=0))),
        ),
        not_estimated=tuple(name for name in whole.parameters if name not in law.parameters),
        link=law.link,
        noise=law.noise,
        method=law.method,
        quantile=None,
        sigma_df=found.df,
        at_bound=found.at_bound,
        groups=(),
        prior=None,
        findings=tuple(_findings(found, share)),
    )


def _findings(found: _Found, share: Share) -> Iterator[Finding]:
    if share.left_out:
        rows = share.triangle.n + share.left_out
        said = f"{share.left_out} of {rows} rows are not fitted: the outcome or the law is not finite there."
        yield Finding(Check.SKIPPED, True, said)
    if found.at_bound:
        said = f"The rows would put {joined(found.at_bound)} beyond a bound, which intervals take for the truth."
        yield Finding(Check.BOUND, True, said, parameters=found.at_bound)


def _estimates(law: Law, found: _Found, confidence: float) -> tuple[Estimate, ...]:
    from scipy import stats

    errors = found.sigma * np.sqrt(np.diag(found.inverse_gram))
    half = float(stats.t.ppf((1 + confidence) / 2, found.df)) * errors
    with np.errstate(all="ignore"):
        ratios = np.where(found.values == 0, 0.0, np.abs(found.values) / errors)
    p_values = 2 * stats.t.sf(ratios, found.df)
    estimates = []
    for index, (name, value) in enumerate(zip(law.parameters, found.values.tolist(), strict=True)):
        scale = law.parameter_scales[name]
        low, high = sorted(float(value + side * half[index]) * scale for side in (-1, 1))
        estimates.append(
            Estimate(
                name=name,
                unit=law.parameter_units[name],
                reported=value * scale,
                reported_low=low,
                reported_high=high,
                reported_std_error=float(errors[index]) * abs(scale),
                base=value,
                p_value=float(p_values[index]),
            )
        )
    return tuple(estimates)


def _support(name: str, span: Span, variable: Variable) -> SupportRange:
    known = span.low <= span.high
    return SupportRange(
        variable=name,
        unit=variable.unit,
        low=span.low if known else math.nan,
        high=span.high if known else math.nan,
        requested=(),
        natural=math.inf if span.unlimited else None,
    )


def _matrix(matrix: Array) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The parameters, within their bounds; those at one are taken for known."""

    values: Array
    inverse_gram: Array
    sigma: float
    df: int
    at_bound: tuple[str, ...] = ()


def _solve(law: Law, triangle: Triangle) -> _Found:
    free = triangle.fitted(law.parameters, law.variable)
    bounds = [law.bounds.get(name, Bounds()) for name in law.parameters]
    low, high = np.array([one.low for one in bounds]), np.array([one.high for one in bounds])
    if ((low <= free.values) & (free.values <= high)).all():
        return _Found(free.values, free.inverse_gram, free.sigma, free.df)
    held = fit_bounded(triangle, low, high, law.parameters, law.variable)
    return _Found(held.values, held.inverse_gram, held.sigma, held.df, held.at_bound)
