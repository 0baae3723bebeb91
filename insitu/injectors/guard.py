"""The guard: a small process per node that undoes everything when whoever ran trials is gone.

Two things end the lease: end of file on its pipe (the agent ended), and the end of the owner (the process
that the user started, found by pid and start time). It is started twice removed from the agent, so that
nobody who cleans up the agent's children ends it, too.

Run as ``python -m insitu.injectors.guard``; imports nothing beyond the standard library and this package.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors import recovery
from insitu.injectors.undo import start_time

LEASE_S = 1.0
"""How long the end of a lease may go unnoticed; everything is undone one second later at the latest."""
_FAREWELL = b"q"
_AGENT_S = 30.0
"""How long an agent may outlive its owner; ray ends it within a second or two."""


def watch(pipe: int, journal: Path, owner_pid: int, owner_start: str) -> None:
    """Wait for the end of the lease, then undo what the journal holds; return at once on a farewell."""
    owner = _open_owner(owner_pid, owner_start)
    poller = select.poll()
    poller.register(pipe, select.POLLIN | select.POLLHUP)
    if owner is not None:
        poller.register(owner, select.POLLIN)
    while owner is not None:
        ready = {descriptor for descriptor, _ in poller.poll(int(LEASE_S * 1000))}
        if owner in ready:
            _outlive_agent(pipe, journal)
            break
        if pipe in ready:
            words = os.read(pipe, 4096)
            if not words:
                break
            if _FAREWELL in words:
                return
        if start_time(owner_pid) != owner_start:
            break
    _undo(journal)


def _outlive_agent(pipe: int, journal: Path) -> None:
    """The owner is gone, but its agent may not have noticed: undo now, and wait for the agent's end.

    Until then it may write another intent, which the journal must still be there for.
    """
    poller = select.poll()
    poller.register(pipe, select.POLLIN | select.POLLHUP)
    deadline = time.monotonic() + _AGENT_S
    while time.monotonic() < deadline:
        recovery.recover_journal(journal, even_if_alive=True, keep=True)
        if poller.poll(100) and not os.read(pipe, 4096):
            return


def _open_owner(pid: int, started: str) -> int | None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    return descriptor if start_time(pid) == started else None


def _undo(journal: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        outcome = recovery.recover_journal(journal, even_if_alive=True)
        if not outcome.failures and not outcome.in_use:
            break
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Lease:
    """The agent's end of a guard; a context manager that says farewell.

    Attributes
    ----------
    pipe
        Write end; its closing by the kernel is what the guard waits for.
    """

    pipe: int

    def alive(self) -> bool:
        """Whether the guard still listens."""
        poller = select.poll()
        poller.register(self.pipe, 0)  # POLLERR comes unasked, when the read end is closed
        return not poller.poll(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            os.write(self.pipe, _FAREWELL)
        except BrokenPipeError:
            pass
        finally:
            os.close(self.pipe)


def start(journal: Path, owner_pid: int, owner_start: str) -> Lease:
    """Start a guard for a journal."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    command = [sys.executable, "-m", __name__, str(theirs), str(journal), str(owner_pid), owner_start]
    try:
        subprocess.run(
            command,
            pass_fds=(theirs,),
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PATH": os.defpath,
                "INSITU_STATE": str(journal.parent),
            },
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Lease(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipe", type=int)
    parser.add_argument("journal", type=Path)
    parser.add_argument("owner_pid", type=int)
    parser.add_argument("owner_start")
    chosen = parser.parse_args()
    if os.fork():
        os._exit(0)  # the agent waits for this one; the guard itself becomes a child of process 1
    os.setsid()
    with open(os.devnull, "r+b") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    watch(chosen.pipe, chosen.journal, chosen.owner_pid, chosen.owner_start)


if __name__ == "__main__":
    main()
