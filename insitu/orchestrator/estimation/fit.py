"""A fitted law as plain data: everything that later answers need, without the trials.

All values are in base units unless a name says *reported*. `fitted_file` writes and reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import STRICT, Check, Finding
from insitu.orchestrator.estimation.checks.graph_findings import GraphCheck
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise

Matrix = tuple[tuple[float, ...], ...]
"""Rows of numbers, as JSON carries them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One parameter of the law.

    Attributes
    ----------
    reported, reported_low, reported_high, reported_std_error
        In `unit`.
    base
        In base units.
    p_value
        Of the two-sided test that the parameter is zero.
    """

    name: str
    unit: str
    reported: float
    reported_low: float
    reported_high: float
    reported_std_error: float
    base: float
    p_value: float

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Test of the law against one free mean per assignment.

    Attributes
    ----------
    f, df_lack, df_pure, p_value
        The F test; significant when ``p_value`` is below 0.05.
    pure_error_sd
        Standard deviation between trials of one assignment, in the outcome's base unit; relative to the mean where
        the law's noise is.
    """

    f: float
    df_lack: int
    df_pure: int
    p_value: float
    pure_error_sd: float

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT

    @property
    def significant(self) -> bool:
        return self.p_value < 0.05


@dataclass(frozen=True, slots=True)
class MissingTerm:
    """The term that, added to the law, would explain most of what it leaves.

    Attributes
    ----------
    p_value
        Of the added term, multiplied by the number of terms tried (Bonferroni).
    explained
        Share of the residual sum of squares that it takes away, 0 to 1.
    """

    term: str
    p_value: float
    explained: float
    candidates: int
    sentence: str

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class SupportRange:
    """Where one variable has data.

    Attributes
    ----------
    low, high
        Of the achieved levels, widened to the requested ones that were held.
    requested
        Distinct finite levels that were asked for and held, rising.
    natural
        Level that the machine gave where nothing was asked for; ``None`` where there is no such trial.
    """

    variable: str
    unit: str
    low: float
    high: float
    requested: tuple[float, ...]
    natural: float | None

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT

    @property
    def varied(self) -> bool:
        """Whether trials differ in it by request."""
        return len(self.requested) + (self.natural is not None) > 1


