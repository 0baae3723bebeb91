"""All that the choice of trials depends on, and what the candidates would tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target
from insitu.orchestrator.design.belief import Belief, stacked_information, stacked_rows
from insitu.orchestrator.design.controls import Check
from insitu.orchestrator.design.optimality.confounding import confounding
from insitu.orchestrator.design.optimality.criteria import Criterion, c_optimal, d_optimal, i_optimal
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store.records import Assignment


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the choice of the next trials depends on.

    Attributes
    ----------
    beliefs
        By the variable that the law gives.
    target
        What the goal asks for.
    tried
        Assignments of the trials so far, in order, with what did not come out.
    seconds
        What a trial of each candidate takes, set-up included, shape (m,); ``None`` where trials are counted, not
        seconds, or nothing is known.
    lost
        Checks that did not come out, and have not been made up for.
    """

    space: Space
    composite: Composite
    beliefs: Mapping[str, Belief]
    target: Target
    tried: Sequence[Assignment]
    seconds: Array | None = None
    lost: tuple[Check, ...] = ()

    @property
    def open(self) -> tuple[str, ...]:
        """Variables that the laws need, and that neither trials set nor a law gives."""
        given = {*self.space.names, *(name for name, _ in self.space.free)}
        given |= {law.variable for law in self.composite.laws}
        needed = dict.fromkeys(name for law in self.composite.laws for name in law.parents)
        return tuple(name for name in needed if name not in given)

    def candidates(self) -> Candidates:
        """The candidates at which all laws are defined.

        Raises
        ------
        InputError
            If there is none, or a law needs what is only measured.
        """
        if self.open:
            raise InputError(
                f"what a trial tells cannot be foreseen: {' and '.join(self.open)} has no law and is not a factor",
                hint="give it a law in the model, or use a factorial or a latin_hypercube design",
            )
        rows = stacked_rows(self.composite, self.beliefs, self.space.columns())
        numbers = np.flatnonzero(np.isfinite(rows).all(axis=(1, 2)))
        if not len(numbers) or not rows[numbers].any():
            raise InputError(
                f"no trial that the plan allows says anything of the law of {self.composite.outcome}",
                hint="see that the law is defined at the levels of the factors, and that it has parameters",
            )
        return Candidates(rows[numbers], numbers)

    def separating(self, assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
        """Candidates that would tell parameters apart which trials with these assignments mix up."""
        candidates = self.candidates()
        columns = {name: np.array([one.as_dict()[name] for one in assignments]) for name in self.space.columns()}
        rows = stacked_rows(self.composite, self.beliefs, columns)
        rows = rows[np.isfinite(rows).all(axis=(1, 2))].reshape(-1, rows.shape[2])
        found = confounding(candidates.rows, rows=rows, information=self.information())
        return tuple(self.space.assignment(int(candidates.numbers[one])) for one in found.separated_by)

    def information(self) -> Array:
        """What is known of all laws' parameters, shape (p, p)."""
        return stacked_information(self.composite, self.beliefs)

    def for_goal(self) -> Criterion:
        """The goal's criterion: the worst relative variance of the numbers that it asks for.

        Where nothing is known of the parameters, numbers in the outcome's unit are weighed alike. Where no number
        depends on a parameter so far, as of an effect up to a level that only the machine knows, it is all
        parameters.
        """
        values = {name: belief.values for name, belief in self.beliefs.items()}
        if not self.target.wanted:
            return d_optimal()
        sizes = self.target.sizes(values)
        if len(self.target.weights) and all(belief.untold for belief in self.beliefs.values()):
            sizes = np.ones(len(sizes))
        contrasts = self._stacked(self.target.gradients(values), len(sizes))
        if not contrasts.any():
            return d_optimal()
        return c_optimal(contrasts / np.where(sizes > 0, sizes, 1.0)[:, None], worst=len(sizes) > 1)

    def for_predictions(self) -> Criterion:
        """The mean variance of the outcome's mean over all levels that trials may have."""
        values = {name: belief.values for name, belief in self.beliefs.items()}
        columns = self.space.columns()
        region = self._stacked(self.composite.gradients(values, columns), len(self.space))
        region = region[np.isfinite(region).all(axis=1)]
        return i_optimal(region) if len(region) else d_optimal()

    def _stacked(self, gradients: Mapping[str, Array], count: int) -> Array:
        """Derivatives by all laws' parameters together, shape (count, p)."""
        laws = self.composite.laws
        nothing = [np.zeros((count, len(law.parameters))) for law in laws]
        found = [gradients.get(law.variable, own) for law, own in zip(laws, nothing, strict=True)]
        stacked: Array = np.hstack(found)
        return stacked


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What some candidates of a space would tell.

    Attributes
    ----------
    rows
        Shape (m, laws, parameters).
    numbers
        Of the candidates in their space, shape (m,).
    """

    rows: Array
    numbers: npt.NDArray[np.int64]
