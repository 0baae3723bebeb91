"""Executes the user's probe command while a trial runs, in a process of its own.

Process 1 of its own process namespace: whatever a probe leaves behind ends with it, and it ends when the
agent's end of the socket is closed, however that came about. It shares the agent's control groups, not the
subject's, and its file systems and network are the node's.

Run as ``python -m insitu.orchestrator.execution.conditions.prober SOCKET PROBE``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, replace

from insitu.orchestrator.execution.conditions.probing import Answer, Order, encode
from insitu.orchestrator.execution.sandbox import kernel
from insitu.orchestrator.plan.types import Probe
from insitu.orchestrator.printable import printable

_MOST_SAID = 2000


@dataclass(frozen=True, slots=True)
class _Running:
    """One execution of the probe; `said` is the read end of its stdout and stderr, `ends` readable at its end."""

    pid: int
    said: int
    ends: int
    deadline: float


class _Prober:
    """Probes on schedule while it is told to."""

    def __init__(self, connection: socket.socket, probe: Probe) -> None:
        self._connection = connection
        self._probe = probe
        self._round = 0
        self._next = math.inf
        self._running: _Running | None = None
        self._said = b""

    def serve(self) -> None:
        """Until the agent closes the socket."""
        while True:
            ready = self._wait()
            if self._connection.fileno() in ready and not self._obey():
                return
            now = time.monotonic()
            running = self._running
            if running is not None:
                if running.said in ready:
                    self._listen(running)
                if running.ends in ready:
                    self._conclude(running, _judge(running, self._drained(running)))
                elif now >= running.deadline:
                    self._conclude(running, f"the probe did not end within {self._probe.timeout_s:g} s")
            if self._running is None:
                _reap()
                if now >= self._next:
                    self._next = now + self._probe.every_s
                    self._start(now)

    def _wait(self) -> set[int]:
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        until = self._next
        if self._running is not None:
            until = self._running.deadline
            poller.register(self._running.ends, select.POLLIN)
            if self._running.said >= 0:
                poller.register(self._running.said, select.POLLIN)
        left_ms = None if math.isinf(until) else max(0, math.ceil((until - time.monotonic()) * 1000))
        return {descriptor for descriptor, _ in poller.poll(left_ms)}

    def _obey(self) -> bool:
        packet = self._connection.recv(1 << 16)
        if not packet:
            return False
        self._round = Order(**json.loads(packet)).number
        self._next = time.monotonic() if self._round else math.inf
        if self._running is not None:
            self._end(self._running)
        return True

    def _start(self, now: float) -> None:
        said, says = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(says, True)
        try:
            pid = os.posix_spawnp(
                self._probe.command[0],
                list(self._probe.command),
                {name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, says, 1),
                    (os.POSIX_SPAWN_DUP2, says, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as exc:
            os.close(said)
            why = os.strerror(exc.errno or 0)
            self._tell(f"the probe {self._probe.command[0]!r} cannot be executed: {why}")
            return
        finally:
            os.close(says)
        self._said = b""
        self._running = _Running(pid, said, os.pidfd_open(pid), now + self._probe.timeout_s)

    def _listen(self, running: _Running) -> bool:
        """Take in a part of what it said; false if there is no more now."""
        try:
            part = os.read(running.said, 1 << 16)
        except BlockingIOError:
            return False
        if not part and self._running is running:  # closed: nothing more to wait for
            os.close(running.said)
            self._running = replace(running, said=-1)
        self._said = (self._said + part)[-_MOST_SAID:]
        return bool(part)

    def _drained(self, running: _Running) -> str:
        current = self._running or running
        for _ in range(64):  # what it left running in the background may go on talking
            if current.said < 0 or not self._listen(current):
                break
        lines = self._said.decode(errors="replace").strip().splitlines()
        return printable(lines[-1][:300]) if lines else ""

    def _conclude(self, running: _Running, problem: str) -> None:
        self._tell(problem)
        self._end(self._running or running)

    def _tell(self, problem: str) -> None:
        with contextlib.suppress(OSError):  # the agent has not listened for long, or is gone
            self._connection.send(encode(Answer(self._round, problem)), socket.MSG_DONTWAIT)

    def _end(self, running: _Running) -> None:
        """End the probe and whatever it left behind: all other processes of this namespace."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        os.close(running.ends)
        if running.said >= 0:
            os.close(running.said)
        self._running = None


def _judge(running: _Running, said: str) -> str:
    _, status = os.waitpid(running.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return ""
    how = f"exit status {code}" if code > 0 else f"signal {-code}"
    return f"the probe ended with {how}: {said or 'it wrote nothing'}"


def _reap() -> None:
    """Wait for what was killed; one that the kernel cannot end yet, such as on a dead file server, is left."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    told = json.loads(sys.argv[2])
    probe = Probe(tuple(told["command"]), told["every_s"], told["timeout_s"])
    user, group = os.geteuid(), os.getegid()  # inside a fresh user namespace both read as *nobody*
    unprivileged = user != 0
    parent = os.getpid()
    pid = kernel.clone(kernel.CLONE_NEWPID | (kernel.CLONE_NEWUSER if unprivileged else 0))
    if pid:
        connection.close()
        os.waitpid(pid, 0)
        return
    kernel.die_with_parent()
    if os.getppid() not in (0, parent):  # 0: outside the namespace
        os._exit(1)
    if unprivileged:
        kernel.map_identity(user, group)
    _Prober(connection, probe).serve()


if __name__ == "__main__":
    main()
