"""An outcome as a function of what trials set: the laws between, put into each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.gradient import differentiate
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.causal.law import Law, Link
from insitu.orchestrator.errors import InputError

Parameters = Mapping[str, Array]
"""Variable that a law gives to the law's parameters, base units, each of shape (p,)."""
Levels = Mapping[str, Array]
"""Variable to its levels, base units, each of shape (n,)."""


@dataclass(frozen=True, slots=True)
class Composite:
    """The outcome's mean under do(): laws applied one after the other, causes first.

    Attributes
    ----------
    laws
        Those that lie between what is set and the outcome, causes first; the last one gives the outcome.

    Notes
    -----
    A law is applied at the means of its parents, not averaged over their noise: exact where laws are linear in
    their measured parents, else right to the first order in the noise. Truncated factorisation as in Pearl,
    Causality (2nd edition), equation 1.37: a variable with a level follows that and not its law.
    """

    outcome: str
    laws: tuple[Law, ...]

    def means(self, parameters: Parameters, levels: Levels) -> dict[str, Array]:
        """Mean of each variable that a law gives, and the levels of the others, each of shape (n,).

        Raises
        ------
        InputError
            If a parent has neither a level nor a law.
        """
        count = _count(levels)
        known = {name: np.broadcast_to(level, (count,)) for name, level in levels.items()}
        for law in self.laws:
            known[law.variable] = np.broadcast_to(law.mean(parameters[law.variable], known), (count,))
        return known

    def mean(self, parameters: Parameters, levels: Levels) -> Array:
        """The outcome's mean, shape (n,)."""
        return self.means(parameters, levels)[self.outcome]

    def gradients(self, parameters: Parameters, levels: Levels) -> dict[str, Array]:
        """Derivative of the outcome's mean by the parameters of each law, each of shape (n, p)."""
        known = self.means(parameters, levels)
        so_far: dict[str, dict[str, Array]] = {}
        for law in self.laws:
            own = parameters[law.variable]
            total = {law.variable: law.gradient(own, known)}
            between = [name for name in law.parents if name in so_far]
            for column, parent in zip(_slopes(law, own, known, between).T, between, strict=True):
                for name, part in so_far[parent].items():
                    total[name] = total.get(name, 0.0) + column[:, None] * part
            so_far[law.variable] = total
        return so_far[self.outcome]


def compose(blueprint: Blueprint, outcome: str, set_from_outside: Collection[str]) -> Composite:
    """The composite that gives `outcome` where trials set some variables.

    Raises
    ------
    InputError
        If the outcome has no law.
    """
    if outcome not in blueprint.laws:
        raise InputError(f"the model has no law for {outcome}", hint="add one under `laws:`")
    held = blueprint.do(name for name in set_from_outside if name != outcome)
    needed = {outcome, *held.ancestors(outcome)}
    laws = [held.laws[name] for name in held.topological_order() if name in needed and name in held.laws]
    return Composite(outcome, tuple(laws))


def _count(levels: Levels) -> int:
    return max((np.size(level) for level in levels.values()), default=1)


def _slopes(law: Law, own: Array, known: Levels, parents: list[str]) -> Array:
    """Derivative of a law's mean by some of its parents, shape (n, parents)."""
    values: dict[str, Array | float] = {name: known[name] for name in law.parents}
    values.update(zip(law.parameters, (float(value) for value in own), strict=True))
    found = differentiate(law.expression, parents, values, _count(known))
    with np.errstate(all="ignore"):
        return found.slopes * np.exp(found.value)[:, None] if law.link is Link.LOG else found.slopes
