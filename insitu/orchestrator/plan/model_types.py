"""What a model file says, after loading: frozen, in base units where a unit is known, every name resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from insitu.injectors.options import Option
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from insitu.orchestrator.units import Dimension, format_quantity


class Role(StrEnum):
    """How a variable of the model gets its value in a trial."""

    PARAMETER = "parameter"
    """The subject's own: substituted into its arguments and environment as ``{name}``."""
    SET = "set"
    """Held by an injector."""
    MEASURED = "measured"
    """Read off the finished trial."""
    LATENT = "latent"
    """Neither set nor measured; given by its law alone."""


@dataclass(frozen=True, slots=True)
class Settable:
    """What a plan needs to know of a variable that an injector sets.

    Attributes
    ----------
    rest
        The level that asks for nothing: infinity for a cap, 0 for what is added, ``None`` where there is none.
    words
        Levels that have a name, ``unlimited`` apart.
    options
        What a plan may say beside the level.
    """

    unit: str
    rest: float | None = math.inf
    words: Mapping[str, float] = field(default_factory=dict)
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Category:
    """One value of a variable that has no numbers.

    Attributes
    ----------
    members
        What is measured where the variable has this value: names of nodes.
    """

    word: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A vertex of the causal model.

    Attributes
    ----------
    name
        Identifier used in laws and factors.
    unit
        Unit as the model writes it; values are floats in its base units.
    role
        How it gets its value.
    source
        The injector's variable (``cpu.cores``) for `Role.SET`, the measurement (``wall_time``, ``node``) for
        `Role.MEASURED`, else ``None``.
    settable
        What its injector says, for `Role.SET`, else ``None``.
    line, column
        Where the model declares it; 0 if it was not read from a file.
    categories
        Of a variable that has words in the place of numbers; a level is the number of one, from 0.
    """

    name: str
    unit: str
    role: Role
    source: str | None = None
    settable: Settable | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    categories: tuple[Category, ...] = ()

    @property
    def rest(self) -> float | None:
        """The level of no intervention, for `Role.SET`; ``None`` where every level is one."""
        return math.inf if self.settable is None else self.settable.rest

    @property
    def words(self) -> tuple[str, ...]:
        """Words of the categories, in the order of their numbers."""
        return tuple(category.word for category in self.categories)

    def code(self, seen: str) -> float | None:
        """Number of the category that a word, or a node's name, belongs to; ``None`` if there is none."""
        for number, category in enumerate(self.categories):
            if seen == category.word or seen in category.members:
                return float(number)
        return None

    def spell(self, level: float, digits: int = 3) -> str:
        """Write a level for a reader: a category's word, else a quantity in the variable's unit."""
        if not self.categories:
            return format_quantity(level, self.unit, digits)
        known = math.isfinite(level) and level == int(level) and 0 <= level < len(self.categories)
        return self.categories[int(level)].word if known else "no category"


@dataclass(frozen=True, slots=True)
class PriorText:
    """What an earlier run found about a law.

    Attributes
    ----------
    variable
        Whose law it was.
    path
        The file that the model names, or the one in the run directory that it names.
    source
        The text of that file, a ``fitted.json``.
    line, column
        Where the model names it; 0 if it was not read from a file.
    """

    variable: str
    path: Path
    source: str = field(repr=False)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class LawText:
    """A law as written: the variable it gives, its right side, and where that stands in the file.

    Attributes
    ----------
    quantile
        The one that the law gives, where `method` asks for one.
    """

    variable: str
    text: str
    line: int
    column: int
    link: Link = Link.IDENTITY
    noise: Noise = Noise.NORMAL
    method: Method = Method.LEAST_SQUARES
    quantile: float = 0.5
    prior: PriorText | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A value as written, and where."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ParameterText:
    """What the model says of a law's parameter.

    Attributes
    ----------
    unit
        Unit that its estimate is reported in, and that bare numbers are in; ``None`` for base units.
    low, high
        Bounds; ``None`` where there is none.
    start
        Where a search for it starts; ``None`` for the estimator's choice.
    line, column
        Where the unit stands, else the parameter.
    """

    name: str
    unit: str | None
    line: int
    column: int
    low: Given | None = None
    high: Given | None = None
    start: Given | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A known quantity that laws call by a name; the value is in base units."""

    name: str
    value: float
    dimension: Dimension


@dataclass(frozen=True, slots=True)
class ModelText:
    """A model file after loading, before its laws are parsed (that is ``causal``'s work).

    Attributes
    ----------
    confounded
        Pairs of variables with a common cause that is not in the model.
    """

    path: Path
    variables: dict[str, Variable]
    laws: tuple[LawText, ...]
    parameters: tuple[ParameterText, ...] = ()
    constants: tuple[Constant, ...] = ()
    confounded: tuple[tuple[str, str], ...] = ()
