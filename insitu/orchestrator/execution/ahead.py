"""The next trial's group and sandbox, made between trials.

On cgroup version 1, joining a group waits for a grace period of the kernel, some 15 ms after a pause; here
nobody waits for it. Nothing of this runs beside a trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from insitu.injectors import lifecycle
from insitu.injectors.cgroups import PRESSURE
from insitu.injectors.contract import Node, Setting
from insitu.injectors.journal import Journal
from insitu.injectors.registry import injectors
from insitu.injectors.steps import GroupSteps, plan_group
from insitu.orchestrator.execution.sandbox.client import Launcher
from insitu.orchestrator.plan.types import Guards

CONTROLLERS = ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)
"""Controllers that measure or guard every trial, where the node has them."""


def controllers_for(names: Iterable[str]) -> tuple[str, ...]:
    """Controllers of a trial in which injectors of these names take part."""
    needed = (controller for name in names for controller in injectors()[name].controllers)
    return tuple(dict.fromkeys((*CONTROLLERS, *needed)))


def node_limits(guards: Guards) -> tuple[Setting, ...]:
    """Settings of a trial's group that protect the node from the subject."""
    return (Setting("pids", "pids.max", str(guards.processes)),)


class Ahead:
    """Keeps at most one group ready, and a sandbox that is a member of it."""

    def __init__(self, node: Node, journal: Journal, launcher: Launcher) -> None:
        self._node = node
        self._journal = journal
        self._launcher = launcher
        self._ready: lifecycle.ReadyGroup | None = None
        self._made = 0

    def make(self, guards: Guards, controllers: Sequence[str]) -> None:
        """Make the next group, and have a sandbox join it; does not wait for the sandbox.

        Raises
        ------
        InjectorError
            If the group cannot be made.
        LauncherGone
            If there is nobody to build the sandbox.
        """
        self.drop()
        self._made += 1
        name = f"{self._journal.header.ownership.prefix}-g{self._made}"
        group = lifecycle.make_group(plan_group(self._node, name, controllers, node_limits(guards)), self._journal)
        self._ready = group
        self._launcher.make_ready(group.steps.join_files)

    def take(self, wanted: GroupSteps) -> lifecycle.ReadyGroup | None:
        """Hand over the group that is ready, if it has what is wanted; whoever takes it undoes it."""
        if self._ready is None or not self._ready.steps.serves_as(wanted):
            return None
        group, self._ready = self._ready, None
        return group

    def drop(self) -> None:
        """Undo the group that no trial took; ends the sandbox in it."""
        if self._ready is not None:
            group, self._ready = self._ready, None
            group.remove(self._journal)
