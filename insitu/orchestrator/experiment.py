"""From a plan's file to an experiment that this machine can execute, or every reason why it cannot."""

from __future__ import annotations

import math
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.injectors import lifecycle, node, registry
from insitu.injectors.contract import Capability, Node
from insitu.injectors.errors import InjectorError
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.checking import check_against
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.causal.rival import rival_of
from insitu.orchestrator.design.protocol import Planned, Request, design_names, find_design
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.execution.conditions.host_state import HostState, why_unwatchable
from insitu.orchestrator.execution.conditions.watch import conditions_of
from insitu.orchestrator.execution.workspace import free_bytes
from insitu.orchestrator.plan.inventory import Inventory
from insitu.orchestrator.plan.loading import load_plan, load_plan_text
from insitu.orchestrator.plan.types import SEQUENTIAL, Factor, Plan, Role, Settable
from insitu.orchestrator.radius import Radius, radius_of
from insitu.orchestrator.steering.choice import before_any_trial, most_trials, steering_of
from insitu.orchestrator.store.database import corrupted
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import PlannedTrial
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.store.run import RunStore


@dataclass(frozen=True, slots=True)
class LeftUnset:
    """A factor that this node cannot set and that the plan allows to leave as it is."""

    variable: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A plan, resolved against its model and this node.

    Attributes
    ----------
    plan
        Without the factors that were left unset.
    capabilities
        Per factor that an injector sets: what this node does about it.
    most_trials
        Budget of executions, replacements included.
    radius
        What it may take of the node.
    here
        The node.
    """

    plan: Plan
    blueprint: Blueprint
    capabilities: tuple[Capability, ...]
    left_unset: tuple[LeftUnset, ...]
    most_trials: int
    radius: Radius
    here: Node


def read(path: Path) -> tuple[Plan, Blueprint]:
    """Load a plan and its model, and check one against the other; executes nothing.

    Raises
    ------
    InputError
        With every fault of both files.
    """
    return _understand(load_plan(path, settable=settable(), designs=_designs()))


def read_stored(store: RunStore) -> tuple[Plan, Blueprint]:
    """Load the plan and model that a run directory keeps.

    Raises
    ------
    InputError
        If they are faulty, or a trial is none of theirs.
    """
    directory = store.directory
    plan = load_plan_text(
        store.plan_source,
        store.model_source,
        plan_path=directory / "plan.yaml",
        model_path=directory / "model.yaml",
        priors=store.priors,
        settable=settable(),
        designs=_designs(),
    )
    plan, blueprint = _understand(plan)
    _refuse_strange_trials(store, plan, blueprint)
    return plan, blueprint


def _refuse_strange_trials(store: RunStore, plan: Plan, blueprint: Blueprint) -> None:
    """Refuse a run with trials that its plan cannot have asked for."""
    parameters = [one.variable for one in plan.factors if blueprint.variables[one.variable].role is Role.PARAMETER]
    for planned in (stored.planned for stored in store.trials()):
        levels = planned.assignment.as_dict()
        known = levels.keys() <= blueprint.variables.keys() and not any(map(math.isnan, levels.values()))
        if not known or not all(math.isfinite(levels.get(name, math.nan)) for name in parameters):
            raise corrupted(store.directory, f"the levels of trial {planned.trial} are none of its plan")


def _designs() -> tuple[str, ...]:
    """Names of the designs that a plan may ask for."""
    return tuple(sorted((*design_names(), SEQUENTIAL)))


def settable() -> dict[str, Settable]:
    """What plans and models may set, by the name of the injector's variable."""
    return {
        name: Settable(injector.unit, injector.rest, dict(injector.words), injector.options)
        for name, injector in registry.injectors().items()
    }


def _understand(plan: Plan) -> tuple[Plan, Blueprint]:
    blueprint = build_blueprint(plan.model)
    check_against(plan, blueprint, rival_of(plan, blueprint))
    return plan, blueprint


