"""One group around everything of a run, so that the kernel caps what the run takes of the node.

The trials' groups, and those of what is added to the machine, are made inside it. It has the plan's caps, and the
limits of this process's own group where groups made beside that would escape them. The caps guard the node, and
must not become a hidden treatment: whether they held a trial back is counted, and such a trial is not valid.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from insitu.injectors import cgroups, lifecycle, outer_limits
from insitu.injectors.cgroups import Hierarchies
from insitu.injectors.contract import Ceiling, Node, Ownership, Setting
from insitu.injectors.journal import Journal
from insitu.injectors.steps import GroupSteps, plan_group

_PERIOD_US = 100_000
"""Long, so that a run that stays below its cap is not stopped for a short burst."""
_SWAP_BYTES = 1 << 20
"""What may be swapped out beside the memory that is capped."""
_HELD_BACK_SHARE = 0.01
"""Of a trial, in which the cap on processors may stop a processor before the trial counts as held back."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What a run may take at most; ``None`` where nothing is said."""

    cores: float | None = None
    memory_bytes: float | None = None

    def binding_on(self, node: Node, memory_bytes: float) -> Caps:
        """Those that are less than what the node has, and the groups that this process is in allow, anyway."""
        cores = _least(node.cpus, node.ceilings.get("cpu.cores"))
        memory_bytes = _least(memory_bytes, node.ceilings.get("memory.limit"))
        return Caps(
            self.cores if self.cores is not None and self.cores < cores else None,
            self.memory_bytes if self.memory_bytes is not None and self.memory_bytes < memory_bytes else None,
        )

    @property
    def controllers(self) -> tuple[str, ...]:
        """Controllers that hold them."""
        wanted = (("cpu", self.cores), ("memory", self.memory_bytes))
        return tuple(name for name, cap in wanted if cap is not None)


NO_CAPS = Caps()


def _least(most: float, ceiling: Ceiling | None) -> float:
    """What is allowed at most; ``memory.high`` only slows down what is beyond it, and is no cap."""
    if ceiling is None or ceiling.file.endswith("/memory.high"):
        return most
    return min(most, ceiling.level)


def why_not(caps: Caps, node: Node) -> tuple[str, str]:
    """Why this node cannot hold the caps, and the remedy; both empty if it can."""
    for controller in caps.controllers:
        if not node.hierarchies.usable(controller):
            return node.hierarchies.problem(controller), node.hierarchies.remedy(controller)
    return "", ""


def settings_for(caps: Caps, node: Node) -> tuple[Setting, ...]:
    """The writes that put caps and limits in force, in their order; pure but for reading what holds us now."""
    limits = outer_limits.escaped(node.hierarchies)
    settings = outer_limits.with_caps(limits, tuple(_cap_settings(caps, node)))
    return (*settings, *_handed_to_children(node, settings))


def _cap_settings(caps: Caps, node: Node) -> Iterator[Setting]:
    if caps.cores is not None:
        quota_us = max(1000, math.floor(caps.cores * _PERIOD_US))
        if node.hierarchies.version["cpu"] == 2:
            yield Setting("cpu", "cpu.max", f"{quota_us} {_PERIOD_US}")
        else:
            yield Setting("cpu", "cpu.cfs_period_us", str(_PERIOD_US))
            yield Setting("cpu", "cpu.cfs_quota_us", str(quota_us))
    if caps.memory_bytes is not None:
        yield from _memory_settings(caps.memory_bytes, node)


def _memory_settings(memory_bytes: float, node: Node) -> Iterator[Setting]:
    """Memory and swap together: what is swapped out is taken of the node, too."""
    whole_pages = str(math.floor(memory_bytes / mmap.PAGESIZE) * mmap.PAGESIZE)
    if node.hierarchies.version["memory"] == 2:
        yield Setting("memory", "memory.max", whole_pages)
        if node.swap_accounted:
            yield Setting("memory", "memory.swap.max", "0")
        return
    parent = node.hierarchies.parents["memory"]
    if _text(parent / "memory.use_hierarchy") == "0":  # always 1 since Linux 5.11
        yield Setting("memory", "memory.use_hierarchy", "1")
    yield Setting("memory", "memory.limit_in_bytes", whole_pages)
    if (parent / "memory.memsw.limit_in_bytes").exists():
        # above the first, so that memory alone is refused first: Linux 6.18 does not count refusals of both
        yield Setting("memory", "memory.memsw.limit_in_bytes", str(int(whole_pages) + _SWAP_BYTES))


