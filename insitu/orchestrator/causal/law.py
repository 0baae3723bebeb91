"""One law, ready for estimation: its mean and derivatives, and the units of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.orchestrator.causal.expression import (
    Array,
    Expression,
    Negative,
    Number,
    Sum,
    addends_of,
    evaluate,
    has_any,
    spell,
    substitute,
)
from insitu.orchestrator.causal.gradient import differentiate
from insitu.orchestrator.causal.linear import Term, split
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Method, Noise
from insitu.orchestrator.plan.types import PriorText

__all__ = ["Bounds", "Law", "Link", "Method", "Noise"]

_NOTHING = Term(None, Number(0.0), 0)


@dataclass(frozen=True, slots=True)
class Law:
    """The operational law that gives a variable from its parents.

    Attributes
    ----------
    variable
        What the law gives.
    text
        The right side as the model has it, on one line.
    parameters
        In order of appearance; the order of every design row.
    parameter_units
        Unit in which each estimate is reported: the model's, else base units.
    parameter_scales
        What an estimate in base units is multiplied by to be in its reported unit.
    parents
        Variables on the right side, in order of appearance.
    terms
        The addends, where the law is linear in its parameters; else none.
    expression
        The right side; names are parents and parameters.
    bounds
        Where the bounded parameters may be.
    starts
        Where a search for some parameters starts, in base units.
    link
        What the right side gives: the mean, or its logarithm.
    noise
        How trials spread about the mean.
    method
        How the parameters are found.
    quantile
        Which one the law gives, where `method` asks for one.
    priors
        What earlier runs found about some of the parameters.
    """

    variable: str
    text: str
    parameters: tuple[str, ...]
    parameter_units: dict[str, str]
    parameter_scales: dict[str, float]
    parents: tuple[str, ...]
    terms: tuple[Term, ...]
    expression: Expression
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    starts: Mapping[str, float] = field(default_factory=dict)
    link: Link = Link.IDENTITY
    noise: Noise = Noise.NORMAL
    method: Method = Method.LEAST_SQUARES
    quantile: float = 0.5
    priors: tuple[PriorText, ...] = ()

    @property
    def linear(self) -> bool:
        """Whether the right side is linear in the parameters."""
        return bool(self.terms)

    @property
    def relative_noise(self) -> bool:
        """Whether the spread is proportional to the mean."""
        return self.noise.relative

    def mean(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        """Mean of the variable at n points.

        Parameters
        ----------
        parameters
            In the law's order and in base units, shape (p,).
        levels
            Parent to its levels, each of shape (n,).

        Returns
        -------
        numpy.ndarray
            Shape (n,), base units; ``nan`` where the law is not defined.

        Raises
        ------
        InputError
            If a parent has no level.
        """
        right = self.right_side(parameters, levels)
        with np.errstate(all="ignore"):
            return np.exp(right) if self.link is Link.LOG else right

    def right_side(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        """As `mean`, before the link is undone."""
        rows = self._rows(levels)
        if self.linear:
            with np.errstate(all="ignore"):
                return self.offsets(levels) + self.design_matrix(levels) @ np.asarray(parameters, dtype=np.float64)
        return np.broadcast_to(evaluate(self.expression, self._values(parameters, levels)), (rows,)).copy()

    def gradient(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        """Derivative of `mean` by each parameter; exact.

        Returns
        -------
        numpy.ndarray
            Shape (n, p), base units; ``nan`` where the law is not defined.

        Raises
        ------
        InputError
            If a parent has no level.
        """
        rows = self._rows(levels)
        if self.linear:
            slopes, right = self.design_matrix(levels), None
        else:
            found = differentiate(self.expression, self.parameters, self._values(parameters, levels), rows)
            slopes, right = found.slopes, found.value
        if self.link is Link.IDENTITY:
            return slopes
        right = self.right_side(parameters, levels) if right is None else right
        with np.errstate(all="ignore"):
            return slopes * np.exp(right)[:, None]

    def _values(self, parameters: Array, levels: Mapping[str, Array]) -> dict[str, Array | float]:
        named = zip(self.parameters, np.asarray(parameters, dtype=np.float64).tolist(), strict=True)
        return {**{name: levels[name] for name in self.parents}, **dict(named)}

    def design_row(self, levels: Mapping[str, float]) -> Array:
        """Derivative of a linear law's right side with respect to each parameter.

        Parameters
        ----------
        levels
            Level of each parent in base units; infinity is unlimited, and divides to 0.

        Returns
        -------
        numpy.ndarray
            Shape (p,).

        Raises
        ------
        InputError
            If a parent has no level.
        """
        return self.design_matrix(_columns(levels)).reshape(-1)

    def offset(self, levels: Mapping[str, float]) -> float:
        """The law's part without any parameter, in base units of the variable.

        Raises
        ------
        InputError
            If a parent has no level.
        """
        return float(self.offsets(_columns(levels))[0])

    def design_matrix(self, levels: Mapping[str, Array]) -> Array:
        """Design rows of n trials at once, for a law that is linear.

        Parameters
        ----------
        levels
            Parent to its levels, each of shape (n,).

        Returns
        -------
        numpy.ndarray
            Shape (n, p).

        Raises
        ------
        InputError
            If a parent has no level.
        """
        rows = self._rows(levels)
        self._require_linear()
        matrix = np.zeros((rows, len(self.parameters)))
        for term in self.terms:
            if term.parameter is not None:
                with np.errstate(all="ignore"):
                    matrix[:, self.parameters.index(term.parameter)] += evaluate(term.coefficient, levels)
        return matrix

    def offsets(self, levels: Mapping[str, Array]) -> Array:
        """Offsets of n trials at once, shape (n,).

        Raises
        ------
        InputError
            If a parent has no level.
        """
        total = np.zeros(self._rows(levels))
        self._require_linear()
        for term in self.terms:
            if term.parameter is None:
                with np.errstate(all="ignore"):
                    total += evaluate(term.coefficient, levels)
        return total

    def _require_linear(self) -> None:
        if not self.linear:
            raise InputError(
                f"the law of '{self.variable}' is not linear in its parameters, so it has no design matrix",
                hint="take its gradient at values of the parameters",
            )

    def _rows(self, levels: Mapping[str, Array]) -> int:
        missing = [name for name in self.parents if name not in levels]
        if missing:
            raise InputError(
                f"the law of '{self.variable}' needs a level of {', '.join(missing)}",
                hint="give every parent of the law a level",
            )
        return max((len(levels[name]) for name in levels), default=1)

    def without(self, parameters: Collection[str]) -> Law:
        """The law less the terms of some parameters: as it stands where those terms are zero."""
        return self.holding(dict.fromkeys(parameters, 0.0))

    def holding(self, values: Mapping[str, float]) -> Law:
        """The law with some parameters held at values in base units; the others are left to be found."""
        held = {name: Number(float(value)) for name, value in values.items() if name in self.parameters}
        free = tuple(name for name in self.parameters if name not in held)
        expression = substitute(self.expression, held)
        if self.linear and not any(number.value for number in held.values()):
            terms = tuple(term for term in self.terms if term.parameter not in held) or (_NOTHING,)
        else:
            terms = split(expression, free)
        bounds = {name: one for name, one in self.bounds.items() if name in free}
        return replace(self, parameters=free, terms=terms, expression=expression, bounds=bounds)

    @property
    def term_texts(self) -> dict[str, str]:
        """Parameter to what it is multiplied by, as text: ``{"a": "input_size / cpu_cores", "c": "1"}``.

        In a law that is not linear: to the addends in which it stands.
        """
        if not self.linear:
            addends = addends_of(self.expression)
            return {
                parameter: _spell_sum([one for one in addends if has_any(one, frozenset({parameter}))])
                for parameter in self.parameters
            }
        return {
            parameter: _spell_sum([t.coefficient for t in self.terms if t.parameter == parameter])
            for parameter in self.parameters
        }

    @property
    def offset_text(self) -> str:
        """The part of a linear law without any parameter as text; ``"0"`` if there is none."""
        return _spell_sum([t.coefficient for t in self.terms if t.parameter is None])


def _columns(levels: Mapping[str, float]) -> dict[str, Array]:
    return {name: np.asarray([level], dtype=np.float64) for name, level in levels.items()}


def _spell_sum(coefficients: list[Expression]) -> str:
    if not coefficients:
        return spell(Number(0.0))
    if len(coefficients) == 1:
        return spell(coefficients[0])
    negative = [isinstance(one, Negative) for one in coefficients]
    terms = tuple(
        one.operand if isinstance(one, Negative) and index else one for index, one in enumerate(coefficients)
    )
    signs = tuple(-1 if flag and index else 1 for index, flag in enumerate(negative))
    return spell(Sum(terms, signs))
