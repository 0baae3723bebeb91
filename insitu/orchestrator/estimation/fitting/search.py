"""The search for parameters that least squares does not give in one step: curved, bounded, or with a prior.

Levenberg's and Marquardt's method, or scipy's trust-region reflective one where there are bounds, with the law's
exact gradient, from several starts that depend on nothing but the law and the trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.fitting.data import information_rows
from insitu.orchestrator.estimation.fitting.solution import Task, noise_residuals
from insitu.orchestrator.estimation.fitting.starts import inside, shape_of, starting_points
from insitu.orchestrator.plan.law_kinds import Noise

_STARTS = 6
_MOST_STEPS = 400
_FINE, _COARSE = 1e-14, 1e-8
"""Relative changes at which the last search and those that only compare starts end."""
_AGREEING = 3
"""Starts that have to end at the same lowest minimum for the others to be left out."""
_SAME_MINIMUM = 1e-4
"""Relative difference between two sums of squares that are taken for the same."""
_ROUNDING = 1e-18
"""Sum of squares, relative to that of the outcomes, below which a law fits exactly."""
_TOUCHING = 1e-3
"""Distance from a bound, in standard errors, below which a parameter is set to it."""
_IMPOSSIBLE = 1e60
"""Residual where the law is not finite, or not positive as it must be; its square is still finite."""


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """How the trials and a prior count in one search.

    Attributes
    ----------
    weights
        Of the trials' squares, shape (n,).
    sigma
        Noise of a trial: what the prior is weighed by, and half the square of which a lognormal mean takes.
    """

    weights: Array
    sigma: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where a search ended.

    Attributes
    ----------
    total
        The sum of squares that was searched for its minimum.
    held
        Which parameters stand at a bound, shape (p,).
    converged
        Whether the search ended for want of anything better, and not of steps.
    """

    values: Array
    total: float
    held: npt.NDArray[np.bool_]
    converged: bool