def _handed_to_children(node: Node, settings: Collection[Setting]) -> Iterator[Setting]:
    """With version 2, a group must hand its controllers to the groups inside it."""
    nested = _nested(node.hierarchies, settings)
    two = [name for name in nested if node.hierarchies.version[name] == 2 and name != cgroups.PRESSURE]
    if two:
        offered = _text(node.hierarchies.parents[two[0]] / "cgroup.subtree_control").split()
        handed = [name for name in offered if name in two]
        text = " ".join(f"+{name}" for name in handed)
        yield Setting(two[0], "cgroup.subtree_control", text, reads_back=" ".join(handed))


def _nested(hierarchies: Hierarchies, settings: Collection[Setting]) -> tuple[str, ...]:
    """Controllers whose trees get the run's group: those of the settings, and what shares a folder with them."""
    trees = {hierarchies.parents[setting.controller] for setting in settings}
    return tuple(name for name, parent in hierarchies.parents.items() if parent in trees)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Pushes:
    """How often and how long the caps have held the run back so far.

    Attributes
    ----------
    throttled_s
        Time in which a processor was taken away, summed over processors.
    memory_refusals
        Times that the cap refused memory, which was then reclaimed elsewhere, or a process ended.
    """

    throttled_s: float = 0.0
    memory_refusals: int = 0


@dataclass(frozen=True, slots=True)
class Confinement:
    """The run's group, in force.

    Attributes
    ----------
    node
        The node as seen from inside: new groups are made in the run's.
    """

    node: Node
    caps: Caps
    group: cgroups.GroupPlan = cgroups.GroupPlan({})  # noqa: RUF009 - frozen, and its mapping is never written

    def pushes(self) -> Pushes:
        """Read the counters."""
        throttled_s, refusals = 0.0, 0
        if self.caps.cores is not None:
            stat = _fields(self.group.directories["cpu"] / "cpu.stat")
            throttled_s = stat.get("throttled_time", 0) / 1e9 + stat.get("throttled_usec", 0) / 1e6
        if self.caps.memory_bytes is not None:
            folder = self.group.directories["memory"]
            if self.node.hierarchies.version["memory"] == 2:
                refusals = _fields(folder / "memory.events").get("max", 0)
            else:
                refusals = int(_text(folder / "memory.failcnt") or 0)
        return Pushes(throttled_s, refusals)


def held_back(before: Pushes, after: Pushes, wall_s: float) -> tuple[str, ...]:
    """Which caps bound between two readings, in words."""
    found = []
    if (share := (after.throttled_s - before.throttled_s) / wall_s if wall_s > 0 else 0.0) > _HELD_BACK_SHARE:
        found.append(f"cores (a processor was taken away for {share:.0%} of the time)")
    if after.memory_refusals > before.memory_refusals:
        found.append("memory (more was wanted)")
    return tuple(found)


def _fields(path: Path) -> dict[str, int]:
    words = _text(path).split()
    return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=False) if count.isdigit()}


def steps_for(node: Node, caps: Caps, owner: Ownership) -> GroupSteps:
    """What confining a run takes; nothing where there is neither a cap nor a limit that would be escaped."""
    settings = settings_for(caps, node)
    return plan_group(node, owner.prefix, _nested(node.hierarchies, settings), settings)


def inside(node: Node, caps: Caps, steps: GroupSteps) -> Confinement:
    """The node as it is seen from inside the group, made or not."""
    parents = dict(node.hierarchies.parents) | dict(steps.plan.directories)
    return Confinement(replace(node, hierarchies=replace(node.hierarchies, parents=parents)), caps, steps.plan)


@contextmanager
def confined(node: Node, caps: Caps, journal: Journal) -> Iterator[Confinement]:
    """Hold a group with `caps` in force; leaving the context ends all in it and removes it.

    Parameters
    ----------
    caps
        Without any that binds here, and without limits that would be escaped, nothing is made.

    Raises
    ------
    InjectorError
        If the group cannot be made, or a cap does not read back.
    UndoFailed
        If it is still there afterwards; the journal keeps it.
    """
    caps = caps.binding_on(node, node.memory_bytes)
    steps = steps_for(node, caps, journal.header.ownership)
    if not steps.limits:
        yield Confinement(node, caps)
        return
    group = lifecycle.make_group(steps, journal)
    try:
        yield inside(node, caps, steps)
    finally:
        group.remove(journal)
