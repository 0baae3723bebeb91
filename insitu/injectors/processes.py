"""Processes by pid and start time: a pid alone is used again, and is not to be trusted with a signal."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.errors import UndoFailed


def start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, empty if there is none or it has ended."""
    fields = _stat_fields(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def is_stopped(pid: int) -> bool:
    """Whether a signal or a tracer has stopped a process."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] in "Tt"


def _stat_fields(pid: int) -> list[str]:
    """What the kernel says of a process after its name, the state first; nothing if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this boot, never the one that got its pid later."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The one that has a pid now."""
        return cls(pid, start_time(pid))

    @classmethod
    def current(cls) -> Process:
        """The calling process."""
        return cls.of(os.getpid())

    def alive(self) -> bool:
        """Whether it still runs (or is stopped, but not ended)."""
        return bool(self.started) and start_time(self.pid) == self.started

    def open(self) -> int | None:
        """A pidfd of it, readable once it has ended; ``None`` if it has ended already.

        Raises
        ------
        OSError
            If the kernel cannot give one.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        except OSError as exc:
            if exc.errno == errno.EINVAL and not self.alive():
                return None  # reaped while the kernel (6.1, for one) looked it up: no leader of a group any more
            raise
        if self.alive():  # looked up after opening: now both speak of the same process
            return descriptor
        os.close(descriptor)
        return None

    def end(self, within_s: float = 2.0) -> None:
        """SIGKILL, and wait until it has ended; nothing if it has. Works on a stopped process, too.

        Raises
        ------
        UndoFailed
            If it belongs to another user, or has not ended in time (it waits for a device, or is frozen);
            it will not return to its own code.
        """
        descriptor = self.open()
        if descriptor is None:
            return
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            ended = bool(poller.poll(int(within_s * 1000)))
        except ProcessLookupError:
            return
        except PermissionError as exc:
            message = f"process {self.pid} belongs to another user"
            raise UndoFailed(message, "run insitu recover as that user") from exc
        finally:
            os.close(descriptor)
        if not ended:
            raise UndoFailed(f"process {self.pid} does not end", "insitu recover")


def all_pids() -> Iterator[int]:
    """Every process that can be seen from here."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def members(join_files: Sequence[str], init: int) -> list[int]:
    """Processes of a sandbox: those in its first control group, without any those from its process 1 down.

    Parameters
    ----------
    join_files
        The groups' ``cgroup.procs``.
    """
    if not join_files:
        return _with_descendants(init)
    try:
        return [int(line) for line in Path(join_files[0]).read_text().split()]
    except OSError:
        return []


def _with_descendants(pid: int) -> list[int]:
    found, pending = [], [pid]
    while pending:
        pid = pending.pop()
        with contextlib.suppress(OSError):  # it has ended
            # the kernel lists children by the thread that forked them
            for task in os.listdir(f"/proc/{pid}/task"):
                pending += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
            found.append(pid)
    return found


def command_of(pid: int) -> tuple[str, ...]:
    """Its command line, empty if it has ended."""
    return _words(pid, "cmdline")


def environment_of(pid: int) -> tuple[str, ...]:
    """The ``NAME=value`` texts that it was executed with; empty if it has ended or is another user's."""
    return _words(pid, "environ")


def _words(pid: int, file: str) -> tuple[str, ...]:
    try:
        content = Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in content.split(b"\0")[:-1])
