"""What the loop asks of an agent, and what comes back. Plain data: ray moves it between processes."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.injectors.options import Options
from insitu.injectors.registry import injectors
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.plan.placeholders import spell_level, substitute
from insitu.orchestrator.plan.types import Guards, Plan, Role
from insitu.orchestrator.store.records import PlannedTrial, TrialRecord


@dataclass(frozen=True, slots=True)
class Program:
    """An argument list with placeholders, and what is known of them before a node is."""

    arguments: tuple[str, ...]
    values: tuple[tuple[str, str], ...] = ()

    def on_node(self, scratch: str, data: str) -> tuple[str, ...]:
        """The argument list with everything filled in, folders included."""
        return tuple(self.fill(argument, scratch, data) for argument in self.arguments)

    def fill(self, text: str, scratch: str, data: str) -> str:
        """Any other text with placeholders, such as a value of the environment, filled in the same way."""
        values = {**dict(self.values), "scratch": scratch, "data": data, "python": sys.executable}
        return substitute(text, values)


@dataclass(frozen=True, slots=True)
class SetLevel:
    """One variable of the model to hold at a level in base units; the injector's rest leaves it alone."""

    variable: str
    injector: str
    unit: str
    level: float
    options: Options = ()

    @property
    def intervention(self) -> Intervention:
        """What is to be done about it."""
        return Intervention(injectors()[self.injector].configured(self.options), self.level)


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """One trial, complete.

    Attributes
    ----------
    environment
        Names and values, which may hold the placeholders of the commands.
    linked
        Whether the subject reaches what it reaches in place, also if no level asks for a link.
    tolerated_slowdown
        A trial in which the processors were slower than at their best by more than this share does not count.
    """

    planned: PlannedTrial
    command: Program
    prepare: Program | None
    environment: tuple[tuple[str, str], ...]
    page_cache: str
    levels: tuple[SetLevel, ...]
    parameters: tuple[tuple[str, float, str], ...]
    guards: Guards
    linked: bool = False
    tolerated_slowdown: float = math.inf


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """A finished trial with its samples: column to values."""

    record: TrialRecord
    samples: Mapping[str, list[float]]


def order_for(plan: Plan, planned: PlannedTrial) -> TrialOrder:
    """Fill a trial's levels into the plan's commands."""
    assigned = planned.assignment.as_dict()
    values: dict[str, str] = {}
    levels: list[SetLevel] = []
    options = {factor.variable: factor.options for factor in plan.factors}
    parameters: list[tuple[str, float, str]] = []
    for name, variable in plan.model.variables.items():
        if name not in assigned:
            continue
        if variable.role is Role.SET:
            how = options.get(name, ())
            levels.append(SetLevel(name, variable.source or "", variable.unit, assigned[name], how))
        elif variable.role is Role.PARAMETER:
            level = assigned[name]
            values[name] = variable.spell(level) if variable.categories else spell_level(level, variable.unit)
            parameters.append((name, level, variable.unit))
    subject, filled = plan.subject, tuple(values.items())
    return TrialOrder(
        planned=planned,
        command=Program(subject.command, filled),
        prepare=Program(subject.prepare, filled) if subject.prepare else None,
        environment=subject.environment,
        page_cache=subject.page_cache,
        levels=tuple(levels),
        parameters=tuple(parameters),
        guards=plan.guards,
        linked=subject.network == "host",
        tolerated_slowdown=plan.tolerated_slowdown,
    )


def data_programs(plan: Plan) -> tuple[tuple[str, Program], ...]:
    """The commands that make the run's data, by file name."""
    return tuple((name, Program(command)) for name, command in plan.subject.data)
