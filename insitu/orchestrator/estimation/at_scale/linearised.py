"""A law that is not linear in its parameters, refitted after each trial in time that stays the same on average.

No sums over the trials are enough for such a law: its derivatives stand at the parameters, and these move. What
is done instead is one Gauss-Newton step from an anchor, the last whole fit, where the law was made linear.
Between whole fits a trial costs as much as under a linear law. Whether the step still is good enough is not
assumed but looked at each time: on a sample of the trials, how far would the next step go? Where that is too
far, or a quarter more trials have come than the anchor knows, all trials are fitted anew, starting from the
step's end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.at_scale.triangle import LinearFit, Triangle
from insitu.orchestrator.plan.law_kinds import Method

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

TOLERANCE = 0.05
"""Standard errors that a parameter may be off before all trials are fitted anew."""
_GROWTH = 1.25
"""Times the anchor's trials, after which all are fitted anew: a whole fit for each quarter more is a constant
number of passes over the trials on average."""
_SAMPLE_PER_PARAMETER = 8
"""Trials on which the next step is tried: enough to tell each parameter's step."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearisedFit:
    """The fit after some trials.

    Attributes
    ----------
    fit
        Values, covariance and the rest; ``r_squared`` is about the mean of the outcome.
    next_step
        How much further the parameter that moves most would go in one more step, in its standard errors, as a
        sample of the trials tells; what the values may be off. Zero after a whole fit.
    trials_since
        Trials that came after the last whole fit.
    """

    fit: LinearFit
    next_step: float
    trials_since: int


class CurvedRecursion:
    """The least squares fit of a law, refitted after each trial; trials all count alike.

    Parameters
    ----------
    start
        Parameters in base units from which the first fit starts, shape (p,).
    tolerance
        As `TOLERANCE`.

    Raises
    ------
    InputError
        If the law has bounds, noise that grows with the mean, or a method other than least squares.

    Notes
    -----
    With r(v) the residuals and J(v) the law's gradient at parameters v, the step s from the anchor a solves
    ``J(a)'q = 0`` with ``q = r(a) - J(a) s``. The next step's right side is ``J(v)'r(v)`` at ``v = a + s``. With
    d the distance of the law at v from the line through the anchor, it is ``(J(v) - J(a))'q - J(v)'d``. The
    second sum grows with the trials, and a sample of them tells it. The first is one of noise if the law is
    right, and grows with their root; its standard deviation is what the sample tells.
    """

    def __init__(self, law: Law, start: Array, tolerance: float = TOLERANCE) -> None:
        if law.bounds or law.relative_noise or law.method is not Method.LEAST_SQUARES:
            raise InputError(
                f"the law of {law.variable} has bounds, relative noise or a method of its own, and one step from "
                "trial to trial is enough for least squares without bounds alone",
                hint="fit all its trials each time",
            )
        self.law = law
        self.tolerance = tolerance
        self._anchor = np.asarray(start, dtype=float)
        self._levels = {name: _Column() for name in law.parents}
        self._observed = _Column()
        self._triangle = Triangle.empty(len(law.parameters))
        self._anchor_trials = 0

    @property
    def n(self) -> int:
        """Number of trials."""
        return len(self._observed)

    def add(self, levels: Mapping[str, float], observed: float) -> None:
        """Take in one more trial.

        Parameters
        ----------
        levels
            Of the law's parents, base units.

        Raises
        ------
        InputError
            If a level is missing, or the outcome or the law at the newest parameters is not finite.
        """
        missing = [name for name in self.law.parents if name not in levels]
        if missing:
            raise InputError(f"the law of {self.law.variable} needs a level of {', '.join(missing)}")
        here = {name: np.array([float(levels[name])]) for name in self.law.parents}
        rows = self.law.gradient(self._anchor, here)
        means = self.law.mean(self._anchor, here)
        if not (math.isfinite(observed) and np.isfinite(rows).all() and np.isfinite(means).all()):
            raise InputError(
                f"the outcome or the law of {self.law.variable} is not finite in a trial",
                hint="leave the trial out, or start from other parameters",
            )
        for name, column in self._levels.items():
            column.append(float(levels[name]))
        self._observed.append(observed)
        self._triangle = self._triangle.with_rows(rows, np.array([observed]) - means, offsets=means)

    def fitted(self) -> LinearisedFit:
        """The fit of all trials so far.

        Raises
        ------
        NotIdentified
            If there are too few trials, or they cannot tell some parameters apart.
        """
        if self._anchor_trials and self.n <= _GROWTH * self._anchor_trials:
            step = self._solved()
            values = self._anchor + step.values
            if (next_step := self._next_step(step, values)) <= self.tolerance:
                return LinearisedFit(_at(values, step), next_step, self.n - self._anchor_trials)
            self._anchor = values if math.isfinite(next_step) else self._anchor
        self._fit_all()
        return LinearisedFit(_at(self._anchor, self._solved()), 0.0, 0)

    def _solved(self) -> LinearFit:
        return self._triangle.fitted(self.law.parameters, self.law.variable)

    def _next_step(self, step: LinearFit, values: Array) -> float:
        """Length of the step after this one, in standard errors; infinite where the law is not finite."""
        size = min(self.n, _SAMPLE_PER_PARAMETER * len(values))
        chosen = np.linspace(0, self.n - 1, size).astype(np.intp)
        levels = {name: column.values[chosen] for name, column in self._levels.items()}
        observed = self._observed.values[chosen]
        rows, rows_there = (self.law.gradient(at, levels) for at in (self._anchor, values))
        line = self.law.mean(self._anchor, levels) + rows @ step.values
        inverse_gram = step.inverse_gram
        bent = (line - self.law.mean(values, levels)) @ rows_there @ inverse_gram * (self.n / size)
        turned = (rows_there - rows) * (observed - line)[:, None] @ inverse_gram
        further = np.abs(bent) + np.sqrt((turned**2).sum(axis=0) * (self.n / size))
        errors = step.sigma * np.sqrt((step.root**2).sum(axis=1))
        if not np.isfinite(further).all():
            return math.inf
        if not further.any():
            return 0.0
        return float((further / errors).max()) if errors.all() else math.inf

    def _fit_all(self) -> None:
        """Fit all trials from the anchor on, and move the anchor there."""
        from scipy.optimize import least_squares

        levels = {name: column.values for name, column in self._levels.items()}
        observed = self._observed.values
        if self.n <= len(self._anchor):
            self._solved()  # which says that there are too few
        found = least_squares(
            lambda values: self.law.mean(values, levels) - observed,
            self._anchor,
            lambda values: self.law.gradient(values, levels),
            x_scale="jac",
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        )
        if not (found.success and np.isfinite(found.x).all()):
            raise NotIdentified(
                f"the search for the parameters of {self.law.variable} did not settle",
                hint="start from other parameters, or bound them",
                parameters=self.law.parameters,
            )
        self._anchor, self._anchor_trials = found.x, self.n
        means = self.law.mean(found.x, levels)
        empty = Triangle.empty(len(found.x))
        self._triangle = empty.with_rows(self.law.gradient(found.x, levels), observed - means, offsets=means)


class _Column:
    """Numbers that are added one by one and read all at once."""

    def __init__(self) -> None:
        self._room = np.empty(64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> Array:
        return self._room[: self._length]

    def append(self, value: float) -> None:
        if self._length == len(self._room):
            self._room = np.concatenate([self._room, np.empty(self._length)])
        self._room[self._length] = value
        self._length += 1


def _at(values: Array, step: LinearFit) -> LinearFit:
    return replace(step, values=values)
