"""How likely a law held each trial to be before it came: the density that a fit of those before it foretold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.fitting.data import FitData
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Link, Noise

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.plan.types import Variable

SPARE = 2
"""Trials beyond the number of parameters before a law foretells any: its noise has to be known a little."""
FINEST = 1e-6
"""The least noise that is believed in, relative to what is measured: a simulated subject may have none at all."""
_LEAST_MEAN = 0.1
"""What is foretold under relative noise is at least this part of the least outcome so far."""
_SHARES = (np.arange(9) + 0.5) / 9
"""Of the distribution of a gamma law's dispersion, over which its density is averaged."""


def is_plain(law: Law) -> bool:
    """Whether ordinary least squares without bounds is all that there is to the law."""
    return law.linear and not law.bounds and law.link is Link.IDENTITY and law.noise is Noise.NORMAL


def finest_noise(observed: Array) -> float:
    """The least standard deviation that a trial is taken to have, from the trials that none foretold."""
    return max(FINEST * float(np.median(np.abs(observed))), 1e-300)


class Foreteller:
    """One law's predictions of trials in their order; those that were made are remembered.

    What an earlier run found about the law does not help it here.
    """

    def __init__(self, law: Law, variables: Mapping[str, Variable]) -> None:
        self.law = law
        self.variables = variables
        self._made: list[float] = []
        self._begin = -1
        self._last: Solution | None = None

    def can_begin(self, data: FitData, trials: int) -> bool:
        """Whether the first so many trials tell every parameter."""
        if trials < len(self.law.parameters) + SPARE:
            return False
        if not self.law.linear:
            return self._solution(data, trials) is not None
        if not self.law.parameters:
            return True
        rows = self.law.design_matrix(_first(data, trials).columns)
        lengths = np.linalg.norm(rows, axis=0)
        if not lengths.all() or np.linalg.matrix_rank(rows / lengths, tol=1e-9) < rows.shape[1]:
            return False
        return is_plain(self.law) or self._solution(data, trials) is not None

    def densities(self, data: FitData, begin: int, finest: float) -> Array:
        """Logarithms of the densities of all trials from `begin` on, each foretold from those before it.

        Parameters
        ----------
        data
            Trials in the order of execution; those of the last call, and perhaps more.
        finest
            As of `finest_noise`.

        Returns
        -------
        numpy.ndarray
            Shape (n - begin,).
        """
        if is_plain(self.law):
            rows = self.law.design_matrix(data.columns)
            return recursive_densities(rows, data.observed - self.law.offsets(data.columns), begin, finest)
        if begin != self._begin:
            self._made, self._begin, self._last = [], begin, None
        for index in range(begin + len(self._made), len(data.observed)):
            self._last = self._solution(data, index) or self._last
            self._made.append(-math.inf if self._last is None else self._density(data, index, self._last, finest))
        return np.array(self._made)

    def _solution(self, data: FitData, trials: int) -> Solution | None:
        task = Task(self.law, _first(data, trials), self.variables)
        try:
            return solve(task)
        except NotIdentified:
            return None

    def _density(self, data: FitData, index: int, fit: Solution, finest: float) -> float:
        from scipy import stats

        here = {name: column[index : index + 1] for name, column in data.columns.items()}
        observed, mean = float(data.observed[index]), float(self.law.mean(fit.values, here)[0])
        slope = self.law.gradient(fit.values, here)[0]
        df = fit.sigma_df
        if self.law.noise is Noise.NORMAL:
            scale = max(fit.sigma, finest) * math.sqrt(1 + float(slope @ fit.inverse_gram @ slope))
            return float(stats.t.logpdf(observed, df, mean, scale))
        mean = max(mean, _LEAST_MEAN * float(data.observed[:index].min()))
        sigma, variance = max(fit.sigma, FINEST), float(slope @ fit.covariance @ slope)
        if self.law.noise is Noise.LOGNORMAL:
            scale = math.sqrt(sigma**2 + variance / mean**2)
            place = math.log(mean) - sigma**2 / 2
            return float(stats.t.logpdf(math.log(observed), df, place, scale)) - math.log(observed)
        dispersions = sigma**2 * df / stats.chi2.ppf(_SHARES, df) + variance / mean**2
        found = stats.gamma.logpdf(observed, 1 / dispersions, scale=mean * dispersions)
        return float(np.logaddexp.reduce(found) - math.log(len(found)))


def _first(data: FitData, trials: int) -> FitData:
    return data.rows(np.arange(len(data.observed)) < trials, ())


def recursive_densities(rows: Array, response: Array, begin: int, finest: float) -> Array:
    """Logarithms of Student's t densities of the one-step predictions of least squares, shape (n - begin,).

    Parameters
    ----------
    rows
        Shape (n, p); the first `begin` of them have full rank.
    finest
        As of `finest_noise`.

    Notes
    -----
    Recursive residuals: Brown, Durbin and Evans, Journal of the Royal Statistical Society B 37 (1975), 149-163,
    equations 2 to 5.
    """
    from scipy.special import gammaln

    count, size = len(rows), rows.shape[1]
    lengths = np.linalg.norm(rows[:begin], axis=0)
    rows = rows / lengths
    inverse = np.linalg.inv(rows[:begin].T @ rows[:begin])
    solution = inverse @ (rows[:begin].T @ response[:begin])
    squares = float(np.sum((response[:begin] - rows[:begin] @ solution) ** 2))
    errors, rooms, variances = np.empty(count - begin), np.empty(count - begin), np.empty(count - begin)
    for place, index in enumerate(range(begin, count)):
        row = rows[index]
        gain = inverse @ row
        room, error = 1.0 + float(row @ gain), float(response[index] - row @ solution)
        errors[place], rooms[place], variances[place] = error, room, max(squares / (index - size), finest**2)
        solution = solution + gain * (error / room)
        inverse = inverse - np.outer(gain, gain) / room
        squares += error**2 / room
    df = np.arange(begin, count) - size
    spread = variances * rooms
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * math.pi)
    found: Array = constant - 0.5 * np.log(spread) - (df + 1) / 2 * np.log1p(errors**2 / (spread * df))
    return found
