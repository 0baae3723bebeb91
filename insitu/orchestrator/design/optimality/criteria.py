"""What a design is to make small: one number of the parameters' covariance, and how trials change it.

`d_optimal`, `a_optimal`, `i_optimal` and `c_optimal` make the criteria. A trial informs by one or more rows: the
derivatives of what it measures by the parameters, divided by the standard deviation of the noise. A design's
information is the sum of ``row' row`` over its rows, and the covariance is the inverse of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from insitu.orchestrator.causal.expression import Array

_SOFT_DOUBLINGS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What comes and goes with each of m candidates: rows, one after the other.

    Attributes
    ----------
    pivots
        Of each row, shape (m,): one plus its outcome's variance given the rows before it; of a row that leaves,
        that variance less one, which is negative.
    slopes
        Of each row, shape (m,): its product with itself with the criterion's gradient between, given the rows
        before it; empty for a criterion without `Criterion.weights`.
    projections
        Of each row, shape (r, m): covariance of its outcome with each of `Criterion.targets`, likewise.
    """

    pivots: list[Array]
    slopes: list[Array]
    projections: list[Array]


class Criterion(Protocol):
    """A convex function of the information that falls when information is added: the loss.

    The coordinates of the parameters are free; `mapped` takes a criterion to others. A criterion that is not
    smooth in the information (the worst of several variances) gives a subgradient.
    """

    @property
    def curvature(self) -> float:
        """The factor of ``(x' covariance y) (x' gradient y)`` in the loss's second derivative by two rows."""
        ...

    def asked(self, parameters: int) -> Array:
        """Combinations of parameters whose variances are asked for, shape (parameters, r); with r 0 it is all."""
        ...

    def weights(self, parameters: int) -> Array:
        """Matrix whose trace with the covariance the loss is, shape (parameters, parameters); else zeros."""
        ...

    def targets(self, parameters: int) -> Array:
        """Combinations each of whose variances the loss has to know, shape (parameters, r); r may be 0."""
        ...

    def mapped(self, transform: Array) -> Criterion:
        """The same criterion where the parameters are ``transform @ new``; `transform` has shape (p, q)."""
        ...

    def softened(self) -> Criterion:
        """A criterion to begin a search with: much the same, but it falls with everything that helps."""
        ...

    def loss(self, covariance: Array) -> float:
        """What is made small."""
        ...

    def gradient(self, covariance: Array) -> Array:
        """Fall of the loss per added information, shape (p, p); ``x' gradient x`` is the variance function."""
        ...

    def losses_after(self, covariance: Array, exchange: Exchange) -> Array:
        """Loss after each of m candidates came, and what was to leave for it left, shape (m,)."""
        ...

    def gains(self, before: float, after: Array) -> Array:
        """Falls of the loss on a scale that does not depend on units: logarithms of ratios."""
        ...

    def floor(self, loss: float, gained: float, parameters: int) -> float:
        """A loss that no design goes below, as convexity says of any one design.

        Parameters
        ----------
        loss
            Of that design.
        gained
            The most that the trace of its `gradient` times the information of any design comes to.
        """
        ...

    def value(self, loss: float, log_volume: float = 0.0) -> float:
        """The loss as the field states it: a log-determinant of the information, or a variance.

        Parameters
        ----------
        log_volume
            Logarithm of the squared determinant of the transform to coordinates in which the loss was found.
        """
        ...

    def efficiency(self, value: float, best: float, parameters: int) -> float:
        """Share of the trials that would do at the best possible value; 0 if `value` leaves the question open."""
        ...


