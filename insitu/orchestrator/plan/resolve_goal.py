"""The goal of a plan: names and levels checked against the model and the factors."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.goals import (
    ComparisonGoal,
    EffectGoal,
    Goal,
    Levels,
    ParametersGoal,
    PredictionGoal,
    RankingGoal,
)
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.resolve_factors import level_of
from insitu.orchestrator.plan.resolve_model import ResolvedModel
from insitu.orchestrator.plan.resolve_rival import Rival, resolve_rival
from insitu.orchestrator.plan.schema import GOALS, GoalDocument
from insitu.orchestrator.plan.types import Role

_EFFECT = re.compile(r"(\w+)\s*->\s*(\w+)")
_BELONGS = {
    "between": ("effect",),
    "at": ("effect", "prediction"),
    "relative_half_width": ("effect", "prediction", "parameters", "causes"),
    "rival": ("comparison",),
    "tolerance": ("comparison",),
}
"""Keys of a goal that only some kinds have."""
_SHOWN = 6
"""Variables that a hint names."""


def resolve_goal(
    node: located.Mapping,
    document: GoalDocument,
    factor_names: Collection[str],
    model: ResolvedModel,
    faults: FaultList,
) -> Goal | None:
    """Check that the goal asks one thing, of variables that trials set and of an outcome that is measured."""
    return _Resolving(node, document, factor_names, model, faults).goal()


class _Resolving:
    """The state of resolving one goal."""

    def __init__(
        self,
        node: located.Mapping,
        document: GoalDocument,
        factor_names: Collection[str],
        model: ResolvedModel,
        faults: FaultList,
    ) -> None:
        self.node = node
        self.document = document
        self.factor_names = factor_names
        self.model = model
        self.faults = faults

    def goal(self) -> Goal | None:
        given = [entry for entry in self.node.entries if entry.key.text in GOALS]
        if len(given) != 1:
            message = "a goal asks one thing" if given else "it is not said what the goal asks for"
            remedy = "keep one" if given else f"add one of: {', '.join(GOALS)}"
            self.faults.at(given[1].key if given else self.node, message, remedy)
            return None
        (asked,) = given
        kind = asked.key.text or ""
        self._check_keys(kind)
        if not isinstance(asked.value, located.Scalar):
            return None
        common = {
            "relative_half_width": self.document.relative_half_width,
            "confidence": self.document.confidence,
            "line": asked.value.line,
            "column": asked.value.column,
        }
        return self._effect(asked.value, common) if kind == "effect" else self._other(kind, asked.value, common)

    def _check_keys(self, kind: str) -> None:
        for key, kinds in _BELONGS.items():
            entry = self.node.entry(key)
            if entry is not None and kind not in kinds:
                self.faults.at(entry.key, f"'{key}' belongs to a goal that asks for {_either(kinds)}", "remove it")

    def _effect(self, effect: located.Scalar, common: dict[str, Any]) -> Goal | None:
        match = _EFFECT.search(effect.raw)
        if self.document.effect is None:
            return None  # reported with the schema's faults
        if match is None:
            message = "the effect must be written on one line, without escapes"
            self.faults.at(effect, message, "as in cpu_cores -> runtime")
            return None
        cause, outcome = match[1], match[2]
        known = [self._known(effect, name, match.start(at)) for at, name in ((1, cause), (2, outcome))]
        if not all(known):
            return None
        if cause == outcome:
            line, column = effect.position(match.start(2))
            self.faults.add(
                line, column, f"'{cause}' is both cause and outcome", "name the measured variable last"
            )
        else:
            self._check_measured(effect, outcome, match.start(2))
            self._check_set(effect, cause, outcome, match.start(1))
        low, high = self._between(cause)
        at = next(self._places(), ())
        if cause in dict(at):
            entry = self.node.entry("at")
            assert entry is not None
            self.faults.at(entry.value, f"'{cause}' is the cause and cannot also stand at a level", "remove it")
        return EffectGoal(cause=cause, outcome=outcome, low=low, high=high, at=at, **common)

    def _other(self, kind: str, named: located.Scalar, common: dict[str, Any]) -> Goal | None:
        outcome = (named.text or "").strip()
        if not self._known(named, outcome, 0):
            return None
        self._check_measured(named, outcome, 0)
        common["outcome"] = outcome
        match kind:
            case "prediction":
                places = tuple(self._places())
                if not places and self.node.entry("at") is None:
                    example = next(iter(self.factor_names), "variable")
                    self.faults.at(named, "a prediction needs levels", f"add at: {{{example}: level, ...}}")
                return PredictionGoal(places=places, **common)
            case "parameters":
                return ParametersGoal(**common)
            case "comparison":
                return self._comparison(named, common)
        return RankingGoal(**common)

    def _comparison(self, named: located.Scalar, common: dict[str, Any]) -> Goal | None:
        rival = self._rival(named, common["outcome"])
        if rival is None:
            return None
        del common["relative_half_width"]  # reported, where there is one
        if self.document.tolerance is not None:
            common["tolerance"] = self.document.tolerance
        return ComparisonGoal(rival=rival.law, rival_parameters=rival.parameters, **common)

    def _rival(self, named: located.Scalar, outcome: str) -> Rival | None:
        entry = self.node.entry("rival")
        if entry is None or located.plain(entry.value) is None:
            message = f"it is not said which law the law of '{outcome}' is compared with"
            self.faults.at(entry.key if entry else named, message, "add rival: a * input_size / cpu_cores")
            return None
        if self.document.rival is None:
            return None  # reported with the schema's faults
        return resolve_rival(entry.value, self.document.rival, outcome, self.model, self.faults)

    def _known(self, scalar: located.Scalar, name: str, offset: int) -> bool:
        if name in self.model.declared:
            return True
        line, column = scalar.position(offset)
        self.faults.add(line, column, f"the model has no variable '{name}'", suggest(name, self.model.declared))
        return False

    def _check_measured(self, scalar: located.Scalar, outcome: str, offset: int) -> None:
        variable = self.model.text.variables.get(outcome)
        if variable is not None and variable.role is not Role.MEASURED:
            line, column = scalar.position(offset)
            measured = [v.name for v in self.model.text.variables.values() if v.role is Role.MEASURED]
            message = f"the outcome '{outcome}' is not measured"
            self.faults.add(line, column, message, suggest(outcome, measured))

    def _check_set(self, scalar: located.Scalar, cause: str, outcome: str, offset: int) -> None:
        """The trials of a plan are chosen by the levels that they give the cause."""
        line, column = scalar.position(offset)
        variable = self.model.text.variables.get(cause)
        if variable is not None and variable.role is Role.MEASURED:
            message = f"the cause '{cause}' is measured, so trials cannot set it"
            able = self._settable()[:_SHOWN]
            instead = f"ask for the effect of {_either(able)}; " if able else ""
            asked = f"once there are trials, `insitu effect RUN {cause} {outcome}` tells of {cause}"
            self.faults.add(line, column, message, f"{instead}{asked}, where the model allows it")
        elif cause in self._settable() and cause not in self.factor_names:
            self.faults.add(line, column, f"the cause '{cause}' is not a factor", f"add '{cause}' to factors")

    def _settable(self) -> list[str]:
        variables = self.model.text.variables.values()
        return [one.name for one in variables if one.role in (Role.SET, Role.PARAMETER)]

    def _between(self, cause: str) -> tuple[float, float]:
        entry = self.node.entry("between")
        variable = self.model.text.variables.get(cause)
        if entry is None or variable is None or not isinstance(entry.value, located.Sequence):
            return math.nan, math.nan
        ends = [level_of(item, variable, self.faults) for item in entry.value.items]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return math.nan, math.nan
        if ends[0] == ends[1]:
            self.faults.at(entry.value, "an effect lies between two levels", "give two that differ")
        return ends[0], ends[1]

    def _places(self) -> Iterator[Levels]:
        """Levels of one place or of several."""
        entry = self.node.entry("at")
        if entry is None:
            return
        several = entry.value.items if isinstance(entry.value, located.Sequence) else (entry.value,)
        seen: list[dict[str, float]] = []
        for node in several:
            if isinstance(node, located.Mapping):
                place = tuple(self._levels(node))
                if dict(place) in seen:
                    self.faults.at(node, "the same place appears twice", "keep one")
                seen.append(dict(place))
                yield place

    def _levels(self, node: located.Mapping) -> Iterator[tuple[str, float]]:
        for entry in node.entries:
            name = entry.key.text or ""
            variable = self.model.text.variables.get(name)
            if name not in self.model.declared:
                message = f"the model has no variable '{name}'"
                self.faults.at(entry.key, message, suggest(name, self._settable()))
            elif variable is not None and variable.role not in (Role.SET, Role.PARAMETER):
                message = f"'{name}' is not set by trials, so a question cannot give it a level"
                self.faults.at(entry.key, message, suggest("", self._settable()))
            elif variable is not None and (level := level_of(entry.value, variable, self.faults)) is not None:
                yield name, level


def _either(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"
