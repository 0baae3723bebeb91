"""The one life cycle of an intervention: check, snapshot, journal, apply, read back, hold, undo, verify.

Settings live in control files of the trial's own group. Its prior state is that it does not exist (anything
else is foreign, and refused), so its removal undoes every setting at once, whoever carries it out. Values of the
host are there before and after: what they read before is journalled, and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.actuator import Host, InForce, Moment
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Part, Setting, StopAndGo, Treatment
from insitu.injectors.errors import ForeignState, NotSettable, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.quantities import spelled
from insitu.injectors.steps import Actuators, GroupSteps, HoldSteps, plan_group
from insitu.injectors.treatment import Intervention, joined
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.injectors.writing import change_value, snapshot, write_setting


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


NOTHING_APPLIED = Applied(None)
"""Of a trial that has ended before."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A trial's own group and folders, made and journalled, nothing set yet."""

    _steps: HoldSteps
    _changes: tuple[Undo, ...]
    _changed: list[Undo]
    _stack: ExitStack

    @property
    def group(self) -> Mapping[str, Path]:
        """The trial's control groups, controller to directory; empty where none can be made."""
        return self._steps.group.plan.directories

    @property
    def treatment(self) -> Treatment:
        """What `apply` will bring about."""
        return self._steps.treatment

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to write a 0 to, to join every group."""
        return self._steps.group.join_files

    def lift_caps(self) -> None:
        """Take off what holds up the end of the group's members; its levels hold no longer."""
        for path in self._steps.group.plan.paths:
            cgroups.lift_caps(path)

    def apply(self, host: Callable[[], Host]) -> Applied:
        """Bring the levels about, and read them back.

        Parameters
        ----------
        host
            Asked only if a part needs it: the sandbox must stand by then.
        """
        steps = self._steps
        for setting in steps.treatment.settings:
            write_setting(setting, steps.group.plan)
        for value, change in zip(steps.treatment.host_values, self._changes, strict=True):
            self._changed.append(change)
            try:
                change_value(value, change.prior)
            except ForeignState:  # not written, so what it reads is somebody else's
                self._changed.remove(change)
                raise
        in_force = [
            self._stack.enter_context(steps.actuators[type(part)].hold(part, steps.name, host()))
            for part in steps.treatment.parts
        ]
        return Applied(steps.treatment.stop_and_go, tuple(in_force))


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

    steps: GroupSteps
    intent: int

    def remove(self, journal: Journal) -> None:
        """Undo a group that no trial has used; raises `UndoFailed`."""
        if failures := carry_out_all(self.steps.undos, journal.header.ownership):
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(self.intent)


def make_group(steps: GroupSteps, journal: Journal) -> ReadyGroup:
    """Journal and make a fresh group, with the limits that guard the node in force.

    Raises
    ------
    InjectorError
        If a group of that name exists already, or the kernel refuses.
    """
    cgroups.refuse_existing(steps.plan)
    intent = journal.intend(steps.undos, steps.lines())
    group = ReadyGroup(steps, intent)
    try:
        cgroups.create(steps.plan)
        for setting in steps.in_force:
            write_setting(setting, steps.plan)
    except BaseException:
        group.remove(journal)
        raise
    return group


def plan_hold(
    interventions: Sequence[Intervention],
    node: Node,
    *,
    name: str,
    controllers: Sequence[str],
    limits: Sequence[Setting],
    folders: Sequence[Path],
    actuators: Actuators,
    parts: tuple[Part, ...] = (),
) -> HoldSteps:
    """Check interventions, and say what holding them takes; changes nothing.

    Parameters
    ----------
    controllers
        Controllers that the trial's group should have where the node has them.
    limits
        Settings that guard the node, in force from the start; skipped where the controller is not usable.
    folders
        Folders that the caller makes after entering; deleted at the end with all that is in them.
    actuators
        Bring about the parts of treatments that are more than a value in a file.
    parts
        What the trial has in any case, with those of the interventions.

    Raises
    ------
    NotSettable
        If a level cannot be set, or two interventions contradict each other.
    """
    for intervention in interventions:
        check(intervention, node)
    treatment = joined(
        [Treatment(parts=parts), *(one.injector.treatment(one.level, node) for one in interventions)]
    )
    for part in treatment.parts:
        if type(part) not in actuators:
            raise NotSettable(f"nothing here brings about a {type(part).__name__}")
    return HoldSteps(name, plan_group(node, name, controllers, limits), treatment, tuple(folders), actuators)


@contextmanager
def hold(steps: HoldSteps, journal: Journal, ready: ReadyGroup | None = None) -> Iterator[Reserved]:
    """Reserve a fresh group for interventions; leaving the context undoes everything.

    Parameters
    ----------
    journal
        Takes the undos before anything is made.
    ready
        A group made ahead, to use instead of a new one; undone with the rest.

    Raises
    ------
    InjectorError
        If a level does not read back, or a group of that name exists already.
    UndoFailed
        If something is still there afterwards; the journal keeps it.
    """
    if ready is not None:
        steps = replace(steps, group=ready.steps)
    try:
        undos = steps.undos  # refuses what is foreign before anything is made
    except BaseException:
        if ready is not None:
            ready.remove(journal)
        raise
    group = ready or make_group(steps.group, journal)
    changed: list[Undo] = []
    intent: int | None = None
    try:
        changes = tuple(
            Undo(UndoKind.VALUE, value.path, prior=snapshot(value), written=value.reads_back or value.text)
            for value in steps.treatment.host_values
        )
        intent = journal.intend([*reversed(changes), *undos], steps.lines())
        with ExitStack() as stack:
            yield Reserved(steps, changes, changed, stack)
    finally:
        failures = carry_out_all([*reversed(changed), *undos], journal.header.ownership)
        if failures:
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(group.intent)
        if intent is not None:
            journal.done(intent)


def verdict(level: float, achieved: Achieved, injector: Injector) -> Verdict:
    """Compare what was asked for with what was reached; what the samples cannot resolve is allowed on top."""
    if level == injector.rest:
        return Verdict.UNSET
    if achieved.starved:
        return Verdict.DISTURBED
    if achieved.bound_share == 0:
        return Verdict.SLACK
    if achieved.level is None:  # it was in force, and nothing shows that it was reached
        return Verdict.MISSED
    allowed = injector.tolerance * abs(level) + injector.least_tolerance + achieved.uncertainty
    return Verdict.HELD if abs(achieved.level - level) <= allowed else Verdict.MISSED
