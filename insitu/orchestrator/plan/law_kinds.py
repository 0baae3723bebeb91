"""How a law is meant: its link, its noise, how it is fitted, and the bounds of its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Link(StrEnum):
    """What the right side of a law gives."""

    IDENTITY = "identity"
    """The mean itself."""
    LOG = "log"
    """The natural logarithm of the mean, in base units: addends multiply."""


class Noise(StrEnum):
    """How trials spread about the mean."""

    NORMAL = "normal"
    """With a spread that is the same at every mean."""
    GAMMA = "gamma"
    """With a spread proportional to the mean, and a longer tail above it."""
    LOGNORMAL = "lognormal"
    """With a spread proportional to the mean, normal in the logarithm."""

    @property
    def relative(self) -> bool:
        """Whether the spread is proportional to the mean."""
        return self is not Noise.NORMAL


class Method(StrEnum):
    """How the parameters of a law are found."""

    LEAST_SQUARES = "least_squares"
    """Least squares, or maximum likelihood where the noise is not normal."""
    ROBUST = "robust"
    """Trials far off count less (Huber)."""
    QUANTILE = "quantile"
    """A quantile in the place of the mean."""
    CLUSTERED = "clustered"
    """As least squares; the intervals allow for trials of one node that err together."""
    MIXED = "mixed"
    """Each node and each day has an offset of its own, drawn at random."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a parameter may be, in base units; both ends included."""

    low: float = -math.inf
    high: float = math.inf