@dataclass(frozen=True, slots=True)
class LogDeterminant:
    """All parameters jointly (D-optimality): the volume of their confidence region.

    Notes
    -----
    Fedorov, Theory of Optimal Experiments (1972), chapter 2. Whatever coordinates the parameters have, the same
    design is best.
    """

    @property
    def curvature(self) -> float:
        return 1.0

    def asked(self, parameters: int) -> Array:
        return np.zeros((parameters, 0))

    def weights(self, parameters: int) -> Array:
        return np.zeros((parameters, parameters))

    def targets(self, parameters: int) -> Array:
        return np.zeros((parameters, 0))

    def mapped(self, transform: Array) -> LogDeterminant:
        return self

    def softened(self) -> LogDeterminant:
        return self

    def loss(self, covariance: Array) -> float:
        deviations = np.sqrt(np.diag(covariance))
        return float(np.linalg.slogdet(covariance / np.outer(deviations, deviations))[1]) + 2 * float(
            np.log(deviations).sum()
        )

    def gradient(self, covariance: Array) -> Array:
        return covariance

    def losses_after(self, covariance: Array, exchange: Exchange) -> Array:
        return self.loss(covariance) - np.log(np.abs(math.prod(exchange.pivots, start=np.ones(()))))

    def gains(self, before: float, after: Array) -> Array:
        return before - after

    def floor(self, loss: float, gained: float, parameters: int) -> float:
        # of matrices with a given trace, a multiple of the identity has the largest determinant
        return loss - parameters * math.log(gained / parameters)

    def value(self, loss: float, log_volume: float = 0.0) -> float:
        return -(loss + log_volume)

    def efficiency(self, value: float, best: float, parameters: int) -> float:
        return math.exp((value - best) / parameters) if math.isfinite(value) else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class TotalVariance:
    """The sum of the variances of combinations of parameters (A-, I- and c-optimality).

    Attributes
    ----------
    combinations
        Shape (p, r), one per column; a weight in the sum goes in as its square root.
    """

    combinations: Array

    @property
    def curvature(self) -> float:
        return 2.0

    def asked(self, parameters: int) -> Array:
        return self.combinations

    def weights(self, parameters: int) -> Array:
        weights: Array = self.combinations @ self.combinations.T
        return weights

    def targets(self, parameters: int) -> Array:
        return np.zeros((parameters, 0))

    def mapped(self, transform: Array) -> TotalVariance:
        return TotalVariance(transform.T @ self.combinations)

    def softened(self) -> TotalVariance:
        return self

    def loss(self, covariance: Array) -> float:
        return float(np.sum(self.combinations * (covariance @ self.combinations)))

    def gradient(self, covariance: Array) -> Array:
        shadows = covariance @ self.combinations
        return shadows @ shadows.T

    def losses_after(self, covariance: Array, exchange: Exchange) -> Array:
        losses = np.full(len(exchange.pivots[0]), self.loss(covariance))
        for pivot, slope in zip(exchange.pivots, exchange.slopes, strict=True):
            losses -= slope / pivot
        return losses

    def gains(self, before: float, after: Array) -> Array:
        return _log_ratios(before, after)

    def floor(self, loss: float, gained: float, parameters: int) -> float:
        return loss**2 / gained  # by the inequality of Cauchy and Schwarz; never below what the tangent says

    def value(self, loss: float, log_volume: float = 0.0) -> float:
        return loss

    def efficiency(self, value: float, best: float, parameters: int) -> float:
        return best / value if 0 < value < math.inf else float(value == 0)


