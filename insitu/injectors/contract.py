"""What an injector is: the types that it takes and gives, and the protocol that it follows.

An injector never touches the kernel itself. It answers with data (`Treatment`), and `lifecycle` does the
rest, the same way for all: check, snapshot, journal, apply, read back, undo, verify.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

from insitu.injectors.errors import NotSettable

if TYPE_CHECKING:
    import numpy as np

    from insitu.injectors.cgroups import Hierarchies

    Samples = Mapping[str, np.ndarray]
    """Column to values over time, equally long; ``time_s`` counts from the subject's start."""


@dataclass(frozen=True, slots=True)
class Device:
    """A whole disk.

    Attributes
    ----------
    number
        ``major:minor`` as the kernel writes it.
    name
        Name under /sys/block.
    """

    number: str
    name: str


@dataclass(frozen=True, slots=True)
class Network:
    """What a machine can do about a subject's network.

    Attributes
    ----------
    problem, remedy
        Why no link can be made, and what would help; empty if one can.
    netem_problem
        Why the kernel's own delay cannot be used.
    line_problem
        Why the delay line, which takes its place, cannot be used.
    """

    problem: str = "it was not examined"
    remedy: str = "insitu doctor"
    netem_problem: str = ""
    line_problem: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """What injectors need to know of the machine; `insitu.injectors.node.survey` fills it.

    Attributes
    ----------
    cpus
        Processors that the subject may use.
    device
        Whole-disk device under the scratch folder, ``None`` where there is none (tmpfs, overlay, network).
    device_problem
        Why `device` is ``None``.
    """

    cpus: int
    privileged: bool
    hierarchies: Hierarchies
    device: Device | None
    device_problem: str = ""
    network: Network = Network()


@dataclass(frozen=True, slots=True)
class Capability:
    """What a node can do about one variable.

    Attributes
    ----------
    mechanism
        Name as it stands in records and reports; empty where the variable cannot be set.
    weaker
        Whether it is an approximation of the mechanism that root would get.
    reason, remedy
        Why it cannot be set (or only weakly), and the command that would change that.
    low, high
        Levels that can be asked for, inclusive, base units.
    """

    variable: str
    unit: str
    mechanism: str
    low: float
    high: float
    weaker: bool = False
    reason: str = ""
    remedy: str = ""

    @property
    def settable(self) -> bool:
        return bool(self.mechanism)

    def spell(self, level: float) -> str:
        """Write a level in the variable's unit."""
        return f"{level * _PER_BASE_UNIT.get(self.unit, 1.0):g} {self.unit}"

    @property
    def reach(self) -> str:
        """Which levels can be asked for, in the variable's unit."""
        return f"{self.low * _PER_BASE_UNIT.get(self.unit, 1.0):g} to {self.spell(self.high)}"


_PER_BASE_UNIT = {"bit/s": 8.0}
"""Units that are no base units; quantities are read and written with any unit elsewhere."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in one control file of the trial's own cgroup.

    Attributes
    ----------
    controller
        Whose directory the file is in: ``cpu``, ``io``, ...
    reads_back
        What the file must then contain (a line of it); empty if the text itself.
    """

    controller: str
    file: str
    text: str
    reads_back: str = ""


@dataclass(frozen=True, slots=True)
class StopAndGo:
    """A duty cycle by SIGSTOP and SIGCONT, held by process 1 of the sandbox.

    Attributes
    ----------
    share
        Part of each period in which the subject may run.
    cpus
        Processors that it may use meanwhile.
    """

    period_s: float
    share: float
    cpus: int


@dataclass(frozen=True, slots=True)
class HostValue:
    """One value of the whole host, in a file that outlives the trial: its prior text is journalled.

    Attributes
    ----------
    path
        Absolute.
    reads_back
        What the file must then contain; empty if the text itself.
    """

    path: str
    text: str
    reads_back: str = ""


class Part:
    """Base of what an actuator brings about: more than a value in a file. Subclasses are frozen dataclasses.

    Parts of one type meet in one: the interventions of a trial ask for one link, with a rate and a delay.
    """

    def joined(self, other: Part) -> Part:
        """Both at once; raises `NotSettable` if they contradict each other."""
        raise NotSettable(f"two variables ask for a {type(self).__name__} each")


@dataclass(frozen=True, slots=True)
class Treatment:
    """How one level is brought about; empty if nothing needs to be done.

    Attributes
    ----------
    settings
        In control files of the trial's own group.
    input_in_memory
        Share of the subject's input whose pages are in memory when it starts; ``None`` leaves it to the plan.
    synchronous_scratch
        Whether writes below the scratch folder go to the disk before they return.
    """

    settings: tuple[Setting, ...] = ()
    stop_and_go: StopAndGo | None = None
    host_values: tuple[HostValue, ...] = ()
    parts: tuple[Part, ...] = ()
    input_in_memory: float | None = None
    synchronous_scratch: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """A file that holds one number, sampled while the subject runs.

    Attributes
    ----------
    column
        Name of the samples' column.
    path
        Absolute, or relative to the directory of `controller` in the trial's own group.
    scale
        Factor from the number in the file to base units.
    """

    column: str
    path: str
    controller: str = ""
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Achieved:
    """What the subject really got.

    Attributes
    ----------
    level
        Base units; ``None`` where the resource was not in use.
    bound_share
        Part of the trial in which the cap bound; 1 for what is not a cap.
    uncertainty
        Half width of what the samples can resolve.
    starved
        The subject wanted its share and others had it.
    """

    level: float | None
    bound_share: float
    uncertainty: float
    starved: bool = False
    note: str = ""


class Injector(Protocol):
    """Sets one variable. Subclass it to inherit the defaults.

    Attributes
    ----------
    variable, unit
        Name (``cpu.cores``), and the unit that levels are shown in; as numbers they are in its base units.
    tolerance, least_tolerance
        Largest deviation of the achieved from the requested level: as a share of it, and in base units, which
        come on top.
    controllers
        Cgroup controllers that the trial's group needs for setting or measuring it.
    rest
        The level that asks for nothing: infinity for a cap, 0 for what is added.
    words
        Levels that have a name in plans.
    """

    variable: ClassVar[str]
    unit: ClassVar[str]
    tolerance: ClassVar[float]
    least_tolerance: ClassVar[float] = 0.0
    controllers: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[float] = math.inf
    words: ClassVar[Mapping[str, float]] = MappingProxyType({})

    def capability(self, node: Node) -> Capability:
        """What `node` can do; changes nothing."""
        ...

    def treatment(self, level: float, node: Node) -> Treatment:
        """How to bring about `level`; pure. Also asked for `rest`: whatever a plan's trials must have alike."""
        ...

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """The achieved level; `level` is `rest` where nothing was asked for. Pure."""
        ...

    def probes(self, node: Node) -> tuple[Probe, ...]:
        """Columns that `achieved` needs beyond those that every trial has."""
        return ()


@dataclass(frozen=True, slots=True)
class Ownership:
    """The mark that everything of ours carries: a name that starts with ``insitu-<run>``."""

    run: str
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"insitu-{self.run}")

    def owns(self, path: Path | str) -> bool:
        """Whether the last part of a path carries the mark."""
        name = Path(path).name
        return name == self.prefix or name.startswith(self.prefix + "-")
