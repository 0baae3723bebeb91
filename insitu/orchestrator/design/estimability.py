"""What planned trials can tell of a law, foreseen before any of them is executed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.causal.expression import Array, names
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.rank import mixed_columns
from insitu.orchestrator.causal.separating import find_separating, stand_in
from insitu.orchestrator.design.belief import nominal
from insitu.orchestrator.design.optimality.criteria import c_optimal
from insitu.orchestrator.design.optimality.precision import precision_of
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import PlannedTrial


@dataclass(frozen=True, slots=True)
class Confounding:
    """Parameters that the trials mix up.

    Attributes
    ----------
    parameters
        In the order of the law.
    constant
        Variables of their terms that stand at one level in every trial.
    separating
        Variables of their terms that a plan can set, each of which separates them if it varies.
    together
        Variables that separate them only if all of these vary; empty with `separating`, or if nothing does.
    """

    parameters: tuple[str, ...]
    constant: tuple[str, ...]
    separating: tuple[str, ...]
    together: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a fit of the law will find.

    Attributes
    ----------
    trials
        At whose levels the law is finite.
    estimated
        Parameters whose terms are not zero in every trial: those that a fit has.
    silent
        The others.
    known
        Parameters that an earlier run has told.
    """

    trials: int
    estimated: tuple[str, ...]
    silent: tuple[str, ...]
    confounded: tuple[Confounding, ...]
    known: int = 0

    @property
    def missing_trials(self) -> int:
        """How many more a fit needs: one more than it has parameters to find, for the intervals."""
        return max(0, max(0, len(self.estimated) - self.known) + 1 - self.trials)

    @property
    def can_be_fitted(self) -> bool:
        return not self.missing_trials and not self.confounded


def forecast(
    law: Law,
    trials: Sequence[PlannedTrial],
    variables: Mapping[str, Variable],
    *,
    at_best: bool = False,
    known: Array | None = None,
) -> Forecast:
    """Foresee what a fit of the law to these trials can tell apart.

    A variable that no plan sets may take any value, another one in each trial; so parameters that come out as
    confounded are so whatever it does.

    Parameters
    ----------
    at_best
        What is not applied leaves its variable to the machine. Such a level is taken to be the same in all trials,
        or `at_best` to differ among them, and to be free of charge where it takes a term out of the law.
    known
        Rows that say what an earlier run has told of the parameters, shape (k, p), in units of a trial's noise.
    """
    matrix = _Matrix(law, trials, variables, at_best)
    rows = matrix.rows()
    counted = matrix.rows(unlimited=True) if at_best else rows
    told = np.zeros((0, len(law.parameters))) if known is None else known
    alive = np.count_nonzero(np.vstack([counted, told]), axis=0) > 0
    whole = np.vstack([rows, told])
    silent = np.count_nonzero(whole, axis=0) == 0
    mixed = [one for one in mixed_columns(whole) if not silent[list(one)].any()] if len(rows) else []
    return Forecast(
        trials=len(rows),
        estimated=_chosen(law.parameters, alive),
        silent=_chosen(law.parameters, silent),
        confounded=tuple(_confounding(matrix, one) for one in mixed),
        known=len(told),
    )


def tells(
    law: Law,
    trials: Sequence[PlannedTrial],
    variables: Mapping[str, Variable],
    combinations: Array,
    *,
    known: Array | None = None,
) -> bool:
    """Whether trials tell combinations of a law's parameters, where some parameters may be mixed up.

    Parameters
    ----------
    combinations
        Shape (k, p).
    known
        As of `forecast`, which at best tells so much.
    """
    rows = _Matrix(law, trials, variables, at_best=True).rows()
    whole = rows if known is None else np.vstack([rows, known])
    if not len(whole):
        return not combinations.any()
    return all(math.isfinite(precision_of(whole, None, c_optimal(one)).value) for one in combinations)


def _chosen(parameters: Sequence[str], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, chosen in zip(parameters, mask, strict=True) if chosen)


class _Matrix:
    """The design matrix of a law at planned levels, with stand-ins for the levels that nobody knows yet."""

    def __init__(
        self, law: Law, trials: Sequence[PlannedTrial], variables: Mapping[str, Variable], at_best: bool
    ) -> None:
        self.law = law
        self.variables = variables
        self.planned: dict[str, Array] = {}
        self.levels: dict[str, Array] = {}
        assigned = [trial.assignment.as_dict() for trial in trials]
        for name in law.parents:
            planned = np.array([levels.get(name, math.nan) for levels in assigned])
            one_each = at_best or bool(np.isnan(planned).any())
            standing_in = stand_in(name, planned, len(variables[name].categories), one_each=one_each)
            self.planned[name] = np.where(np.isnan(planned), standing_in, planned)
            self.levels[name] = np.where(np.isfinite(planned), planned, standing_in)

    def rows(self, *, unlimited: bool = False) -> Array:
        """Rows that are finite, shape (n, p).

        Parameters
        ----------
        unlimited
            Whether what is not applied is unlimited, rather than at a level that the machine gives.
        """
        rows = self.rows_at(self.planned if unlimited else self.levels)
        return rows[np.isfinite(rows).all(axis=1)]

    def rows_at(self, levels: Mapping[str, Array]) -> Array:
        """All rows at some levels, shape (n, p)."""
        count = len(next(iter(levels.values()), np.zeros(1)))
        rows = self.law.design_matrix(levels) if self.law.linear else self.law.gradient(nominal(self.law), levels)
        return np.broadcast_to(rows, (count, rows.shape[1]))


def _confounding(matrix: _Matrix, columns: Sequence[int]) -> Confounding:
    parameters = tuple(matrix.law.parameters[index] for index in columns)
    terms = [term.coefficient for term in matrix.law.terms if term.parameter in parameters]
    inside = dict.fromkeys(name.name for term in terms for name in names(term))
    own = [name for name in matrix.law.parents if name in inside]
    settable = [
        matrix.variables[name] for name in own if matrix.variables[name].role in (Role.SET, Role.PARAMETER)
    ]
    fresh = {one.name: stand_in(one.name, matrix.planned[one.name], len(one.categories)) for one in settable}
    found = find_separating(matrix.rows_at, matrix.levels, columns, fresh)
    return Confounding(
        parameters=parameters, constant=found.constant, separating=found.each, together=found.together
    )