@dataclass(frozen=True, slots=True)
class FitPoint:
    """One fitted trial.

    Attributes
    ----------
    low, high
        Prediction interval of another trial at its levels; of a quantile, the interval of the quantile itself.
    residual
        Observed less predicted.
    leverage
        Weight of the trial on its own prediction, 0 to 1.
    cooks_distance
        How far the fit would move without it.
    studentised
        The residual over its standard error, from a fit without the trial.
    """

    trial: int
    levels: dict[str, float]
    observed: float
    predicted: float
    low: float
    high: float
    residual: float
    leverage: float
    cooks_distance: float
    studentised: float

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class Skipped:
    """A valid trial that could not be fitted, and why."""

    trial: int
    reason: str

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Checks of what the fit assumes, as numbers.

    Attributes
    ----------
    heteroscedasticity_p
        Breusch and Pagan's test; ``None`` where it cannot be computed.
    normality_p
        Shapiro and Wilk's test of the residuals; ``None`` likewise.
    max_leverage, max_leverage_trial
        The trial with the most weight on its own prediction.
    condition_number
        Of the design matrix with columns scaled to length one.
    """

    heteroscedasticity_p: float | None
    normality_p: float | None
    max_leverage: float
    max_leverage_trial: int
    condition_number: float

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class GroupSpread:
    """How much the members of one kind of group differ.

    Attributes
    ----------
    kind
        ``node`` or ``day``.
    count
        How many there are.
    sd
        Standard deviation of their offsets in the unit of `Fit.sigma`; ``None`` where the intervals allow for the
        groups without an offset for each.
    """

    kind: str
    count: int
    sd: float | None

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class PriorUsed:
    """What was known of the parameters before these trials.

    Attributes
    ----------
    source
        Where it comes from, such as a run's name.
    parameters
        Those that it is about.
    share
        Of the information on the parameters that comes from it, 0 to 1.
    agreement_p
        Of the test that it and the trials agree; ``None`` where the trials alone say too little.
    """

    source: str
    parameters: tuple[str, ...]
    share: float
    agreement_p: float | None

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class Fit:
    """A law refitted on the valid trials of a run.

    Attributes
    ----------
    law
        Its right side, as the model writes it.
    link, noise
        As of the law.
    method
        How it was fitted in the end; where that is not what the law asks for, `findings` say why.
    quantile
        Which one the law gives; ``None`` for the mean.
    covariance
        Of the parameters in base units, shape (parameters, parameters).
    inverse_gram
        Inverse of X'X in base units, where X has a row per trial: the gradient of the mean, divided by the mean
        where the noise is relative. A row's leverage is x' (X'X)^-1 x.
    sigma
        Standard deviation of a trial about its mean, in the outcome's base unit; where the noise is relative, that
        of the outcome over its mean (gamma) or of its logarithm (lognormal). Offsets of nodes and days are in it.
    df
        Degrees of freedom of the intervals of means and effects; the smallest of those of the parameters.
    sigma_df
        Those of `sigma`.
    r_squared
        About the mean of the outcome.
    lack_of_fit
        ``None`` with the reason in `lack_of_fit_reason` where it cannot be tested.
    max_leverage
        Of the fitted trials and of the levels that they asked for: the edge of the support's hull.
    baseline
        Levels of a trial without any intervention: the defaults of a question.
    not_estimated
        Parameters whose term was zero in every trial, as where a throttle was never applied.
    at_bound
        Parameters that stand at a bound; the covariance takes them for known.
    groups
        Nodes and days, where the method allows for them.
    findings
        What each check says, in the order of `Check`.
    """

    outcome: str
    unit: str
    law: str
    confidence: float
    estimates: tuple[Estimate, ...]
    covariance: Matrix
    inverse_gram: Matrix
    sigma: float
    n: int
    df: float
    r_squared: float
    lack_of_fit: LackOfFit | None
    lack_of_fit_reason: str
    missing_term: MissingTerm | None
    support: tuple[SupportRange, ...]
    max_leverage: float
    baseline: dict[str, float]
    points: tuple[FitPoint, ...]
    skipped: tuple[Skipped, ...]
    diagnostics: Diagnostics
    not_estimated: tuple[str, ...]
    link: Link
    noise: Noise
    method: Method
    quantile: float | None
    sigma_df: float
    at_bound: tuple[str, ...]
    groups: tuple[GroupSpread, ...]
    prior: PriorUsed | None
    findings: tuple[Finding, ...]

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the estimated parameters, in the law's order."""
        return tuple(estimate.name for estimate in self.estimates)

    @property
    def values(self) -> Array:
        """The estimates in base units, shape (p,)."""
        return np.array([estimate.base for estimate in self.estimates])

    @property
    def covariance_matrix(self) -> Array:
        """Of the estimates in base units, shape (p, p)."""
        return np.array(self.covariance, dtype=np.float64).reshape(len(self.estimates), len(self.estimates))

    @property
    def notable(self) -> tuple[Finding, ...]:
        """What a reader must know before using the law."""
        return tuple(finding for finding in self.findings if finding.notable)

    def support_of(self, variable: str) -> SupportRange:
        """Return where a variable has data.

        Raises
        ------
        KeyError
            If the law does not mention it.
        """
        for support in self.support:
            if support.variable == variable:
                return support
        raise KeyError(variable)

    def finding(self, check: Check) -> Finding | None:
        """What one check says; ``None`` where it was not made."""
        return next((finding for finding in self.findings if finding.check is check), None)


@dataclass(frozen=True, slots=True)
class NotFitted:
    """A law that the trials say too little about.

    Attributes
    ----------
    reason, remedy
        Why, and what to do about it.
    """

    outcome: str
    reason: str
    remedy: str

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class FittedLaws:
    """Every law of a measured variable: its fit, or the reason why there is none.

    Attributes
    ----------
    graph
        Whether the trials contradict the graph; ``None`` where that was not asked.
    """

    fits: Mapping[str, Fit]
    not_fitted: tuple[NotFitted, ...] = ()
    graph: GraphCheck | None = None

    def why_not(self, outcome: str) -> NotFitted | None:
        """The reason why a variable's law has no fit; ``None`` where it has one or there is no such law."""
        return next((one for one in self.not_fitted if one.outcome == outcome), None)
