"""Designs that fill the space of the factors evenly, for when no law says where trials tell most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from insitu.orchestrator.causal.expression import Array

SWAPS_PER_TRIAL = 30
"""Swaps that are tried for each trial and factor."""
_CLOSEST = 15
"""Power by which near pairs outweigh far ones; the nearest pair alone would count at infinity."""


class Axis(Protocol):
    """What one factor may be set to, from 0 (lowest) to 1 (highest)."""

    def levels_at(self, shares: Array) -> Array:
        """Levels at shares of the way, each between 0 and 1."""
        ...

    def places_of(self, shares: Array) -> Array:
        """Where on the way those levels stand: the shares themselves, unless levels are few."""
        ...


@dataclass(frozen=True, slots=True)
class RangeAxis:
    """Any level from `low` to `high`; on a logarithmic scale equal ratios are equally far apart.

    Raises
    ------
    ValueError
        If the range is empty or infinite, or logarithmic and not positive.
    """

    low: float
    high: float
    logarithmic: bool = False

    def __post_init__(self) -> None:
        if not -np.inf < self.low < self.high < np.inf or (self.logarithmic and self.low <= 0):
            raise ValueError(f"no range of levels: {self}")

    def levels_at(self, shares: Array) -> Array:
        if self.logarithmic:
            between = np.exp(np.log(self.low) + shares * (np.log(self.high) - np.log(self.low)))
        else:
            between = self.low + shares * (self.high - self.low)
        levels: Array = np.clip(between, self.low, self.high)
        return levels

    def places_of(self, shares: Array) -> Array:
        return shares


@dataclass(frozen=True, slots=True)
class ListedAxis:
    """A few levels, in the order in which they are listed; an unlimited one may be among them."""

    levels: tuple[float, ...]

    def levels_at(self, shares: Array) -> Array:
        return np.array(self.levels)[self._numbers(shares)]

    def places_of(self, shares: Array) -> Array:
        places: Array = (self._numbers(shares) + 0.5) / len(self.levels)
        return places

    def _numbers(self, shares: Array) -> np.typing.NDArray[np.int64]:
        return np.minimum((shares * len(self.levels)).astype(np.int64), len(self.levels) - 1)


def latin_hypercube(axes: Sequence[Axis], trials: int, rng: np.random.Generator) -> Array:
    """Levels of each trial, shape (trials, factors): evenly spread along every factor, and far apart.

    Cut into as many slices of equal width as there are trials, each factor has one trial in the middle of each
    slice. Of a factor with listed levels, each level has as many trials as any other, or one more.

    Raises
    ------
    ValueError
        If there are no trials.

    Notes
    -----
    McKay, Beckman and Conover, Technometrics 21 (1979), 239-245; swaps that make near pairs fewer after Morris and
    Mitchell, Journal of Statistical Planning and Inference 43 (1995), 381-402.
    """
    if trials < 1:
        raise ValueError(f"a design of {trials} trials")
    shares = np.column_stack([(rng.permutation(trials) + 0.5) / trials for _ in axes]).reshape(trials, len(axes))
    if trials > 2 and len(axes) > 1:
        _spread(shares, axes, rng)
    return np.column_stack([axis.levels_at(shares[:, at]) for at, axis in enumerate(axes)])


def _spread(shares: Array, axes: Sequence[Axis], rng: np.random.Generator) -> None:
    """Swap two trials' shares of one factor wherever that takes near pairs apart, in place."""
    places = np.column_stack([axis.places_of(shares[:, at]) for at, axis in enumerate(axes)])
    trials, factors = shares.shape
    for _ in range(SWAPS_PER_TRIAL * trials * factors):
        factor = int(rng.integers(factors))
        pair = rng.choice(trials, 2, replace=False)
        before = _crowding(places, pair)
        places[pair, factor] = places[pair[::-1], factor]
        if _crowding(places, pair) < before:
            shares[pair, factor] = shares[pair[::-1], factor]
        else:
            places[pair, factor] = places[pair[::-1], factor]


def _crowding(places: Array, pair: np.typing.NDArray[np.int64]) -> float:
    """How near two trials are to all others; what is between the others does not change with them."""
    squares = ((places[:, None, :] - places[pair]) ** 2).sum(axis=2)
    squares[pair, [0, 1]] = np.inf
    return float((np.maximum(squares, 1e-12) ** (-_CLOSEST / 2)).sum())
