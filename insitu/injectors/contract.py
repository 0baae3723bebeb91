"""What an injector is: the types that it takes and gives, and the protocol that it follows.

An injector never touches the kernel itself. It answers with data (`Treatment`), and `lifecycle` does the
rest, the same way for all: check, snapshot, journal, apply, read back, undo, verify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

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
class Treatment:
    """How one level is brought about: control-file settings, or a duty cycle."""

    settings: tuple[Setting, ...] = ()
    stop_and_go: StopAndGo | None = None


@dataclass(frozen=True, slots=True)
class Achieved:
    """What the subject really got.

    Attributes
    ----------
    level
        Base units; ``None`` where the resource was not in use.
    bound_share
        Part of the trial in which the cap bound.
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
    """Sets one variable.

    Attributes
    ----------
    variable, unit
        Name (``cpu.cores``) and base unit of the level.
    tolerance
        Largest relative deviation of the achieved from the requested level.
    controllers
        Cgroup controllers that the trial's group needs for setting or measuring it.
    """

    variable: ClassVar[str]
    unit: ClassVar[str]
    tolerance: ClassVar[float]
    controllers: ClassVar[tuple[str, ...]]

    def capability(self, node: Node) -> Capability:
        """What `node` can do; changes nothing."""
        ...

    def treatment(self, level: float, node: Node) -> Treatment:
        """How to bring about a finite `level`; pure."""
        ...

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """The achieved level; `level` is infinite where nothing was asked for. Pure."""
        ...


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