@dataclass(frozen=True, slots=True, eq=False)
class WorstVariance:
    """The largest of the variances of combinations of parameters, or a mean in which the large ones count most.

    Attributes
    ----------
    combinations
        Shape (p, r), one per column.
    doublings
        Of the power p, from one, in the loss: the p-th root of the sum of the variances' p-th powers, which tends
        to the largest variance; 0 for that itself.
    """

    combinations: Array
    doublings: int = 0

    @property
    def curvature(self) -> float:
        return 2.0

    def asked(self, parameters: int) -> Array:
        return self.combinations

    def weights(self, parameters: int) -> Array:
        return np.zeros((parameters, parameters))

    def targets(self, parameters: int) -> Array:
        return self.combinations

    def mapped(self, transform: Array) -> WorstVariance:
        return replace(self, combinations=transform.T @ self.combinations)

    def softened(self) -> WorstVariance:
        return replace(self, doublings=_SOFT_DOUBLINGS) if not self.doublings else self

    def loss(self, covariance: Array) -> float:
        return float(self._norm(self.variances(covariance)))

    def gradient(self, covariance: Array) -> Array:
        variances = self.variances(covariance)
        if self.doublings:
            weights = (variances / self._norm(variances)) ** (2**self.doublings - 1)
        else:
            weights = (np.arange(len(variances)) == np.argmax(variances)).astype(float)
        return self.weighted(weights).gradient(covariance)

    def losses_after(self, covariance: Array, exchange: Exchange) -> Array:
        variances = self.variances(covariance)[:, None]
        for pivot, projection in zip(exchange.pivots, exchange.projections, strict=True):
            variances = variances - np.square(projection) * (1 / pivot)
        return self._norm(variances)

    def gains(self, before: float, after: Array) -> Array:
        return _log_ratios(before, after)

    def floor(self, loss: float, gained: float, parameters: int) -> float:
        return loss**2 / gained  # as of the sum of variances with the gradient's weights

    def value(self, loss: float, log_volume: float = 0.0) -> float:
        return loss

    def efficiency(self, value: float, best: float, parameters: int) -> float:
        return best / value if 0 < value < math.inf else float(value == 0)

    def variances(self, covariance: Array) -> Array:
        """Variance of each combination, shape (r,)."""
        variances: Array = (self.combinations * (covariance @ self.combinations)).sum(axis=0)
        return variances

    def weighted(self, weights: Array) -> TotalVariance:
        """The sum of the variances by `weights`; where these sum to one it is never above the largest."""
        return TotalVariance(self.combinations * np.sqrt(weights))

    def _norm(self, variances: Array) -> Array:
        """The loss of variances of shape (r,) or (r, m)."""
        if not self.doublings:
            largest: Array = np.maximum(variances.max(axis=0), 0.0)
            return largest
        scale = max(float(variances.max()), 1e-300)
        powers = np.maximum(variances, 0.0) / scale
        for _ in range(self.doublings):
            powers = np.square(powers)
        norm: Array = powers.sum(axis=0)
        for _ in range(self.doublings):  # a tenth of the time of a power
            norm = np.sqrt(norm)
        return scale * norm


def _log_ratios(before: float, after: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Array = np.log(before) - np.log(np.maximum(after, 0.0))
    return np.where(before > 0, ratios, 0.0)


def d_optimal() -> LogDeterminant:
    """For all parameters of a law."""
    return LogDeterminant()


def a_optimal(parameters: int) -> TotalVariance:
    """For the sum of the parameters' variances: sensible only where all have one unit."""
    return TotalVariance(np.eye(parameters))


def i_optimal(region: Array, weights: Array | None = None) -> TotalVariance:
    """For predictions: the mean variance over a region.

    Parameters
    ----------
    region
        Derivatives of the predictions by the parameters, shape (r, p).
    weights
        Of the predictions in the mean, shape (r,); equal if ``None``.

    Raises
    ------
    ValueError
        If there is no prediction, or a weight is negative, or none is positive.

    Notes
    -----
    The mean variance is the trace of the covariance times the region's moment matrix; the combinations are a
    square root of that matrix, so they are at most as many as parameters (Atkinson, Donev and Tobias, Optimum
    Experimental Designs, with SAS (2007), section 10.6).
    """
    shares = np.full(len(region), 1.0) if weights is None else np.asarray(weights, dtype=float)
    if not len(region) or (shares < 0).any() or shares.sum() <= 0:
        raise ValueError("a region is one prediction or more, with weights of which none is negative")
    rows = region * np.sqrt(shares / shares.sum())[:, None]
    if len(rows) > rows.shape[1]:
        _, rows = np.linalg.qr(rows)
    return TotalVariance(rows.T)


def c_optimal(contrasts: Array, *, worst: bool = False) -> TotalVariance | WorstVariance:
    """For an effect, or several: the sum of their variances, or the `worst` of them.

    Parameters
    ----------
    contrasts
        Derivatives of the effects by the parameters, shape (p,) or (r, p). Of effects in several units, each is
        divided by the precision that is wanted of it.
    """
    combinations = np.atleast_2d(contrasts).T
    return WorstVariance(combinations) if worst and combinations.shape[1] > 1 else TotalVariance(combinations)
