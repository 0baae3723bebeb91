"""Whether what a plan takes of this node stays within its blast radius, and what the kernel is to cap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from insitu.injectors import registry
from insitu.injectors.confinement import Caps, why_not
from insitu.injectors.contract import Node
from insitu.injectors.demand import Demand
from insitu.injectors.journal import Header
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.errors import CannotExecute, InputError, InsituError
from insitu.orchestrator.plan.blast_radius import UNITS, Allowed, Cap, HostWide, allowed
from insitu.orchestrator.plan.inventory import Inventory
from insitu.orchestrator.plan.types import Factor, Plan, Role
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.store.records import PlannedTrial


@dataclass(frozen=True, slots=True)
class Radius:
    """What a run may take of one node.

    Attributes
    ----------
    caps
        The part that the kernel holds, as far as it is less than what the node has.
    demand
        The most that the levels of any trial take.
    """

    allowed: Allowed
    caps: Caps
    demand: Demand


@dataclass(frozen=True, slots=True)
class _Share:
    """What one factor takes in one trial, with the text that names it and its place."""

    text: str
    demand: Demand


def radius_of(
    plan: Plan,
    trials: Iterable[PlannedTrial],
    node: Node,
    host: str,
    memory_bytes: float,
    inventory: Inventory | None,
) -> Radius:
    """Hold what a plan takes against what is allowed.

    Parameters
    ----------
    host
        Name of the node.
    memory_bytes
        All memory of the node.

    Raises
    ------
    InputError
        If the plan contradicts itself.
    CannotExecute
        If the inventory does not allow it, or this node cannot hold the caps.
    """
    within = allowed(plan.blast_radius, inventory.for_node(host) if inventory is not None else None)
    factors = [factor for factor in plan.factors if plan.model.variables[factor.variable].role is Role.SET]
    for factor in factors:
        _check_host_wide(factor, plan, within.host_wide, node, host)
    most = Demand()
    for assignment in dict.fromkeys(trial.assignment for trial in trials):
        levels = assignment.as_dict()
        shares = [_share(factor, levels[factor.variable], plan) for factor in factors]
        together = reduce(Demand.__add__, (share.demand for share in shares), Demand())
        _check_demand(shares, together, within, host)
        most = most.maximum(together)
    cores, memory = within.cap("cores"), within.cap("memory")
    stated = Caps(cores.value if cores else None, memory.value if memory else None)
    caps = stated.binding_on(node, memory_bytes)
    _check_caps(caps, within, node)
    return Radius(within, caps, most)


def _share(factor: Factor, level: float, plan: Plan) -> _Share:
    variable = plan.model.variables[factor.variable]
    intervention = Intervention(registry.injectors()[variable.source or ""].configured(factor.options), level)
    where = f"{plan.path}:{factor.line}:{factor.column}" if factor.line else str(plan.path)
    text = f"{factor.variable} = {format_quantity(level, variable.unit)} ({where})"
    return _Share(text, intervention.demand)


def _amounts(demand: Demand) -> dict[str, float]:
    return {
        "cores": demand.cores,
        "memory": demand.memory_bytes,
        "disk_rate": demand.disk_bytes_per_s,
        "interfaces": demand.interfaces,
    }


def _check_demand(shares: Sequence[_Share], together: Demand, within: Allowed, host: str) -> None:
    for key, amount in _amounts(together).items():
        cap = within.cap(key)
        if cap is None or amount <= cap.value:
            continue
        takers = [share.text for share in shares if _amounts(share.demand)[key]]
        takes = "takes" if len(takers) == 1 else "together take"
        raise _refusal(
            f"{' and '.join(takers)} {takes} {_spelled(key, amount)}, more than {_limit(key, cap, host)}",
            cap,
        )


def _spelled(key: str, amount: float) -> str:
    """An amount with its unit; of what is counted, with its name."""
    if UNITS[key]:
        return format_quantity(amount, UNITS[key])
    return f"{amount:g} {key if amount != 1 else key.removesuffix('s')}"


def _limit(key: str, cap: Cap, host: str) -> str:
    amount = format_quantity(cap.value, UNITS[key])
    if cap.place is not None and cap.place.inventory:
        return f"the inventory allows on {host}: {key} {amount} ({cap.place})"
    return f"blast_radius.{key} allows: {amount} ({cap.place})"


def _refusal(message: str, said: Cap | HostWide) -> InsituError:
    if said.place is not None and said.place.inventory:
        hint = "choose lower levels, or ask whoever looks after the node to raise the cap"
        return CannotExecute(message, hint=hint)
    return InputError(message, hint="choose lower levels, or raise blast_radius in the plan")


def _check_host_wide(factor: Factor, plan: Plan, says: Sequence[HostWide], node: Node, host: str) -> None:
    """A value of the whole host is set only if everybody who has a say allows it."""
    variable = plan.model.variables[factor.variable]
    name = variable.source or ""
    injector = registry.injectors()[name].configured(factor.options)
    if not injector.capability(node).settable:
        return
    if not any(injector.treatment(level, node).host_values for level in factor.levels):
        return
    for one in says:
        if name in one.variables:
            continue
        what = f"{factor.variable} ({plan.path}:{factor.line}:{factor.column}) sets {name} of the whole host"
        if one.place is not None and one.place.inventory:
            hint = "ask whoever looks after the node to allow it"
            raise CannotExecute(f"{what}, which the inventory does not allow on {host} ({one.place})", hint=hint)
        hint = f"write blast_radius: {{host_wide: [{name}]}} in the plan, if nothing else on this host minds"
        raise InputError(f"{what}, which blast_radius.host_wide does not allow", hint=hint)


def _check_caps(caps: Caps, within: Allowed, node: Node) -> None:
    """A cap that cannot be held is refused: nobody would notice that it is not."""
    reason, remedy = why_not(caps, node)
    if reason:
        controller = next(name for name in caps.controllers if not node.hierarchies.usable(name))
        key = {"cpu": "cores"}.get(controller, controller)
        cap = within.cap(key)
        place = "" if cap is None else f" ({cap.place})"
        raise CannotExecute(f"the blast radius' {key}{place} cannot be held here: {reason}", hint=remedy)


def refuse_crowd(within: Allowed, others: Sequence[Header]) -> None:
    """Refuse to execute beside more runs than the blast radius allows.

    Raises
    ------
    CannotExecute
        If there are more.
    """
    cap = within.cap("trials")
    if cap is None or len(others) + 1 <= cap.value:
        return
    listed = ", ".join(f"{other.run_directory} (process {other.owner_pid})" for other in others)
    hint = f"wait for it to end, or write blast_radius: {{trials: {len(others) + 1}}} in the plan"
    if cap.place is not None and cap.place.inventory:
        hint = f"wait for it to end; the inventory allows {cap.value:g} ({cap.place})"
    raise CannotExecute(f"another run executes on this node, and two disturb each other: {listed}", hint=hint)
