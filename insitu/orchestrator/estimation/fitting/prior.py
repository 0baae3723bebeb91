"""What an earlier run found of a law's parameters, weighed against the trials of this one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import joined
from insitu.orchestrator.estimation.fit import Fit, PriorUsed
from insitu.orchestrator.estimation.fitting.solution import Solution, Task

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

_LEAST_EIGENVALUE = 1e-12
"""Of a correlation matrix, below which a direction counts as known to that and no better."""
_DISAGREES = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A Gaussian belief about some parameters, in base units.

    Attributes
    ----------
    source
        Where it comes from, such as a run's name; for sentences.
    values, covariance
        Of shapes (k,) and (k, k).
    df
        Degrees of freedom behind the covariance.
    noise
        Standard deviation of one trial there, as a fit has it; not a number where it is unknown. It says what to
        expect, and does not enter a fit.

    Notes
    -----
    It enters as k more rows of the design: the parameters, whitened by the covariance, in units of this run's
    noise. Nothing is assumed of the noise of the earlier run, which may have been another machine's.
    """

    source: str
    names: tuple[str, ...]
    values: Array
    covariance: Array
    df: float
    noise: float = math.nan

    @classmethod
    def from_fit(cls, fit: Fit, source: str, renamed: Mapping[str, str] | None = None) -> Prior:
        """What a fitted law says of its parameters, those apart that a bound decided.

        Parameters
        ----------
        renamed
            Parameter of the fitted law to its name in the new one, where it is another.

        Raises
        ------
        InputError
            If nothing is left, or a name is not a parameter of the fitted law.
        """
        names = renamed or {}
        for name in names:
            if name not in fit.parameters:
                raise InputError(
                    f"the law of {fit.outcome} in {source} has no parameter '{name}'",
                    hint=f"it has {', '.join(fit.parameters)}",
                )
        kept = [index for index, name in enumerate(fit.parameters) if name not in fit.at_bound]
        kept = [index for index in kept if fit.covariance[index][index] > 0]
        if not kept:
            raise InputError(
                f"{source} says nothing of the parameters of {fit.outcome} that could be weighed",
                hint="leave it out",
            )
        return cls(
            source=source,
            names=tuple(names.get(fit.parameters[index], fit.parameters[index]) for index in kept),
            values=fit.values[kept],
            covariance=fit.covariance_matrix[np.ix_(kept, kept)],
            df=fit.df,
            noise=fit.sigma,
        )

    def about(self, law: Law) -> Prior | None:
        """The part that is about a law's parameters; ``None`` if there is none."""
        kept = [index for index, name in enumerate(self.names) if name in law.parameters]
        if not kept:
            return None
        return replace(
            self,
            names=tuple(self.names[index] for index in kept),
            values=self.values[kept],
            covariance=self.covariance[np.ix_(kept, kept)],
        )

    def known_values(self, law: Law) -> Array:
        """The law's parameters as believed, shape (p,); not a number for the others."""
        values = np.full(len(law.parameters), math.nan)
        values[[law.parameters.index(name) for name in self.names]] = self.values
        return values

    def rows(self, law: Law) -> Array:
        """The whitened rows, shape (k, p); times a deviation from the prior, independent and of variance one."""
        sds = np.sqrt(np.diag(self.covariance))
        strengths, directions = np.linalg.eigh(self.covariance / np.outer(sds, sds))
        whitened = (directions / np.sqrt(np.maximum(strengths, _LEAST_EIGENVALUE))).T / sds
        rows = np.zeros((len(self.names), len(law.parameters)))
        rows[:, [law.parameters.index(name) for name in self.names]] = whitened
        return rows

    def residuals(self, law: Law, values: Array) -> Array:
        """Belief less parameters, whitened, shape (k,)."""
        apart = np.nan_to_num(self.known_values(law)) - np.where(np.isnan(self.known_values(law)), 0.0, values)
        left: Array = self.rows(law) @ apart
        return left

    def own_errors(self, law: Law, inverse_gram: Array, sigma: float) -> Array:
        """Covariance that the prior's own errors give the estimates, shape (p, p)."""
        share = sigma**2 * inverse_gram @ self.rows(law).T
        errors: Array = share @ share.T
        return errors

    def taken(self, law: Law, rows: Array, sigma: float, free: npt.NDArray[np.bool_]) -> float:
        """Trials' degrees of freedom that the parameters took: the trace of the trials' hat matrix."""
        both = np.vstack([rows, sigma * self.rows(law)])[:, free]
        lengths = np.linalg.norm(both, axis=0)
        basis, _ = np.linalg.qr(both / np.where(lengths > 0, lengths, 1.0))
        return float((basis[: len(rows)] ** 2).sum())

    def accounted(self, task: Task, solution: Solution) -> Solution:
        """A solution with its degrees of freedom counted honestly, and with the agreement of prior and trials.

        Notes
        -----
        The covariance is made of two parts, each estimated with its own degrees of freedom. Their shares are those
        of the information, and the degrees of freedom follow by Welch's and Satterthwaite's rule:
        ``1 / df = (1 - share)^2 / df_trials + share^2 / df_prior``. Where the two are parts of one experiment,
        this gives back that of all its trials.
        """
        free = np.array([name not in solution.at_bound for name in task.law.parameters])
        taken = self.taken(task.law, solution.rows, solution.sigma, free)
        share = min(1.0, max(0.0, 1 - taken / max(1, int(free.sum()))))
        df = 1 / ((1 - share) ** 2 / solution.sigma_df + share**2 / self.df)
        agreement = self._agreement(task, solution, share)
        used = PriorUsed(self.source, self.names, share, None if agreement is None else agreement.p_value)
        return replace(
            solution,
            df=df,
            prior=used,
            findings=(*solution.findings, self._finding(task, share, agreement)),
        )

    def _agreement(self, task: Task, solution: Solution, share: float) -> _Agreement | None:
        """Whether the prior raises the sum of squares by more than chance (in the linear approximation).

        Notes
        -----
        The rise over that of the trials alone, per equation that is too many and in units of their own noise, is F
        distributed if both are right. For a prior on all parameters and trials that tell them all this is the
        quadratic form of the difference of the two estimates.
        """
        from scipy import stats

        rows, left = solution.rows, solution.residuals
        lengths = np.linalg.norm(rows, axis=0)
        lengths[lengths == 0] = 1.0
        move, _, rank, _ = np.linalg.lstsq(rows / lengths, left, rcond=1e-9)
        alone = left - rows / lengths @ move
        spare, redundant = len(left) - int(rank), len(self.names) - rows.shape[1] + int(rank)
        variance = float(alone @ alone) / spare if spare > 0 else 0.0
        if variance == 0 or redundant < 1:
            return None
        noise = math.sqrt(variance)
        whole = np.vstack([rows / lengths, noise * self.rows(task.law) / lengths])
        target = np.concatenate([left, noise * self.residuals(task.law, solution.values)])
        together = np.linalg.lstsq(whole, target, rcond=None)[0]
        rest = target - whole @ together
        rise = max(0.0, float(rest @ rest) - float(alone @ alone))
        df = 1 / (share**2 / spare + (1 - share) ** 2 / self.df)
        p_value = float(stats.f.sf(rise / redundant / variance, redundant, df))
        told = solution.values + move / lengths if int(rank) == rows.shape[1] else None
        return _Agreement(p_value, told)

    def _finding(self, task: Task, share: float, agreement: _Agreement | None) -> Finding:
        weight = f"{100 * share:.0f} % of what is known of the parameters comes from {self.source}"
        if agreement is None:
            sentence = f"{weight}; the trials alone are too few to say whether they agree with it."
            return Finding(Check.PRIOR, False, sentence, parameters=self.names)
        if agreement.p_value >= _DISAGREES:
            sentence = f"{weight}, and these trials agree with it (p = {agreement.p_value:.2g})."
            return Finding(Check.PRIOR, False, sentence, agreement.p_value, parameters=self.names)
        sentence = (
            f"{weight}, but these trials disagree with it (p = {agreement.p_value:.2g})"
            f"{self._worst(task, agreement)}: find out what changed, or fit without it."
        )
        return Finding(Check.PRIOR, True, sentence, agreement.p_value, parameters=self.names)

    def _worst(self, task: Task, agreement: _Agreement) -> str:
        """The parameter that differs most in the prior's own standard errors, in words."""
        if agreement.told is None:
            return ""
        law = task.law
        told = agreement.told[[law.parameters.index(name) for name in self.names]]
        worst = int(np.argmax(np.abs(told - self.values) / np.sqrt(np.diag(self.covariance))))
        name = self.names[worst]
        scale, unit = law.parameter_scales[name], law.parameter_units[name]
        there, here = (f"{value * scale:.4g}" for value in (self.values[worst], told[worst]))
        return f", most about {name}: {there} there, {here} here{f' ({unit})' if unit else ''}"


