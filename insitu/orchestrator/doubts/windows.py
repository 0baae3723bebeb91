"""Windows of time that cannot open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insitu.injectors.options import Schedule
from insitu.orchestrator.doubts.doubt import Doubt
from insitu.orchestrator.plan.inventory import DEFAULT_NODE, Inventory
from insitu.orchestrator.plan.types import Factor, Plan

if TYPE_CHECKING:
    from insitu.orchestrator.experiment import Experiment


def about_windows(experiment: Experiment, inventory: Inventory | None) -> Iterator[Doubt]:
    """Windows of time that cannot open."""
    plan, here = experiment.plan, experiment.here.name
    known = {here, *(inventory.nodes if inventory is not None else ())} - {DEFAULT_NODE}
    for factor in plan.factors:
        for schedule in (value for _, value in factor.options if isinstance(value, Schedule)):
            yield from _strangers(plan, factor, schedule, known, here)
            yield from _too_late(plan, factor, schedule)


def _strangers(plan: Plan, factor: Factor, schedule: Schedule, known: set[str], here: str) -> Iterator[Doubt]:
    for name, _ in schedule.by_node:
        if name not in known:
            yield Doubt(
                f"{_place(plan, factor)}the windows of {factor.variable} never open: no node is named '{name}'",
                f"this node is '{here}'; others are known from an inventory",
            )
    if schedule.by_node and not schedule.on(here):
        yield Doubt(
            f"{_place(plan, factor)}{factor.variable} has no window on this node, '{here}': nothing is added here",
            f"add windows for '{here}', or give one list for all nodes",
        )


def _too_late(plan: Plan, factor: Factor, schedule: Schedule) -> Iterator[Doubt]:
    timeout_s = plan.guards.trial_timeout_s
    for name, windows in schedule.by_node or (("", schedule.everywhere),):
        for window in windows:
            if window.begin_s >= timeout_s:
                where = f" on '{name}'" if name else ""
                yield Doubt(
                    f"{_place(plan, factor)}the window {window} of {factor.variable}{where} never opens: "
                    f"a trial is ended after {timeout_s:g} s",
                    "begin it earlier, or raise guards.trial_timeout",
                )


def _place(plan: Plan, factor: Factor) -> str:
    return f"{plan.path}:{factor.line}:{factor.column}: " if factor.line else ""
