"""What the agent and the sandboxes say to each other: one JSON document per packet of a local socket."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import get_args

LARGEST_PACKET = 1 << 20


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Stop and continue everything in the sandbox, on a fixed schedule that knows nothing of the outcome.

    Attributes
    ----------
    period_s
        Length of one cycle.
    share
        Part of it in which the processes may run, 0 to 1.
    cpus
        How many processors they may use meanwhile.
    """

    period_s: float
    share: float
    cpus: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every sandbox of one launcher shares, known before any program is.

    Attributes
    ----------
    stage
        An existing empty folder that the view is built on; covered only inside the sandbox.
    writable
        The folder in which trials make their scratch folder: shown as it is, so later entries appear.
    readable
        The folder with the run's data, shown read-only.
    private_bytes
        Size of the tmpfs that takes writes elsewhere.
    unprivileged
        Whether the sandbox needs a user namespace of its own.
    """

    stage: str
    writable: str
    readable: str
    private_bytes: int
    unprivileged: bool


@dataclass(frozen=True, slots=True)
class MakeReady:
    """Build the next sandbox now, and join its control groups: on version 1 that can take a grace period.

    Attributes
    ----------
    cgroup_files
        ``cgroup.procs`` files to write a 0 to.
    """

    cgroup_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """See that the sandbox which is ready shows the host as it is now, and answer with `Confirmed`.

    What is given to its namespaces afterwards stays until its launch.
    """


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The sandbox that is ready; `init` is its process 1, as the host counts."""

    init: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One program to run in the sandbox that is ready.

    Attributes
    ----------
    folder
        Working folder, inside the writable one.
    stdout
        File that takes standard output, inside the writable folder; empty for none.
    stderr
        File outside the sandbox that takes standard error.
    file_bytes
        Largest file that the program may write (RLIMIT_FSIZE).
    processes
        Most processes at once, where no pids cgroup holds them (RLIMIT_NPROC of the user namespace).
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    stdout: str
    stderr: str
    file_bytes: int
    processes: int
    duty_cycle: DutyCycle | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A sandbox has taken the launch; `init` is its process 1, as the host counts."""

    init: int


@dataclass(frozen=True, slots=True)
class Started:
    """The program has been executed; `at` is on the monotonic clock."""

    at: float


@dataclass(frozen=True, slots=True)
class Exited:
    """The program has ended.

    Attributes
    ----------
    status
        Exit status as a shell counts it: 128 plus the signal's number after a signal.
    wall_s
        From just before exec until its end.
    usage
        Resource use of it and of the children it waited for (getrusage names, seconds and counts).
    running_s
        Time in which a duty cycle let the processes run; the whole time without one.
    """

    status: int
    wall_s: float
    usage: dict[str, float]
    running_s: float


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The program could not be executed; `missing` says that the command itself was not found."""

    reason: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Reaped:
    """The sandbox is gone: its process 1 has been waited for."""


Message = MakeReady | Confirm | Confirmed | Launch | Launched | Started | Exited | NotStarted | Reaped
_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """A message as one packet."""
    return json.dumps([type(message).__name__, asdict(message)]).encode()


def decode(packet: bytes) -> Message:
    """Undo `encode`."""
    name, fields = json.loads(packet)
    if name == "Launch":
        cycle = fields["duty_cycle"]
        fields["command"] = tuple(fields["command"])
        fields["duty_cycle"] = DutyCycle(**cycle) if cycle else None
    if name == "MakeReady":
        fields["cgroup_files"] = tuple(fields["cgroup_files"])
    message: Message = _KINDS[name](**fields)
    return message


def send(connection: socket.socket, message: Message) -> None:
    """Write one message; raises `OSError` when the other side is gone."""
    connection.send(encode(message))


def receive(connection: socket.socket) -> Message | None:
    """Read one message, or ``None`` when the other side is gone."""
    packet = connection.recv(LARGEST_PACKET)
    return decode(packet) if packet else None
