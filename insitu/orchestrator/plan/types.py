"""What a plan says, after loading: frozen, in base units, every name resolved.

What a model says is here too, so that their users need one module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from insitu.injectors.options import Options
from insitu.orchestrator.plan.blast_radius import BlastRadius
from insitu.orchestrator.plan.goals import Goal
from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
from insitu.orchestrator.plan.model_types import (
    Category,
    Constant,
    Given,
    LawText,
    ModelText,
    ParameterText,
    PriorText,
    Role,
    Settable,
    Variable,
)

__all__ = [
    "Budget",
    "Category",
    "Condition",
    "Constant",
    "DesignSpec",
    "Factor",
    "Given",
    "Goal",
    "Guards",
    "LawText",
    "ModelText",
    "ParameterText",
    "Plan",
    "PriorText",
    "Probe",
    "Relation",
    "Role",
    "Settable",
    "Span",
    "Subject",
    "Variable",
]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is re-executed, as argument lists with ``{placeholders}``.

    Placeholders are ``{scratch}`` and ``{data}`` (folders), ``{python}`` (the interpreter that runs
    insitu) and ``{name}`` of every parameter variable (bytes as a whole number).

    Attributes
    ----------
    command
        Executed and timed.
    prepare
        Executed before each trial, untimed and unthrottled; its stdout becomes ``{scratch}/in``.
    data
        File name to command; each is executed once per run and its stdout becomes ``{data}/<name>``.
    network
        ``host``: the command reaches what it reaches in place; ``none``: nothing but its own loopback; empty:
        nothing else, unless a variable of its network link is set.
    page_cache
        ``cold``: no page of ``{scratch}/in`` is in memory when the command starts; ``warm``: all are.
    environment
        Added to a minimal environment (``PATH``, ``HOME``, ``LANG=C.UTF-8``); values with placeholders.
    """

    command: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    data: tuple[tuple[str, tuple[str, ...]], ...] = ()
    page_cache: str = "cold"
    environment: tuple[tuple[str, str], ...] = ()
    network: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Every level from `low` to `high`, base units.

    Attributes
    ----------
    logarithmic
        Whether equal ratios are equally far apart.
    whole
        Whether levels are whole numbers.
    """

    low: float
    high: float
    logarithmic: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Factor:
    """A variable that trials may set.

    Attributes
    ----------
    levels
        Base units, in the order of the plan; infinity is *unlimited*.
    options
        For the injector, beside the level.
    line, column
        Where the plan names the variable; 0 if it was not read from a file.
    span
        Where the levels were spread over, for designs that may set any level between; ``None`` of listed ones.
    hard_to_change
        Whether trials are to be grouped, so that it changes seldom.
    """

    variable: str
    levels: tuple[float, ...]
    options: Options = ()
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    span: Span | None = None
    hard_to_change: bool = False


SEQUENTIAL = "sequential"
"""The kind of design that chooses its trials as it goes."""


@dataclass(frozen=True, slots=True)
class DesignSpec:
    """How levels are given to trials.

    Attributes
    ----------
    kind
        ``sequential``, or the name of a registered design.
    replicates
        Of a design that is fixed beforehand: trials per assignment; one in each block.
    baseline_replicates
        Trials per block without any intervention.
    trials
        Of a design that is told how many: those that check the law come on top.
    batch
        Trials between two refits, of a design that is chosen as it goes; ``None``: by the number of parameters.
    seed
        Seed of the run's only random generator.
    blocks
        Of an optimal design: stretches of time, or groups of trials that share a setting of what is hard to
        change; ``None``: one, or by the number of settings.
    resolution
        Of a fraction of two-level factors.
    setup_s
        What a trial takes beside the subject's own time, until trials have told; ``None``: not known.
    """

    kind: str = "factorial"
    replicates: int = 2
    baseline_replicates: int = 1
    trials: int | None = None
    batch: int | None = None
    seed: int = 1
    blocks: int | None = None
    resolution: int = 4
    setup_s: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that an experiment may take; replacements of invalid trials come out of it too."""

    trials: int | None = None
    time_s: float | None = None


class Relation(StrEnum):
    """How a quantity of the node compares with the bound of a condition."""

    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="

    @property
    def upwards(self) -> bool:
        """Whether larger values make the condition true."""
        return self in (Relation.ABOVE, Relation.AT_LEAST)

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Condition:
    """A state of the node in which no trial goes on.

    Attributes
    ----------
    quantity
        One of `insitu.orchestrator.plan.host_quantities.HOST_QUANTITIES`.
    bound
        Base units.
    line, column
        Where the plan states it; 0 for one that follows from another key.
    """

    quantity: str
    relation: Relation
    bound: float
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def holds_for(self, value: float) -> bool:
        """Whether a value of the quantity makes it true."""
        match self.relation:
            case Relation.BELOW:
                return value < self.bound
            case Relation.AT_MOST:
                return value <= self.bound
            case Relation.ABOVE:
                return value > self.bound
            case Relation.AT_LEAST:
                return value >= self.bound

    def why(self, value: float) -> str:
        """In words, for a value that makes it true; with as many digits as tell the two apart."""
        spell = HOST_QUANTITIES[self.quantity].spell
        digits = 3
        while digits < 9 and value != self.bound and spell(value, digits) == spell(self.bound, digits):
            digits += 1
        return f"{self.quantity} is {spell(value, digits)}, {self.relation.words} {spell(self.bound, digits)}"

    def __str__(self) -> str:
        return f"{self.quantity} {self.relation} {HOST_QUANTITIES[self.quantity].spell(self.bound)}"


@dataclass(frozen=True, slots=True)
class Probe:
    """The user's own condition: a command that ends with another status than 0, or not in time.

    Attributes
    ----------
    command
        Argument list; ``{python}`` is the interpreter that runs insitu.
    every_s
        From start to start.
    """

    command: tuple[str, ...]
    every_s: float = 0.5
    timeout_s: float = 0.4


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits that protect the node.

    Attributes
    ----------
    free_memory_bytes
        ``None``: the default, which depends on how much the node has.
    abort_when
        Further conditions that end a trial and the run.
    node_wait_s
        How long a trial waits for a node on which one of them is true already.
    """

    trial_timeout_s: float = 60.0
    scratch_bytes: float = 4e9
    outside_writes_bytes: float = 256e6
    processes: int = 512
    free_disk_bytes: float = 1e9
    free_memory_bytes: float | None = None
    abort_when: tuple[Condition, ...] = ()
    probe: Probe | None = None
    node_wait_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment as the user submitted it, resolved against its model.

    Attributes
    ----------
    when_unsettable
        ``refuse`` to run where a factor cannot be set, or ``leave`` it as it is.
    tolerated_slowdown
        A trial in which the processors were slower than at their best by more than this share does not count.
    """

    name: str
    path: Path
    subject: Subject
    factors: tuple[Factor, ...]
    design: DesignSpec
    budget: Budget
    guards: Guards
    goal: Goal | None
    model: ModelText
    plan_source: str
    model_source: str
    when_unsettable: str = "refuse"
    tolerated_slowdown: float = math.inf
    blast_radius: BlastRadius = field(default_factory=BlastRadius)

    @property
    def has_factors_of_model(self) -> bool:
        """Whether it lists no factors itself, and has those to which its model gives levels."""
        return not any(factor.line for factor in self.factors)
