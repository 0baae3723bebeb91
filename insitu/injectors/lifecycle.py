"""The one life cycle of an intervention: check, snapshot, journal, apply, read back, hold, undo, verify.

Settings live in control files of the trial's own group. Its prior state is that it does not exist (anything
else is foreign, and refused), so its removal undoes every setting at once, whoever carries it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Setting, StopAndGo
from insitu.injectors.errors import InjectorError, NotSettable, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.undo import Undo, UndoKind, carry_out_all


@dataclass(frozen=True, slots=True)
class Intervention:
    """do(variable := level) by one injector; an infinite level asks for nothing."""

    injector: Injector
    level: float


@dataclass(frozen=True, slots=True)
class Reserved:
    """A trial's own group and folders, made and journalled, nothing set yet.

    Attributes
    ----------
    group
        The trial's control groups, controller to directory; empty where none can be made.
    """

    group: Mapping[str, Path]
    _plan: cgroups.GroupPlan
    _settings: tuple[Setting, ...]
    _stop_and_go: StopAndGo | None

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to write a 0 to, to join every group."""
        return _join_files(self._plan)

    def apply(self) -> StopAndGo | None:
        """Bring the levels about, and read them back.

        Returns
        -------
        StopAndGo or None
            The duty cycle that the sandbox must hold, if an intervention asks for one.
        """
        for setting in self._settings:
            _apply(setting, self._plan)
        return self._stop_and_go


class Verdict(StrEnum):
    """Outcome of the manipulation check."""

    HELD = "held"
    SLACK = "slack"
    MISSED = "missed"
    DISTURBED = "disturbed"
    UNSET = "unset"


def check(intervention: Intervention, node: Node) -> Capability:
    """Whether `node` can do it.

    Raises
    ------
    NotSettable
        With the reason and the remedy, if the variable or the level is out of reach.
    """
    capability = intervention.injector.capability(node)
    level = intervention.level
    if math.isinf(level):
        return capability
    if not capability.settable:
        raise NotSettable(f"{capability.variable} cannot be set here: {capability.reason}", capability.remedy)
    if not capability.low <= level <= capability.high:
        raise NotSettable(
            f"{capability.variable} = {level:g} {capability.unit} is out of reach here: "
            f"this node can set {capability.low:g} to {capability.high:g} {capability.unit}",
            "choose levels in this range, or write: unlimited",
        )
    return capability


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """A group that was made ahead of its trial; `intent` is what the journal knows it by."""

    plan: cgroups.GroupPlan
    limits: tuple[Setting, ...]
    intent: int

    @property
    def undos(self) -> tuple[Undo, ...]:
        return tuple(Undo(UndoKind.CGROUP, str(path)) for path in self.plan.paths)

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to write a 0 to, to join every group."""
        return _join_files(self.plan)

    def remove(self, journal: Journal) -> None:
        """Undo a group that no trial has used; raises `UndoFailed`."""
        if failures := carry_out_all(self.undos, journal.header.ownership):
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(self.intent)


def make_group(
    node: Node, name: str, controllers: Sequence[str], limits: Sequence[Setting], journal: Journal
) -> ReadyGroup:
    """Journal and make a fresh group, with the limits that guard the node in force.

    Raises
    ------
    InjectorError
        If a group of that name exists already, or the kernel refuses.
    """
    plan = cgroups.plan_group(node.hierarchies, name, controllers)
    usable = tuple(setting for setting in limits if setting.controller in plan.directories)
    undos = [Undo(UndoKind.CGROUP, str(path)) for path in plan.paths]
    cgroups.refuse_existing(plan)
    intent = journal.intend(undos, [f"{setting.file} = {setting.text}" for setting in usable])
    group = ReadyGroup(plan, tuple(limits), intent)
    try:
        cgroups.create(plan)
        for setting in usable:
            _apply(setting, plan)
    except BaseException:
        group.remove(journal)
        raise
    return group


def _join_files(plan: cgroups.GroupPlan) -> tuple[str, ...]:
    return tuple(f"{path}/cgroup.procs" for path in plan.paths)


@contextmanager
def hold(
    interventions: Sequence[Intervention],
    node: Node,
    *,
    name: str,
    controllers: Sequence[str],
    limits: Sequence[Setting],
    folders: Sequence[Path],
    journal: Journal,
    ready: ReadyGroup | None = None,
) -> Iterator[Reserved]:
    """Reserve a fresh group called `name` for interventions; leaving the context undoes everything.

    Parameters
    ----------
    controllers
        Controllers that the group should have where the node has them.
    limits
        Settings that guard the node, in force from the start; skipped where the controller is not usable.
    folders
        Folders that the caller makes after entering; deleted at the end with all that is in them.
    journal
        Takes the undos before anything is made.
    ready
        A group made ahead, to use instead of a new one; undone with the rest.

    Raises
    ------
    InjectorError
        If a level cannot be set, does not read back, or a group of that name exists already.
    UndoFailed
        If something is still there afterwards; the journal keeps it.
    """
    try:
        settings, stop_and_go = _bring_about(interventions, node)
    except BaseException:
        if ready is not None:
            ready.remove(journal)
        raise
    group = ready or make_group(node, name, controllers, limits, journal)
    undos = [*group.undos, *(Undo(UndoKind.FOLDER, str(path)) for path in folders)]
    intent: int | None = None
    try:
        intent = journal.intend(undos, [f"{setting.file} = {setting.text}" for setting in settings])
        yield Reserved(group.plan.directories, group.plan, settings, stop_and_go)
    finally:
        failures = carry_out_all(undos, journal.header.ownership)
        if failures:
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(group.intent)
        if intent is not None:
            journal.done(intent)


def _bring_about(
    interventions: Sequence[Intervention], node: Node
) -> tuple[tuple[Setting, ...], StopAndGo | None]:
    """Check interventions, and say which settings and which duty cycle they take together."""
    for intervention in interventions:
        check(intervention, node)
    treatments = [
        intervention.injector.treatment(intervention.level, node)
        for intervention in interventions
        if math.isfinite(intervention.level)
    ]
    cycles = [treatment.stop_and_go for treatment in treatments if treatment.stop_and_go is not None]
    if len(cycles) > 1:
        raise NotSettable("two variables ask for a duty cycle of the same subject")
    settings = tuple(setting for treatment in treatments for setting in treatment.settings)
    return settings, cycles[0] if cycles else None


def _apply(setting: Setting, plan: cgroups.GroupPlan) -> None:
    path = plan.directories[setting.controller] / setting.file
    try:
        path.write_text(setting.text)
        seen = path.read_text()
    except OSError as exc:
        raise NotSettable(
            f"cannot write {setting.text!r} to {path}: {exc.strerror}",
            "the level may be above what a parent group allows; see: insitu doctor",
        ) from exc
    expected = setting.reads_back or setting.text
    if expected not in seen.splitlines():
        raise InjectorError(f"{path} reads back {seen.strip()!r} after {setting.text!r} was written")


def verdict(level: float, achieved: Achieved, tolerance: float) -> Verdict:
    """Compare what was asked for with what was reached.

    Parameters
    ----------
    tolerance
        Largest relative deviation; what the samples cannot resolve comes on top.
    """
    if math.isinf(level):
        return Verdict.UNSET
    if achieved.starved:
        return Verdict.DISTURBED
    if achieved.level is None or achieved.bound_share == 0:
        return Verdict.SLACK
    allowed = tolerance * level + achieved.uncertainty
    return Verdict.HELD if abs(achieved.level - level) <= allowed else Verdict.MISSED