def combined(priors: Sequence[Prior]) -> Prior:
    """Several priors that were found independently as one; what two of them are about, both tell."""
    first, *others = priors
    if not others:
        return first
    names = tuple(dict.fromkeys(name for prior in priors for name in prior.names))
    precision, target = np.zeros((len(names), len(names))), np.zeros(len(names))
    scale = np.array([max(_size(prior, name) for prior in priors) for name in names])
    for prior in priors:
        at = [names.index(name) for name in prior.names]
        own = np.linalg.inv(prior.covariance / np.outer(scale[at], scale[at]))
        precision[np.ix_(at, at)] += own
        target[at] += own @ (prior.values / scale[at])
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return Prior(
        source=joined([prior.source for prior in priors]),
        names=names,
        values=covariance @ target * scale,
        covariance=covariance * np.outer(scale, scale),
        df=min(prior.df for prior in priors),
        noise=max((prior.noise for prior in priors if not math.isnan(prior.noise)), default=math.nan),
    )


def _size(prior: Prior, name: str) -> float:
    """Standard error of a parameter, to bring parameters of very different units together; 0 if it has none."""
    if name not in prior.names:
        return 0.0
    index = prior.names.index(name)
    return math.sqrt(float(prior.covariance[index, index]))


@dataclass(frozen=True, slots=True, eq=False)
class _Agreement:
    """How well prior and trials agree, and what the trials alone say, shape (p,), where they say all."""

    p_value: float
    told: Array | None
