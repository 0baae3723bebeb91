"""Starts sandboxes, one at a time, for the agent at the other end of a local socket.

A process of its own because a fork copies the page tables of its parent: from here it takes a fraction of
what it takes from an agent that has ray and its threads loaded. The next sandbox can be made ready between
trials, so that a trial waits for little more than the exec. The launcher ends when the socket is closed, and
every sandbox ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass

from . import filesystem, init, kernel, protocol

_NAMESPACES = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A sandbox that waits for its launch."""

    pid: int
    orders: socket.socket
    mount_table: bytes
    cgroup_files: tuple[str, ...]


class _Maker:
    """Makes sandboxes ready; surveys the host's mounts anew whenever they have changed."""

    def __init__(self, agent: socket.socket, surroundings: protocol.Surroundings) -> None:
        self._agent = agent
        self._surroundings = surroundings
        self._mount_table = b""
        self._carried: tuple[filesystem.Carried, ...] = ()

    def make(self, cgroup_files: tuple[str, ...]) -> _Ready:
        """Clone process 1 of a new sandbox; raises `OSError` if the kernel refuses."""
        if (current := mount_table()) != self._mount_table:
            self._carried = filesystem.survey(self._surroundings.unprivileged)
            self._mount_table = current
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        try:
            pid = kernel.clone(_NAMESPACES | (kernel.CLONE_NEWUSER if self._surroundings.unprivileged else 0))
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            ours.close()
            init.main(self._agent, theirs, self._surroundings, cgroup_files, self._carried, parent)
        theirs.close()
        return _Ready(pid, ours, self._mount_table, cgroup_files)


def mount_table() -> bytes:
    """The host's mounts as this process sees them."""
    with open("/proc/self/mountinfo", "rb") as table:
        return table.read()


def serve(agent: socket.socket, surroundings: protocol.Surroundings) -> None:
    """Start what the agent asks for until it closes the socket."""
    maker = _Maker(agent, surroundings)
    ready: _Ready | None = None
    problem = "nothing was made ready"
    confirmed = False
    while (message := protocol.receive(agent)) is not None:
        if isinstance(message, protocol.MakeReady):
            if ready is not None:
                _discard(ready)
            ready, problem = _try(maker, message.cgroup_files)
            confirmed = False
        elif isinstance(message, protocol.Confirm | protocol.Launch):
            if ready is not None and not confirmed and ready.mount_table != mount_table():
                _discard(ready)
                ready, problem = _try(maker, ready.cgroup_files)
            if isinstance(message, protocol.Confirm):
                confirmed = ready is not None
                answer = protocol.NotStarted(problem) if ready is None else protocol.Confirmed(ready.pid)
                protocol.send(agent, answer)
                continue
            confirmed = False
            if ready is None:
                protocol.send(agent, protocol.NotStarted(problem))
            else:
                _see_through(agent, ready, message)
            ready, problem = None, "nothing was made ready"
            protocol.send(agent, protocol.Reaped())


def _try(maker: _Maker, cgroup_files: tuple[str, ...]) -> tuple[_Ready | None, str]:
    try:
        return maker.make(cgroup_files), ""
    except OSError as exc:
        return None, f"no sandbox: {exc}"


def _see_through(agent: socket.socket, ready: _Ready, launch: protocol.Launch) -> None:
    """Hand the launch over with the file that is out of the sandbox's sight, and wait for its end."""
    try:
        stderr = os.open(launch.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            protocol.send(agent, protocol.Launched(ready.pid))
            with ready.orders:
                socket.send_fds(ready.orders, [protocol.encode(launch)], [stderr])
        finally:
            os.close(stderr)
    except OSError as exc:
        os.kill(ready.pid, signal.SIGKILL)
        protocol.send(agent, protocol.NotStarted(str(exc)))
    os.waitpid(ready.pid, 0)


def _discard(ready: _Ready) -> None:
    ready.orders.close()
    with contextlib.suppress(ProcessLookupError):
        os.kill(ready.pid, signal.SIGKILL)
    os.waitpid(ready.pid, 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)  # it came by inheritance; a subject must not speak for its process 1
        serve(connection, protocol.Surroundings(**json.loads(sys.argv[2])))
