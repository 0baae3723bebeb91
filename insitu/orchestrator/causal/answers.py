"""What identification answers: told by data, needs an intervention, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from insitu.orchestrator.causal.estimand import Estimand
from insitu.orchestrator.causal.instruments import Instrument


class Method(StrEnum):
    """How an effect is told from data; in the order in which they are tried."""

    NO_EFFECT = "no effect"
    """No cause leads to an outcome."""
    TRIALS = "trials"
    """The trials set the causes themselves."""
    BACK_DOOR = "back-door"
    """With some variables held equal, nothing but the effect is left of the association."""
    FRONT_DOOR = "front-door"
    """Mediators carry the whole effect, and are told from the causes and by the outcomes."""
    DISTRICTS = "districts"
    """A formula of the complete algorithm: a product of one factor for each district."""
    INSTRUMENT = "instrument"
    """For linear laws only: a variable moves the outcome through the cause alone."""


class Obstacle(StrEnum):
    """Why data do not tell an effect."""

    OUTCOME_NOT_MEASURED = "outcome not measured"
    CAUSE_NOT_KNOWN = "cause not known"
    """A cause is not measured, and no trial sets it."""
    NEVER_LEFT_ALONE = "never left alone"
    """Every trial sets something that the effect passes through, or that the question leaves alone."""
    HIDDEN_CAUSE = "hidden cause"
    """A hidden cause mixes with the effect."""


@dataclass(frozen=True, slots=True)
class Question:
    """The distribution of the outcomes under do(causes).

    Attributes
    ----------
    beside
        What every earlier trial set and no cause acts on: the answer is for given levels of it.
    """

    causes: tuple[str, ...]
    outcomes: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedCause:
    """Two variables with a hidden cause of both; `source` is its name, where the model has one."""

    first: str
    second: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Blockage:
    """What stands between data and the answer.

    Attributes
    ----------
    variables
        Those not measured, not known or never left alone; empty for a hidden cause.
    chain
        Hidden causes that link what a question moves to what it asks about; empty for the others.
    """

    obstacle: Obstacle
    variables: tuple[str, ...] = ()
    chain: tuple[SharedCause, ...] = ()


@dataclass(frozen=True, slots=True)
class FromData:
    """The effect is told by data.

    Attributes
    ----------
    trials
        The kinds of trials that tell it, each by what it sets; an empty one is data without intervention.
    estimand
        What to compute, with one distribution for each kind of trial; ``None`` for `Method.INSTRUMENT`.
    adjust_for
        For `Method.BACK_DOOR`.
    mediators
        For `Method.FRONT_DOOR`.
    instrument
        For `Method.INSTRUMENT`.
    """

    question: Question
    method: Method
    trials: tuple[tuple[str, ...], ...]
    estimand: Estimand | None = None
    adjust_for: tuple[str, ...] = ()
    mediators: tuple[str, ...] = ()
    instrument: Instrument | None = None


@dataclass(frozen=True, slots=True)
class NeedsIntervention:
    """The effect is told by trials that set some more variables.

    Attributes
    ----------
    interventions
        The smallest set, beside what every earlier trial set and the question gives levels for.
    proven_smallest
        If not, none of them can be left out, but another set may be smaller.
    afterwards
        How the effect is told then.
    instrument
        Would tell the effect from the data that are there, if every law were linear.
    """

    question: Question
    interventions: tuple[str, ...]
    proven_smallest: bool
    blockage: Blockage
    afterwards: FromData
    instrument: Instrument | None = None


@dataclass(frozen=True, slots=True)
class NotIdentifiable:
    """The effect cannot be told, whichever of the settable variables are set.

    Attributes
    ----------
    would_help
        Variables that would have to be settable; empty if the outcome is not measured.
    instrument
        As for `NeedsIntervention`.
    """

    question: Question
    blockage: Blockage
    would_help: tuple[str, ...] = ()
    instrument: Instrument | None = None


Answer = FromData | NeedsIntervention | NotIdentifiable
