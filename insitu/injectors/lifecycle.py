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
        return tuple(f"{path}/cgroup.procs" for path in dict.fromkeys(self.group.values()))

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

    Raises
    ------
    InjectorError
        If a level cannot be set, does not read back, or a group of that name exists already.
    UndoFailed
        If something is still there afterwards; the journal keeps it.
    """
    for intervention in interventions:
        check(intervention, node)
    treatments = [
        intervention.injector.treatment(intervention.level, node)
        for intervention in interventions
        if math.isfinite(intervention.level)
    ]
    settings = tuple(setting for treatment in treatments for setting in treatment.settings)
    cycles = [treatment.stop_and_go for treatment in treatments if treatment.stop_and_go is not None]
    if len(cycles) > 1:
        raise NotSettable("two variables ask for a duty cycle of the same subject")
    plan = cgroups.plan_group(node.hierarchies, name, controllers)
    limits = [setting for setting in limits if setting.controller in plan.directories]
    undos = [
        *(Undo(UndoKind.CGROUP, str(path)) for path in plan.paths),
        *(Undo(UndoKind.FOLDER, str(path)) for path in folders),
    ]
    cgroups.refuse_existing(plan)
    intent = journal.intend(undos, [f"{setting.file} = {setting.text}" for setting in (*limits, *settings)])
    try:
        cgroups.create(plan)
        for setting in limits:
            _apply(setting, plan)
        yield Reserved(plan.directories, plan, settings, cycles[0] if cycles else None)
    finally:
        failures = carry_out_all(undos, journal.header.ownership)
        if failures:
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(intent)


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