class Search:
    """The search for one law's parameters; remembers how its starts ended."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.shape = shape_of(task.law)
        self._ends: tuple[Minimum, ...] = ()

    def from_all_starts(self, weighing: Weighing) -> Minimum:
        """The lowest minimum that is reached from any start.

        Raises
        ------
        NotIdentified
            If the law is finite at no start.
        """
        points = [*starting_points(self.task.law, self.task.data, _STARTS)]
        if self.task.prior is not None:
            known = self.task.prior.known_values(self.task.law)
            points += [inside(np.where(np.isfinite(known), known, point), self.shape) for point in points[:1]]
        if not points:
            raise NotIdentified(
                f"the law of {self.task.law.variable} is finite for none of the parameter values tried",
                hint="give its parameters start values or bounds in the model",
                parameters=self.task.law.parameters,
            )
        ends: list[Minimum] = []
        for point in points:
            ends.append(self._descend(point, weighing, tolerance=_COARSE))
            lowest = min(ends, key=lambda end: end.total)
            if sum(self._same(end, lowest) for end in ends) >= _AGREEING:
                break
        self._ends = tuple(ends)
        return self.from_one(lowest.values, weighing)

    def from_one(self, values: Array, weighing: Weighing) -> Minimum:
        """The minimum next to some values."""
        return self._settled(self._descend(inside(values, self.shape), weighing), weighing)

    def finding(self, minimum: Minimum) -> Finding | None:
        """What a reader should know of the search; ``None`` where there was nothing to search."""
        if self.shape.straight.all():
            return None
        names = self.task.law.parameters
        if minimum.converged and not self._ends:
            return None
        if not minimum.converged:
            sentence = (
                "The search for the parameters did not come to an end, so they may not be the best ones: "
                "give them start values or bounds in the model, or more trials."
            )
            return Finding(Check.SEARCH, True, sentence, parameters=names)
        worse = sum(not self._same(end, minimum) for end in self._ends)
        curved = [name for name, straight in zip(names, self.shape.straight, strict=True) if not straight]
        agreed = f"{len(self._ends) - worse} of its {len(self._ends)} starts ended at these values"
        sentence = f"The search for {' and '.join(curved)} converged; {agreed}, the others at worse ones."
        if not worse:
            sentence = f"The search for {' and '.join(curved)} converged, to the same values from every start."
        return Finding(Check.SEARCH, False, sentence, parameters=tuple(curved))

    def _same(self, end: Minimum, lowest: Minimum) -> bool:
        """Whether an end is as low as the lowest, rounding apart."""
        observed = self.task.data.observed
        whole = float(len(observed)) if self.task.law.relative_noise else float(observed @ observed)
        return end.total <= lowest.total * (1 + _SAME_MINIMUM) + _ROUNDING * whole

    def _settled(self, minimum: Minimum, weighing: Weighing) -> Minimum:
        """A minimum with the parameters that touch a bound set to it, and the others searched again."""
        low, high = self.shape.low, self.shape.high
        for _ in range(len(minimum.values)):
            reach = _TOUCHING * self._conditional_errors(minimum, weighing)
            at_low, at_high = minimum.values - low <= reach, high - minimum.values <= reach
            held = minimum.held | at_low | at_high
            if (held == minimum.held).all():
                break
            values = np.where(at_low, low, np.where(at_high, high, minimum.values))
            again = self._descend(values, weighing, held)
            if not self._same(again, minimum):
                break
            minimum = again
        return minimum

    def _conditional_errors(self, minimum: Minimum, weighing: Weighing) -> Array:
        """Standard error of each parameter as if the others were known, shape (p,)."""
        rows = _Misfit(self, weighing).jacobian(minimum.values)
        lengths = np.linalg.norm(rows, axis=0)
        spread = np.sqrt(minimum.total / max(1, len(rows) - len(lengths)))
        errors: Array = spread / np.where(lengths > 0, lengths, np.inf)
        return errors

    def _descend(
        self,
        start: Array,
        weighing: Weighing,
        held: npt.NDArray[np.bool_] | None = None,
        tolerance: float = _FINE,
    ) -> Minimum:
        from scipy.optimize import least_squares

        held = np.zeros(len(start), dtype=np.bool_) if held is None else held
        misfit = _Misfit(self, weighing)
        if held.all():
            return Minimum(start, float((misfit.residuals(start) ** 2).sum()), held, True)

        def whole(free: Array) -> Array:
            values = start.copy()
            values[~held] = free
            return values

        low, high = self.shape.low[~held], self.shape.high[~held]
        unbounded = np.isinf(low).all() and np.isinf(high).all()
        found = least_squares(
            lambda free: misfit.residuals(whole(free)),
            start[~held],
            jac=lambda free: misfit.jacobian(whole(free))[:, ~held],
            bounds=(low, high),
            method="lm" if unbounded and misfit.count >= len(low) else "trf",  # MINPACK's takes no bounds
            x_scale="jac",
            ftol=tolerance,
            xtol=tolerance,
            gtol=tolerance,
            max_nfev=_MOST_STEPS,
        )
        return Minimum(whole(found.x), 2 * float(found.cost) * misfit.unit**2, held, found.status > 0)


class _Misfit:
    """What is squared and summed: the trials' residuals in units of the noise, then the prior's."""

    def __init__(self, search: Search, weighing: Weighing) -> None:
        self.task = search.task
        self.weighing = weighing
        self.roots = np.sqrt(weighing.weights)
        size = float(np.sqrt(np.mean(self.task.data.observed**2)))
        # of the size of one, so that the search's tolerances are relative
        self.unit = 1.0 if self.task.law.relative_noise or size == 0 else size
        self.count = len(self.task.data.observed)
        self.count += len(self.task.prior.names) if self.task.prior is not None else 0

    def residuals(self, values: Array) -> Array:
        """Shape (n or more,)."""
        law, data = self.task.law, self.task.data
        mean = law.mean(values, data.columns)
        if law.noise is Noise.GAMMA:
            left = deviance_residuals(data.observed, mean)
        else:
            left = noise_residuals(law, data.observed, mean, self.weighing.sigma)
        left = np.where(np.isfinite(left), left, _IMPOSSIBLE) * self.roots
        if self.task.prior is not None:
            left = np.concatenate([left, self.weighing.sigma * self.task.prior.residuals(law, values)])
        scaled: Array = left / self.unit
        return scaled

    def jacobian(self, values: Array) -> Array:
        """Shape (n or more, p)."""
        law, data = self.task.law, self.task.data
        rows = -information_rows(law, values, data.columns)
        if law.noise is Noise.GAMMA:
            ratio = data.observed / law.mean(values, data.columns)
            with np.errstate(all="ignore"):
                slope = (ratio - 1) / deviance_residuals(ratio, np.ones_like(ratio))
            rows = rows * np.where(np.abs(ratio - 1) < 1e-6, 1.0, slope)[:, None]
        rows = np.where(np.isfinite(rows), rows, 0.0) * self.roots[:, None]
        if self.task.prior is not None:
            rows = np.vstack([rows, -self.weighing.sigma * self.task.prior.rows(law)])
        scaled: Array = rows / self.unit
        return scaled


def deviance_residuals(observed: Array, mean: Array) -> Array:
    """Whose sum of squares is least where the likelihood of gamma noise is largest; shape (n,).

    Notes
    -----
    McCullagh and Nelder, *Generalized Linear Models*, 2nd edition, section 2.4.
    """
    with np.errstate(all="ignore"):
        ratio = observed / mean
        excess = ratio - 1
        squares = 2 * (excess - np.log1p(excess))
    return np.sign(excess) * np.sqrt(np.maximum(squares, 0.0))
