"""What the trials say of the graph, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from insitu.orchestrator.estimation.checks.finding import STRICT


@dataclass(frozen=True, slots=True)
class FailedIndependence:
    """Two variables that the graph says are independent, and that the trials show are not.

    Attributes
    ----------
    given
        What was held equal.
    correlation
        Partial, of what the others leave of the two; 0 to 1 where one of them has categories.
    p_value
        After allowing for the number of statements that were tested (Holm).
    trials
        How many told.
    """

    first: str
    second: str
    given: tuple[str, ...]
    correlation: float
    p_value: float
    trials: int
    sentence: str

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class Untested:
    """A statement of the graph that these trials cannot test, and why."""

    first: str
    second: str
    given: tuple[str, ...]
    reason: str

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT


@dataclass(frozen=True, slots=True)
class GraphCheck:
    """What the trials say of the graph.

    Attributes
    ----------
    tested
        How many statements were.
    """

    tested: int
    failed: tuple[FailedIndependence, ...]
    untested: tuple[Untested, ...]

    __pydantic_config__: ClassVar[dict[str, str]] = STRICT

    @property
    def sentence(self) -> str:
        """What it means here."""
        if not self.tested:
            return "The graph is not tested: it implies nothing that these trials could contradict."
        if not self.failed:
            return (
                f"The trials contradict none of the {self.tested} independencies of the graph that they can test."
            )
        return f"The trials contradict {len(self.failed)} of {self.tested} independencies that the graph implies."
