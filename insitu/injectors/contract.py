"""What an injector is: the types that it takes and gives, and the protocol that it follows.

An injector never touches the kernel itself. It answers with data (`Treatment`), and `lifecycle` does the
rest, the same way for all: check, snapshot, journal, apply, read back, undo, verify.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from insitu.injectors.demand import Demand
from insitu.injectors.errors import NotSettable
from insitu.injectors.options import Option, Options

if TYPE_CHECKING:
    import numpy as np

    from insitu.injectors.cgroups import Hierarchies
    from insitu.injectors.cpufreq import FrequencyPolicy

Samples: TypeAlias = "Mapping[str, np.ndarray]"
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
class Ceiling:
    """What a group that this process is in allows; the trial's own group is not to go beyond it.

    Attributes
    ----------
    level
        Base units of the variable.
    file, text
        Where it stands, and how.
    """

    level: float
    file: str
    text: str


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
    line_remedy
        What would let it be used.
    """

    problem: str = "it was not examined"
    remedy: str = "insitu doctor"
    netem_problem: str = ""
    line_problem: str = ""
    line_remedy: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """What injectors need to know of the machine; `insitu.injectors.node.survey` fills it.

    Attributes
    ----------
    name
        As plans call the machine.
    cpus
        Processors that the subject may use.
    device
        Whole-disk device under the scratch folder, ``None`` where there is none (tmpfs, overlay, network).
    device_problem
        Why `device` is ``None``.
    processors
        Numbers of the processors, in the order in which a subject that may use only some of them gets them.
    ceilings
        Variable to what the groups above allow of it; those that nothing limits are absent.
    memory_bytes
        Physical memory.
    swap_accounted
        Whether the memory controller counts swap, too.
    synchronous_problem
        Why writes below the scratch folder cannot be made synchronous; empty if they can.
    frequencies
        Frequency domains of these processors.
    """

    cpus: int
    privileged: bool
    hierarchies: Hierarchies
    device: Device | None
    device_problem: str = ""
    name: str = ""
    processors: tuple[int, ...] = ()
    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    swap_accounted: bool = False
    synchronous_problem: str = ""
    memory_bytes: float = 1e15
    network: Network = Network()
    frequencies: tuple[FrequencyPolicy, ...] = ()


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
    step
        Levels are whole multiples of it; 0 if any will do.
    levels
        The only levels between them that there are; empty if all.
    ceiling
        The group above that `high` is due to.
    """

    variable: str
    unit: str
    mechanism: str
    low: float
    high: float
    weaker: bool = False
    reason: str = ""
    remedy: str = ""
    step: float = 0.0
    levels: tuple[float, ...] = ()
    ceiling: Ceiling | None = None

    @property
    def settable(self) -> bool:
        return bool(self.mechanism)

    def capped(self, node: Node) -> Capability:
        """The same, within what the groups above allow."""
        ceiling = node.ceilings.get(self.variable)
        if ceiling is None or ceiling.level >= self.high:
            return self
        levels = tuple(level for level in self.levels if level <= ceiling.level)
        return replace(self, high=ceiling.level, levels=levels, ceiling=ceiling)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in one control file of the trial's own cgroup.

    Attributes
    ----------
    controller
        Whose directory the file is in: ``cpu``, ``io``, ...
    reads_back
        Words that a line of the file must then have, in this order; empty if those of the text itself.
    reads_back_in
        The file that must contain it, where the kernel says in another what it made of the text.
    """

    controller: str
    file: str
    text: str
    reads_back: str = ""
    reads_back_in: str = ""


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

    A plan must allow it, since everything else on the host feels it.

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
    """A number in a file, sampled while the subject runs.

    Attributes
    ----------
    column
        Name of the samples' column.
    path
        Absolute, or relative to the directory of `controller` in the trial's own group.
    scale
        Factor from the number in the file to base units.
    key
        The word before the number, in a file of several; empty where the file holds one number alone.
    """

    column: str
    path: str
    controller: str = ""
    scale: float = 1.0
    key: str = ""


@dataclass(frozen=True, slots=True)
class Achieved:
    """What the subject really got.

    Attributes
    ----------
    level
        Base units; ``None`` where the resource was not in use, or where a cap bound and nothing tells what it
        came to.
    bound_share
        Part of the trial in which the cap bound; 1 for what is not a cap.
    uncertainty
        Half width of what the samples can resolve.
    starved
        The subject wanted its share and others had it; or the level was in force, and could not be measured.
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
        The level that asks for nothing: infinity for a cap, 0 for what is added, ``None`` where every level asks
        for something.
    words
        Levels that have a name in plans.
    options
        What a plan may say about how, beside the level.
    """

    variable: ClassVar[str]
    unit: ClassVar[str]
    tolerance: ClassVar[float]
    least_tolerance: ClassVar[float] = 0.0
    controllers: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[float | None] = math.inf
    words: ClassVar[Mapping[str, float]] = MappingProxyType({})
    options: ClassVar[tuple[Option, ...]] = ()

    def configured(self, options: Options) -> Injector:
        """This injector with a plan's options, each one that it declares."""
        if options:
            raise ValueError(f"{self.variable} has no options")
        return self

    def capability(self, node: Node) -> Capability:
        """What `node` can do; changes nothing."""
        ...

    def treatment(self, level: float, node: Node) -> Treatment:
        """How to bring about `level`; pure. Also asked for `rest`: whatever a plan's trials must have alike."""
        ...

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """The achieved level; `level` is `rest` where nothing was asked for. Pure."""
        ...

    def demand(self, level: float) -> Demand:
        """The most that `level` takes of the node, asked before anything runs; nothing for most caps."""
        return Demand()

    def preparation_s(self, level: float) -> float:
        """The most time that `level` takes to be brought about, where that is more than a moment."""
        return 0.0

    def probes(self, node: Node) -> tuple[Probe, ...]:
        """Columns that `achieved` needs beyond those that every trial has."""
        return ()


RUN_ID = "[0-9a-f]{8}"
"""Pattern of the ids that runs get: what is named otherwise after the mark is somebody else's."""


def new_run_id() -> str:
    """An id for a run."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The mark that everything of ours carries: a name that starts with ``insitu-<run>``."""

    run: str
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"insitu-{self.run}")

    def owns(self, path: Path | str) -> bool:
        """Whether the last part of a path carries the mark."""
        name = os.path.basename(os.fspath(path).rstrip("/"))
        return name == self.prefix or name.startswith(self.prefix + "-")
