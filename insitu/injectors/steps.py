"""What holding interventions takes, as data: `lifecycle` carries it out, dry runs show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.actuator import Actuator
from insitu.injectors.contract import Node, Part, Setting, Treatment
from insitu.injectors.undo import Undo, UndoKind

Actuators = Mapping[type[Part], Actuator]


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """A group to be made, and the limits that guard the node in it.

    Attributes
    ----------
    limits
        All that were asked for; those of controllers that are not usable here are skipped.
    """

    plan: cgroups.GroupPlan
    limits: tuple[Setting, ...]

    @property
    def in_force(self) -> tuple[Setting, ...]:
        """Limits that are written."""
        return tuple(setting for setting in self.limits if setting.controller in self.plan.directories)

    @property
    def undos(self) -> tuple[Undo, ...]:
        """What removes it: that of a disk's throttle first, for which the members of all may have to wait."""
        throttle = self.plan.directories.get("io")
        paths = sorted(self.plan.paths, key=lambda path: path != throttle)
        return tuple(Undo(UndoKind.CGROUP, str(path)) for path in paths)

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to write a 0 to, to join every group."""
        return tuple(f"{path}/cgroup.procs" for path in self.plan.paths)

    def serves_as(self, wanted: GroupSteps) -> bool:
        """Whether it can stand in for another: the same limits, and no controller less."""
        return self.limits == wanted.limits and wanted.plan.directories.keys() <= self.plan.directories.keys()

    def lines(self) -> tuple[str, ...]:
        """In words, in its order."""
        copied = (f"{file} = {text}" for file, text in cgroups.inherited(self.plan))
        return (*(f"mkdir {path}" for path in self.plan.paths), *copied, *writes(self.in_force, self.plan))


@dataclass(frozen=True, slots=True)
class HoldSteps:
    """Everything about the interventions of one trial.

    Attributes
    ----------
    name
        Of the trial's group and of all that is made beside it; carries the run's mark.
    folders
        That the caller makes; deleted at the end with all that is in them.
    """

    name: str
    group: GroupSteps
    treatment: Treatment
    folders: tuple[Path, ...]
    actuators: Actuators

    def lines(self) -> tuple[str, ...]:
        """What brings the levels about once the group stands, in words, in its order."""
        parts = (line for part in self.treatment.parts for line in self._actuator(part).describe(part, self.name))
        values = (f"{value.path} = {value.text}" for value in self.treatment.host_values)
        return (*writes(self.treatment.settings, self.group.plan), *values, *parts)

    @property
    def undos(self) -> tuple[Undo, ...]:
        """What puts everything back but values of the host, whose prior text is not known yet."""
        parts = (undo for part in self.treatment.parts for undo in self._actuator(part).undos(part, self.name))
        folders = (Undo(UndoKind.FOLDER, str(path)) for path in self.folders)
        return (*parts, *self.group.undos, *folders)

    def _actuator(self, part: Part) -> Actuator:
        return self.actuators[type(part)]


def plan_group(node: Node, name: str, controllers: Sequence[str], limits: Sequence[Setting]) -> GroupSteps:
    """What making a group takes, with those of `controllers` that the node has."""
    return GroupSteps(cgroups.plan_group(node.hierarchies, name, controllers), tuple(limits))


def writes(settings: Sequence[Setting], plan: cgroups.GroupPlan) -> tuple[str, ...]:
    """Writes to control files, in words."""
    return tuple(f"{plan.file_of(setting)} = {setting.text}" for setting in settings)
