"""How often something was observed, its mean, and its spread about the mean; of any number of rows."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.orchestrator.causal.expression import Array


@dataclass(frozen=True, slots=True)
class Moments:
    """Of weighted outcomes; of none, unless said otherwise.

    Attributes
    ----------
    n, weight
        Number of rows and the sum of their weights.
    mean, spread
        Weighted mean, and weighted sum of squares about it.

    Notes
    -----
    Sums are joined about the joint mean and not about zero, which would cancel (Chan, Golub and LeVeque,
    *Algorithms for computing the sample variance*, The American Statistician 37, 1983).
    """

    n: int = 0
    weight: float = 0.0
    mean: float = 0.0
    spread: float = 0.0

    @classmethod
    def of(cls, observed: Array, weights: Array | None = None) -> Moments:
        """Of finite outcomes and positive weights, each of shape (m,); left out, the weights are one."""
        if not len(observed):
            return cls()
        if weights is None:
            mean = float(observed.mean())
            return cls(len(observed), float(len(observed)), mean, float(((observed - mean) ** 2).sum()))
        total = float(weights.sum())
        mean = float(weights @ observed) / total
        return cls(len(observed), total, mean, float(weights @ (observed - mean) ** 2))

    def joined_with(self, other: Moments) -> Moments:
        """Of both sets of rows."""
        if not other.n:
            return self
        weight = self.weight + other.weight
        away = other.mean - self.mean
        return Moments(
            n=self.n + other.n,
            weight=weight,
            mean=self.mean + away * (other.weight / weight),
            spread=self.spread + other.spread + away**2 * (self.weight * other.weight / weight),
        )

    def without(self, observed: float, weight: float) -> Moments:
        """Of all rows but one; there are others."""
        left = self.weight - weight
        away = observed - self.mean
        mean = self.mean - away * (weight / left)
        return Moments(self.n - 1, left, mean, max(0.0, self.spread - weight * away * (observed - mean)))
