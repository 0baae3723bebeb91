"""Trials at which two laws differ most, given how well each is known: to find out which of them holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.information import square_root

_NOISES = 2.0
"""The difference of two predictions of one trial has the noise of both."""


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """What one fitted law says of the candidates.

    Attributes
    ----------
    means
        Predicted outcomes, shape (m,).
    gradients
        Their derivatives by the law's parameters, shape (m, p).
    covariance
        Of the fitted parameters, shape (p, p).
    """

    means: Array
    gradients: Array
    covariance: Array

    @property
    def variances(self) -> Array:
        """Variance of each predicted mean, shape (m,)."""
        variances: Array = np.einsum("mp,mp->m", self.gradients @ self.covariance, self.gradients)
        return variances


@dataclass(frozen=True, slots=True)
class Discrimination:
    """Trials that set two laws apart.

    Attributes
    ----------
    trials
        Candidate of each, the most telling first.
    differences
        Second law's prediction less the first's at each, in standard deviations of a trial's noise.
    ratios
        Of each trial, given those before it: squared difference that they leave unexpected, over the variance of
        the difference of two such predictions. Below one, noise hides it.
    """

    trials: tuple[int, ...]
    differences: tuple[float, ...]
    ratios: tuple[float, ...]

    @property
    def total_ratio(self) -> float:
        """How far the trials together set the laws apart: squared differences over their variance."""
        return math.fsum(self.ratios)

    @property
    def is_worthwhile(self) -> bool:
        """Whether the laws differ at any trial by more than what is unknown of the difference."""
        return any(ratio > 1 for ratio in self.ratios)


def buzzi_ferraris(first: Rival, second: Rival, noise: Array) -> Array:
    """Squared difference of the predictions over the variance of their difference, at each candidate, shape (m,).

    Parameters
    ----------
    noise
        Standard deviation of a trial's noise at each candidate, shape (m,).

    Notes
    -----
    Buzzi-Ferraris and Forzatti, Chemical Engineering Science 38 (1983), 225-232, for two laws: where the ratio is
    below one everywhere, no trial is expected to tell them apart.
    """
    variances = _NOISES * np.square(noise) + first.variances + second.variances
    ratios: Array = (first.means - second.means) ** 2 / variances
    return ratios


def box_hill(first: Rival, second: Rival, noise: Array, first_probability: float = 0.5) -> Array:
    """Upper bound on the expected change of entropy about which law holds, at each candidate, shape (m,).

    Parameters
    ----------
    noise
        Standard deviation of a trial's noise at each candidate, shape (m,).
    first_probability
        That the first law holds.

    Notes
    -----
    Box and Hill, Technometrics 9 (1967), 57-71, equation 7.
    """
    one, other = np.square(noise) + first.variances, np.square(noise) + second.variances
    differences = (first.means - second.means) ** 2
    both = first_probability * (1 - first_probability)
    gains: Array = both / 2 * ((one - other) ** 2 / (one * other) + differences * (1 / one + 1 / other))
    return gains


def discriminate(
    first: Rival, second: Rival, noise: Array, trials: int, *, costs: Array | None = None
) -> Discrimination:
    """Choose trials one after the other: each where the laws differ most, after what those before will have told.

    A trial where the laws differ also corrects their parameters, so the next at the same levels would tell less;
    the differences and variances at all candidates are those conditional on the trials before.

    Parameters
    ----------
    noise
        Standard deviation of a trial's noise at each candidate, shape (m,), positive.
    costs
        Of a trial of each candidate, shape (m,); the choice is then by the ratio per cost.

    Raises
    ------
    ValueError
        If the arrays do not belong together, or a standard deviation or cost is not positive.

    Notes
    -----
    The ratio of Buzzi-Ferraris and Forzatti for one trial; for several, its form with covariances (Buzzi-Ferraris,
    Forzatti, Emig and Hofmann, Chemical Engineering Science 39 (1984), 81-85), taken apart trial by trial as
    squared innovations over their variances. The fits of both laws are taken to be independent.
    """
    prices = np.ones(len(noise)) if costs is None else np.asarray(costs, dtype=float)
    shapes = {first.means.shape, second.means.shape, np.shape(noise), prices.shape}
    if len(shapes) > 1 or not (np.asarray(noise) > 0).all() or not (prices > 0).all():
        raise ValueError("predictions, noise and costs must be of the same candidates, the latter two positive")
    roots = [one.gradients @ square_root(one.covariance).T for one in (first, second)]
    # the difference at each candidate, in its own noise: a known part, and independent unknowns of variance one
    known = (second.means - first.means) / noise
    unknown = np.hstack(roots) / np.asarray(noise)[:, None]
    differences = known.copy()
    chosen: list[int] = []
    ratios: list[float] = []
    for _ in range(trials):
        variances = _NOISES + np.einsum("mr,mr->m", unknown, unknown)
        worth = known**2 / variances
        best = int(np.argmax(worth / prices))
        chosen.append(best)
        ratios.append(float(worth[best]))
        known = known - unknown @ unknown[best] * (known[best] / variances[best])
        unknown = unknown @ _shrinking(unknown[best])
    return Discrimination(tuple(chosen), tuple(differences[chosen].tolist()), tuple(ratios))


def _shrinking(direction: Array) -> Array:
    """What unknowns of variance one become once their sum along a direction was seen with noise, shape (r, r)."""
    square = float(direction @ direction)
    if square == 0:
        return np.eye(len(direction))
    kept = math.sqrt(_NOISES / (_NOISES + square))
    return np.eye(len(direction)) - (1 - kept) / square * np.outer(direction, direction)