def prepare(
    plan: Plan, blueprint: Blueprint, workspace: Path, inventory: Inventory | None = None, *, dry: bool = False
) -> Experiment:
    """Check a plan against this node: programs, variables, levels.

    Parameters
    ----------
    workspace
        An existing folder on the disk that the trials would use.
    inventory
        Caps what a run may take of this node.
    dry
        Change nothing, not even for a moment.

    Raises
    ------
    InputError
        If the subject's program is not here, a level is out of reach, or the plan exceeds its own blast radius.
    CannotExecute
        If a variable cannot be set here and the plan does not allow to leave it unset, if a condition cannot be
        watched, or if the inventory does not allow what the plan takes.
    """
    _find_programs(plan)
    _check_conditions(plan, workspace)
    if (free := free_bytes(workspace)) < plan.guards.free_disk_bytes:
        raise CannotExecute(
            f"only {format_quantity(free, 'B')} left on the disk of the run directory, "
            f"and the plan keeps {format_quantity(plan.guards.free_disk_bytes, 'B')} free",
            hint="choose another disk with --out, free some space, or lower guards.free_disk",
        )
    here = node.survey(workspace, try_disk=not dry, try_network=_uses_network(plan))
    if plan.subject.network == "host" and here.network.problem:
        raise CannotExecute(f"the subject cannot have a network: {here.network.problem}", hint=here.network.remedy)
    capabilities: list[Capability] = []
    left_unset: list[LeftUnset] = []
    factors: list[Factor] = []
    for factor in plan.factors:
        variable = blueprint.variables[factor.variable]
        if variable.role is not Role.SET or variable.source is None:
            factors.append(factor)
            continue
        injector = registry.injectors()[variable.source].configured(factor.options)
        capability = injector.capability(here)
        if not capability.settable and plan.when_unsettable == "leave" and variable.rest is not None:
            left_unset.append(LeftUnset(factor.variable, capability.reason, capability.remedy))
            factors.append(replace(factor, levels=(variable.rest,), span=None))
            continue
        for level in factor.levels:
            try:
                lifecycle.check(Intervention(injector, level), here)
            except InjectorError as exc:
                kind = InputError if capability.settable else CannotExecute
                remedy = exc.remedy
                if not capability.settable:
                    remedy += "; or write `when_unsettable: leave` in the plan, to go on without it"
                raise kind(f"{factor.variable}: {exc.message}", hint=remedy) from exc
        capabilities.append(capability)
        # between such levels there are none, so that a design may take those of the plan alone
        factors.append(replace(factor, span=None) if capability.step or capability.levels else factor)
    settled = replace(plan, factors=tuple(factors))
    possible = possible_trials(settled, blueprint)
    memory_bytes = HostState(workspace).total_memory_bytes
    radius = radius_of(settled, possible, here, platform.node(), memory_bytes, inventory)
    most = most_trials(plan, len(possible))
    return Experiment(settled, blueprint, tuple(capabilities), tuple(left_unset), most, radius, here)


def _uses_network(plan: Plan) -> bool:
    """Whether the subject has a network link; what a machine can do about that, it takes a try to know."""
    if plan.subject.network == "host":
        return True
    sources = (plan.model.variables[factor.variable].source or "" for factor in plan.factors)
    return any(source.startswith("net.") for source in sources)


def _find_programs(plan: Plan) -> None:
    programs = (plan.subject.command, plan.subject.prepare, *(command for _, command in plan.subject.data))
    for program in programs:
        _find_program("the subject's program", program, plan)
    if plan.guards.probe is not None:
        _find_program("the probe's program", plan.guards.probe.command, plan)


def _find_program(whose: str, command: Sequence[str], plan: Plan) -> None:
    if command and not command[0].startswith("{") and shutil.which(command[0]) is None:
        raise InputError(
            f"{whose} {command[0]!r} is not on this machine",
            hint="install it, or correct the name in the plan; PATH is searched",
            path=str(plan.path),
        )


def _check_conditions(plan: Plan, workspace: Path) -> None:
    """Refuse a condition that this machine cannot watch: it would never come true."""
    state = HostState(workspace)
    for condition in conditions_of(plan.guards, state):
        reason, remedy = why_unwatchable(state, condition.quantity)
        if reason:
            where = f"{plan.path}:{condition.line}:{condition.column}: " if condition.line else ""
            raise CannotExecute(f"{where}{condition.quantity} cannot be watched here: {reason}", hint=remedy)


def design_of(plan: Plan, blueprint: Blueprint) -> Planned:
    """What the plan's design answers, from its seed; of a sequential one, the trials before its first look."""
    import numpy as np

    if plan.design.kind == SEQUENTIAL:
        steering = steering_of(plan, blueprint, most_trials(plan, 0))
        return Planned(steering.advance(Ledger(()), lambda: (), 0.0).trials)
    request = Request(plan, partial(before_any_trial, plan, blueprint))
    return find_design(plan.design.kind).plan_trials(request, np.random.default_rng(plan.design.seed))


def design_trials(plan: Plan, blueprint: Blueprint) -> tuple[PlannedTrial, ...]:
    """The trials of `design_of`."""
    return design_of(plan, blueprint).trials


def possible_trials(plan: Plan, blueprint: Blueprint) -> tuple[PlannedTrial, ...]:
    """Every trial that the plan's design may ask for, each once."""
    if plan.design.kind != SEQUENTIAL:
        return design_trials(plan, blueprint)
    space = space_of(plan)
    candidates = dict.fromkeys([space.rest, *(space.assignment(number) for number in range(len(space)))])
    return tuple(PlannedTrial(number, 1, one) for number, one in enumerate(candidates, start=1))
