"""One law, ready for estimation: its terms, and the units of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array, Expression, Negative, Number, Sum, evaluate, spell
from insitu.orchestrator.causal.linear import Term
from insitu.orchestrator.errors import InputError


@dataclass(frozen=True, slots=True)
class Law:
    """The operational law that gives a variable from its parents, linear in its parameters.

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
        The addends.
    """

    variable: str
    text: str
    parameters: tuple[str, ...]
    parameter_units: dict[str, str]
    parameter_scales: dict[str, float]
    parents: tuple[str, ...]
    terms: tuple[Term, ...]

    def design_row(self, levels: Mapping[str, float]) -> Array:
        """Derivative of the law with respect to each parameter.

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
        """Design rows of n trials at once.

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
        for term in self.terms:
            if term.parameter is None:
                with np.errstate(all="ignore"):
                    total += evaluate(term.coefficient, levels)
        return total

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
        return replace(
            self,
            parameters=tuple(name for name in self.parameters if name not in parameters),
            terms=tuple(term for term in self.terms if term.parameter not in parameters),
        )

    @property
    def term_texts(self) -> dict[str, str]:
        """Parameter to what it is multiplied by, as text: ``{"a": "input_size / cpu_cores", "c": "1"}``."""
        return {
            parameter: _spell_sum([t.coefficient for t in self.terms if t.parameter == parameter])
            for parameter in self.parameters
        }

    @property
    def offset_text(self) -> str:
        """The part without any parameter as text; ``"0"`` if there is none."""
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
