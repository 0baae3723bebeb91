"""What the checks of a fit can say, each with one sentence of what it means for this law and these trials."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

STRICT: dict[str, str] = {"extra": "forbid"}
"""How records of a fitted law are validated when they are read back."""


class Check(StrEnum):
    """What a finding is about."""

    CONSTANT = "constant"
    """The outcome is the same in every trial."""
    SKIPPED = "skipped"
    """Valid trials that could not be fitted."""
    LEVERAGE = "leverage"
    """Trials that alone decide a part of the law."""
    INFLUENCE = "influence"
    """Trials without which the answer would be another."""
    PATTERN = "pattern"
    """Residuals of one sign come in runs along the fitted values: the law has the wrong shape."""
    DRIFT = "drift"
    """Residuals rise or fall in the order of execution."""
    BLOCKS = "blocks"
    """Blocks of trials differ by more than noise."""
    NODES = "nodes"
    """Nodes differ by more than noise."""
    SPREAD = "spread"
    """Noise is larger at some levels than at others."""
    SHAPE = "shape"
    """The noise has another shape than the law says."""
    LACK_OF_FIT = "lack_of_fit"
    """The law misses more than replicates differ among themselves."""
    COLLINEARITY = "collinearity"
    """Parameters that the trials can hardly tell apart."""
    LEVEL_ERRORS = "level_errors"
    """Errors of the achieved levels that shift the estimates."""
    PRIOR = "prior"
    """Whether what an earlier run found agrees with these trials."""
    BOUND = "bound"
    """Parameters that stand at a bound."""
    SEARCH = "search"
    """Whether the search for the parameters ended where it should."""
    OUTLIERS = "outliers"
    """Trials that a robust fit counts less."""
    GROUPS = "groups"
    """What nodes and days add to the uncertainty, or why they could not be allowed for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says here.

    Attributes
    ----------
    notable
        Whether a reader must know before using the law.
    sentence
        What it means for this law and these trials.
    p_value
        Of the check's test; ``None`` where it is none.
    trials, parameters
        Those that it is about.
    """

    check: Check
    notable: bool
    sentence: str
    p_value: float | None = None
    trials: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT
