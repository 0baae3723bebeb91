"""A question to a fitted model: which laws it goes through, and where every variable stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.fit import SupportRange
from insitu.orchestrator.estimation.fitting.confounding import refuse_confounded
from insitu.orchestrator.estimation.questions.model import FittedLaw, FittedModel
from insitu.orchestrator.estimation.questions.support import (
    SLACK,
    Support,
    refuse,
    refuse_unestimated,
    span_text,
    support_of,
    why_outside,
)
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.units import format_quantity


@dataclass(frozen=True, slots=True)
class Question:
    """What would happen to a variable under do(), with every level settled.

    Attributes
    ----------
    through
        The laws that give what is asked for, causes before effects; the outcome's is the last.
    levels
        Of every variable that these laws start from, base units; infinity is *unlimited*.
    asked
        Those of them that the question sets; the others stand at the baseline.
    slack
        Caps that are above what the subject uses anyhow, in words.
    usual
        Mean of every variable that the laws give, at these levels.
    outside
        Why the question is outside the trials' support; empty inside it.
    """

    outcome: str
    through: tuple[FittedLaw, ...]
    levels: dict[str, float]
    asked: tuple[str, ...]
    slack: tuple[str, ...] = ()
    usual: dict[str, float] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def defaults(self) -> tuple[str, ...]:
        """Variables that the question left out and that stand at the baseline."""
        return tuple(name for name in self.levels if name not in self.asked)

    @property
    def everywhere(self) -> dict[str, float]:
        """Where every variable stands: at its level, or at its mean."""
        return {**self.levels, **self.usual}

    def supports(self) -> tuple[Support, ...]:
        """Where the question lies, for each law that it goes through."""
        known = dict(self.levels)
        found = []
        for one in self.through:
            found.append(support_of(one, known, self.levels, self.outside))
            known[one.variable] = self.usual[one.variable]
        return tuple(found)


def pose(
    model: FittedModel,
    outcome: str,
    do: Mapping[str, float],
    *,
    found: Mapping[str, float] | None = None,
    extrapolate: bool = False,
) -> Question:
    """Settle a question.

    Parameters
    ----------
    do
        Base-unit levels; infinity is *unlimited*. Variables left out stand at the baseline.
    found
        Where other variables stand instead, as they were achieved: no cap, and not to be resolved again.
    extrapolate
        Let questions outside the data's support through; `Question.outside` says why they are.

    Raises
    ------
    OutsideSupport
        If the data have nothing to say about these levels.
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        If a name is not in the model, the question sets its own outcome, a level is open, or a law is not defined
        there.
    """
    check_names(model, outcome, do)
    standing = dict(found or {})
    through = _laws_through(model, outcome, {**standing, **do})
    refuse_confounded(model, outcome, tuple(do), through)
    given = {one.variable for one in through}
    roots = tuple(dict.fromkeys(name for one in through for name in one.law.parents if name not in given))
    slack: list[str] = []
    levels = {
        name: standing[name] if name in standing and name not in do else _level(model, through, name, do, slack)
        for name in roots
    }
    asked = tuple(name for name in roots if name in do)
    usual = means_at(through, levels)
    everywhere = {**levels, **usual}
    for one in through:
        refuse_unestimated(one, everywhere)
    reasons = [
        *_untried(model, through, levels),
        *(one for law in through for one in why_outside(law, everywhere)),
    ]
    outside = tuple(dict.fromkeys(reasons))
    refuse(outside, extrapolate=extrapolate)
    return Question(outcome, through, levels, asked, tuple(slack), usual, outside)


def means_at(through: Sequence[FittedLaw], levels: Mapping[str, float]) -> dict[str, float]:
    """Mean of every variable that some laws give, in causal order, each at the means of its causes.

    Raises
    ------
    InputError
        If a law is not defined there.
    """
    known = dict(levels)
    found: dict[str, float] = {}
    for one in through:
        here = {name: np.array([known[name]]) for name in one.law.parents}
        mean = float(one.law.mean(one.fit.values, here)[0])
        if not math.isfinite(mean):
            raise InputError(
                f"the law of {one.variable} is not defined at "
                + ", ".join(f"{name} = {known[name]:g}" for name in one.law.parents)
            )
        found[one.variable] = known[one.variable] = mean
    return found


def check_names(model: FittedModel, outcome: str, do: Mapping[str, float]) -> None:
    """Check that a question can set these variables, and ask about this one.

    Raises
    ------
    NotIdentified
        If the outcome's law could not be fitted.
    InputError
        If a name is not in the model, or the question sets its own outcome.
    """
    model.law_of(outcome)
    causes = model.blueprint.ancestors(outcome)
    for name, level in do.items():
        model.variable(name)
        if name == outcome:
            raise InputError(
                f"{name} is what is asked for, so the question cannot set it, too",
                hint="ask about one of its effects, or set one of its causes",
            )
        if name not in causes:
            raise InputError(
                f"in the model, {name} has no effect on {outcome}",
                hint=f"what has: {', '.join(sorted(causes)) or 'nothing'}",
            )
        if math.isnan(level):
            raise InputError(f"the level of {name} is not a number")


def _laws_through(model: FittedModel, outcome: str, do: Mapping[str, float]) -> tuple[FittedLaw, ...]:
    """Laws of the outcome and of what it depends on, as far as the question does not set it."""
    cut = model.blueprint.do(do)
    wanted = cut.ancestors(outcome) | {outcome}
    found = []
    for name in cut.topological_order():
        if name not in wanted or name not in cut.laws:
            continue
        if name in model.laws:
            found.append(model.laws[name])
        elif cut.ancestors(name) & set(do) or _standing(model.laws.values(), name) is None:
            raise NotIdentified(
                f"{outcome} depends on {name} here, whose law could not be fitted: " + model.why_not(name).reason,
                hint=f"give {name} a level with --do, or add trials that tell its parameters",
            )
    return tuple(found)


def _untried(model: FittedModel, through: Sequence[FittedLaw], levels: Mapping[str, float]) -> Iterator[str]:
    """Categories that no fitted trial had."""
    for one in through:
        for name in one.law.parents:
            variable = model.blueprint.variables[name]
            if variable.categories and name in levels and levels[name] not in one.tried.get(name, ()):
                yield f"no trial of {one.variable} had {name} = {variable.spell(levels[name])}"


def _standing(laws: Iterable[FittedLaw], name: str) -> float | None:
    """Where a variable stands without an intervention; the last law that knows it decides."""
    found = None
    for one in laws:
        found = one.fit.baseline.get(name, found)
    return found


def _span_of(through: Sequence[FittedLaw], name: str) -> SupportRange | None:
    """Where a variable has data; the last law that knows it decides."""
    return next((span for one in reversed(through) for span in one.fit.support if span.variable == name), None)


def used_anyhow(model: FittedModel, through: Sequence[FittedLaw], name: str) -> float | None:
    """How much of what a variable caps the subject uses where nothing caps it; ``None`` of all that is no cap."""
    support = _span_of(through, name)
    return support.natural if support is not None and _is_cap(model, name) else None


def _is_cap(model: FittedModel, name: str) -> bool:
    variable = model.blueprint.variables[name]
    return variable.role is Role.SET and variable.rest == math.inf


def _level(
    model: FittedModel, through: Sequence[FittedLaw], name: str, do: Mapping[str, float], slack: list[str]
) -> float:
    support = _span_of(through, name)
    if name in do:
        return resolve(model, support, name, do[name], slack)
    standing = _standing(through, name)
    if standing is None:
        raise InputError(
            f"the question leaves {name} open, and no trial without intervention says where it stands",
            hint=f"add {name}=<level>"
            + (f", as in the trials: {span_text(support)}" if support is not None else ""),
        )
    return standing


def resolve(model: FittedModel, support: SupportRange | None, name: str, level: float, slack: list[str]) -> float:
    """The level at which a variable comes to stand: a cap above what the subject uses anyhow is without effect.

    Parameters
    ----------
    slack
        Told where that is so.
    """
    natural = support.natural if support is not None else None
    if natural is None:
        return level
    if math.isinf(level) and level > 0:
        return natural
    if _is_cap(model, name) and level > natural * (1 + SLACK):
        unit = model.blueprint.variables[name].unit
        asked, used = (format_quantity(one, unit) for one in (level, natural))
        slack.append(f"a cap of {name} at {asked} is above what the subject uses anyhow, {used}")
        return natural
    return level
