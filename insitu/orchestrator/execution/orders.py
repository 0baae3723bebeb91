"""What the loop asks of an agent, and what comes back. Plain data: ray moves it between processes."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Guards, Plan, Role
from insitu.orchestrator.store.records import PlannedTrial, TrialRecord


@dataclass(frozen=True, slots=True)
class Program:
    """An argument list, ready but for the folders that only the node knows."""

    arguments: tuple[str, ...]

    def on_node(self, scratch: str, data: str) -> tuple[str, ...]:
        """The argument list with ``{scratch}`` and ``{data}`` filled in."""
        folders = {"scratch": scratch, "data": data, "python": sys.executable}
        return tuple(_fill(argument, folders) for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class SetLevel:
    """One variable of the model to hold at a level in base units; infinity leaves it alone."""

    variable: str
    injector: str
    unit: str
    level: float


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """One trial, complete."""

    planned: PlannedTrial
    command: Program
    prepare: Program | None
    environment: tuple[tuple[str, str], ...]
    page_cache: str
    levels: tuple[SetLevel, ...]
    parameters: tuple[tuple[str, float, str], ...]
    guards: Guards


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
    parameters: list[tuple[str, float, str]] = []
    for name, variable in plan.model.variables.items():
        if name not in assigned:
            continue
        if variable.role is Role.SET:
            levels.append(SetLevel(name, variable.source or "", variable.unit, assigned[name]))
        elif variable.role is Role.PARAMETER:
            values[name] = _spell(assigned[name])
            parameters.append((name, assigned[name], variable.unit))
    subject = plan.subject
    return TrialOrder(
        planned=planned,
        command=_program(subject.command, values),
        prepare=_program(subject.prepare, values) if subject.prepare else None,
        environment=subject.environment,
        page_cache=subject.page_cache,
        levels=tuple(levels),
        parameters=tuple(parameters),
        guards=plan.guards,
    )


def data_programs(plan: Plan) -> tuple[tuple[str, Program], ...]:
    """The commands that make the run's data, by file name."""
    return tuple((name, _program(command, {})) for name, command in plan.subject.data)


def _program(arguments: tuple[str, ...], values: Mapping[str, str]) -> Program:
    return Program(tuple(_fill(argument, values) for argument in arguments))


def _fill(argument: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), argument)


def _spell(level: float) -> str:
    if level != level or level in (float("inf"), float("-inf")):
        raise InputError(f"a parameter of the subject cannot be {level}")
    return str(int(level)) if level == int(level) else repr(level)
