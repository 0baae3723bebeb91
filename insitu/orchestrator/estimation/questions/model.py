"""A fitted model: a blueprint, and for each law of a measured variable what the trials say of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.fit import Fit, FittedLaws, NotFitted
from insitu.orchestrator.estimation.questions.past_errors import PastErrors, past_errors
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.types import Role, Variable

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Blueprint, Law


@dataclass(frozen=True, slots=True, eq=False)
class FittedLaw:
    """A law and its fit.

    Attributes
    ----------
    law
        Less the terms that no trial had, so that its parameters are those of the fit.
    whole
        As the model has it.
    tried
        Levels of the fitted trials, by each variable of which every one has a level; each of shape (n,).
    """

    law: Law
    whole: Law
    fit: Fit
    tried: Mapping[str, Array]

    @property
    def variable(self) -> str:
        """What it gives."""
        return self.law.variable


@dataclass(frozen=True, slots=True)
class FittedModel:
    """What questions are put to.

    Attributes
    ----------
    blueprint
        Without latent variables: their laws stand in those of their effects.
    laws
        By variable; those that could be fitted.
    problems
        Why each of the others could not be.
    latent
        Variables that nobody can set or measure.
    past
        What became of the earlier predictions of each fitted law.
    """

    blueprint: Blueprint
    laws: Mapping[str, FittedLaw]
    problems: Mapping[str, NotFitted]
    latent: frozenset[str]
    past: Mapping[str, PastErrors]

    @property
    def confidence(self) -> float:
        """Level of all intervals."""
        return next(iter(self.laws.values())).fit.confidence if self.laws else 0.95

    def variable(self, name: str) -> Variable:
        """Look up a variable that can be set or measured.

        Raises
        ------
        InputError
            If there is none of that name, or nobody can set or measure it.
        """
        if name in self.latent:
            able = ", ".join(self.blueprint.variables)
            raise InputError(
                f"nobody can set or measure {name}, so nothing can be said about it",
                hint=f"ask about {able}, or measure it and say by what in the model",
            )
        if name not in self.blueprint.variables:
            raise InputError(
                f"the model has no variable '{name}'", hint=suggest(name, tuple(self.blueprint.variables))
            )
        return self.blueprint.variables[name]

    def law_of(self, name: str) -> FittedLaw:
        """Look up the fitted law of a variable.

        Raises
        ------
        InputError
            If there is no such variable, or it has no law.
        NotIdentified
            If its law could not be fitted.
        """
        self.variable(name)
        if name not in self.blueprint.laws:
            hint = suggest(name, tuple(self.blueprint.laws))
            raise InputError(f"the model has no law for {name}", hint=hint)
        if name not in self.laws:
            why = self.why_not(name)
            raise NotIdentified(why.reason, hint=why.remedy or None)
        return self.laws[name]

    def why_not(self, name: str) -> NotFitted:
        """Why a law could not be fitted."""
        return self.problems.get(name) or NotFitted(name, f"no trial says anything about the law of {name}", "")

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Of each variable with categories: what its numbers stand for."""
        return {name: one.words for name, one in self.blueprint.variables.items() if one.categories}

    @property
    def units(self) -> dict[str, str]:
        """Unit of each variable."""
        return {name: variable.unit for name, variable in self.blueprint.variables.items()}


def assemble(blueprint: Blueprint, fitted: FittedLaws) -> FittedModel:
    """Put fits and laws together.

    Raises
    ------
    InputError
        If a fit is of another law than the model's.
    """
    latent = frozenset(name for name, one in blueprint.variables.items() if one.role is Role.LATENT)
    reduced = blueprint.reduced() if latent else blueprint
    laws = {name: match(fit, reduced.laws[name]) for name, fit in fitted.fits.items() if name in reduced.laws}
    problems = {one.outcome: one for one in fitted.not_fitted}
    past = {name: past_errors(one.fit, one.law) for name, one in laws.items()}
    return FittedModel(reduced, laws, problems, latent, past)


def match(fit: Fit, law: Law) -> FittedLaw:
    """Put a fit and its law together.

    Raises
    ------
    InputError
        If it is another law's.
    """
    estimated = law.without(fit.not_estimated) if fit.not_estimated else law
    if fit.law != law.text or fit.parameters != tuple(estimated.parameters):
        raise InputError(
            f"the fitted law of {fit.outcome} is not the one in the model: {fit.law!r} against {law.text!r}",
            hint="refit with `insitu report`",
        )
    return FittedLaw(estimated, law, fit, _tried(fit))


def _tried(fit: Fit) -> dict[str, Array]:
    known = set(fit.points[0].levels) if fit.points else set()
    for point in fit.points:
        known &= set(point.levels)
    return {name: np.array([point.levels[name] for point in fit.points]) for name in sorted(known)}
