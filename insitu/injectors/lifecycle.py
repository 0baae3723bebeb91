"""The one life cycle of an intervention: check, snapshot, journal, apply, read back, hold, undo, verify.

Settings live in control files of the trial's own group. Its prior state is that it does not exist (anything
else is foreign, and refused), so its removal undoes every setting at once, whoever carries it out. Values of the
host are there before and after: what they read before is journalled, and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.actuator import Actuator, Host, InForce, Moment
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Part, Setting, StopAndGo, Treatment
from insitu.injectors.errors import ForeignState, NotSettable, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.quantities import spelled
from insitu.injectors.treatment import Intervention, joined
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.injectors.writing import change_value, snapshot, write_setting

Actuators = Mapping[type[Part], Actuator]


@dataclass(frozen=True, slots=True)
class Applied:
    """A treatment that holds.

    Attributes
    ----------
    stop_and_go
        The duty cycle that the sandbox must hold, if an intervention asks for one.
    """

    stop_and_go: StopAndGo | None
    _in_force: tuple[InForce, ...] = ()

    @property
    def columns(self) -> Mapping[str, Callable[[], float]]:
        """What to sample beyond the trial's own counters."""
        return {name: read for part in self._in_force for name, read in part.columns().items()}

    def started(self, at: float) -> None:
        """Tell whatever follows a schedule when the subject was executed (monotonic clock)."""
        for part in self._in_force:
            part.started(at)

    def ended(self) -> tuple[Moment, ...]:
        """End what was added beside the subject; gives when it was there."""
        return tuple(moment for part in self._in_force for moment in part.ended())


@dataclass(frozen=True, slots=True)
class Reserved:
    """A trial's own group and folders, made and journalled, nothing set yet.

    Attributes
    ----------
    group
        The trial's control groups, controller to directory; empty where none can be made.
    treatment
        What `apply` will bring about.
    """

    group: Mapping[str, Path]
    treatment: Treatment
    _name: str
    _plan: cgroups.GroupPlan
    _changes: tuple[Undo, ...]
    _changed: list[Undo]
    _actuators: Actuators
    _stack: ExitStack

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to write a 0 to, to join every group."""
        return _join_files(self._plan)

    def apply(self, host: Callable[[], Host]) -> Applied:
        """Bring the levels about, and read them back.

        Parameters
        ----------
        host
            Asked only if a part needs it: the sandbox must stand by then.
        """
        for setting in self.treatment.settings:
            write_setting(setting, self._plan)
        for value, change in zip(self.treatment.host_values, self._changes, strict=True):
            self._changed.append(change)
            try:
                change_value(value, change.prior)
            except ForeignState:  # not written, so what it reads is somebody else's
                self._changed.remove(change)
                raise
        in_force = [
            self._stack.enter_context(self._actuators[type(part)].hold(part, self._name, host()))
            for part in self.treatment.parts
        ]
        return Applied(self.treatment.stop_and_go, tuple(in_force))


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
    if intervention.at_rest:
        return capability
    if not capability.settable:
        raise NotSettable(f"{capability.variable} cannot be set here: {capability.reason}", capability.remedy)
    if not capability.low <= level <= capability.high:
        raise _out_of_reach(capability, level)
    if capability.levels and level not in capability.levels:
        there_are = ", ".join(spelled(one, capability.unit) for one in capability.levels)
        what = f"{capability.variable} = {spelled(level, capability.unit)}"
        raise NotSettable(f"{what} is not one of the levels there are: {there_are}", "choose among them")
    if capability.step and abs(level / capability.step - round(level / capability.step)) > 1e-9:
        raise NotSettable(
            f"{capability.variable} = {level:g} {capability.unit}".rstrip()
            + f" is not a multiple of {capability.step:g}",
            "list such levels, instead of a range",
        )
    return capability


def _out_of_reach(capability: Capability, level: float) -> NotSettable:
    unit, ceiling = capability.unit, capability.ceiling
    what, high = f"{capability.variable} = {spelled(level, unit)}", spelled(capability.high, unit)
    if ceiling is not None and level > capability.high:
        return NotSettable(
            f"{what} is above what a group of this process allows: {ceiling.file} says {ceiling.text}",
            f"choose levels up to {high}, or raise that limit",
        )
    return NotSettable(
        f"{what} is out of reach here: this node can set {spelled(capability.low, unit)} to {high}",
        "choose levels in this range",
    )


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

    def lacks(self, controllers: Sequence[str], node: Node) -> bool:
        """Whether a controller that this node has is missing."""
        return any(node.hierarchies.usable(name) and name not in self.plan.directories for name in controllers)

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
            write_setting(setting, plan)
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
    actuators: Actuators,
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
    actuators
        Bring about the parts of treatments that are more than a value in a file.
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
        treatment = _joined(interventions, node, actuators)
    except BaseException:
        if ready is not None:
            ready.remove(journal)
        raise
    group = ready or make_group(node, name, controllers, limits, journal)
    undos = [undo for part in treatment.parts for undo in actuators[type(part)].undos(part, name)]
    undos += [*group.undos, *(Undo(UndoKind.FOLDER, str(path)) for path in folders)]
    changed: list[Undo] = []
    intent: int | None = None
    try:
        changes = tuple(
            Undo(UndoKind.VALUE, value.path, prior=snapshot(value), written=value.reads_back or value.text)
            for value in treatment.host_values
        )
        intent = journal.intend([*reversed(changes), *undos], _described(treatment, actuators, name))
        with ExitStack() as stack:
            yield Reserved(group.plan.directories, treatment, name, group.plan, changes, changed, actuators, stack)
    finally:
        failures = carry_out_all([*reversed(changed), *undos], journal.header.ownership)
        if failures:
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(group.intent)
        if intent is not None:
            journal.done(intent)


def _joined(interventions: Sequence[Intervention], node: Node, actuators: Actuators) -> Treatment:
    """Check interventions, and say what they take together."""
    for intervention in interventions:
        check(intervention, node)
    treatment = joined([one.injector.treatment(one.level, node) for one in interventions])
    for part in treatment.parts:
        if type(part) not in actuators:
            raise NotSettable(f"nothing here brings about a {type(part).__name__}")
    return treatment


def _described(treatment: Treatment, actuators: Actuators, name: str) -> list[str]:
    """What is about to be written, for whoever reads the journal after a crash."""
    lines = [f"{setting.file} = {setting.text}" for setting in treatment.settings]
    lines += [f"{value.path} = {value.text}" for value in treatment.host_values]
    return lines + [line for part in treatment.parts for line in actuators[type(part)].describe(part, name)]


def verdict(level: float, achieved: Achieved, injector: Injector) -> Verdict:
    """Compare what was asked for with what was reached; what the samples cannot resolve is allowed on top."""
    if level == injector.rest:
        return Verdict.UNSET
    if achieved.starved:
        return Verdict.DISTURBED
    if achieved.level is None or achieved.bound_share == 0:
        return Verdict.SLACK
    allowed = injector.tolerance * abs(level) + injector.least_tolerance + achieved.uncertainty
    return Verdict.HELD if abs(achieved.level - level) <= allowed else Verdict.MISSED
