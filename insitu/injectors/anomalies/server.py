"""The load server: a warm process that forks workers, so that a trial waits for a fork and not for imports.

Run by `client` as ``python -m insitu.injectors.anomalies.server DESCRIPTOR``. It ends when the agent closes the
socket. Of each load it forks a *leader*, which joins the control groups (a wait of milliseconds per hierarchy on
version 1, so only once) and forks the workers. Leader and workers end with their parent (parent-death signal),
and when a kernel timer of their own runs out, with the signal's default action: nobody needs to be alive for that.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from insitu.injectors.anomalies.order import LONGEST_ORDER, StartLoad
from insitu.injectors.anomalies.process import die_with_parent, end_after
from insitu.injectors.anomalies.worker import Ends, work


def serve(agent: socket.socket) -> None:
    """Start loads until the agent is gone; they end with this process."""
    leaders: dict[int, int] = {}  # pidfd to pid
    poller = select.poll()
    poller.register(agent, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor in leaders:
                poller.unregister(descriptor)
                os.close(descriptor)
                os.waitpid(leaders.pop(descriptor), 0)
                continue
            text, descriptors, _, _ = socket.recv_fds(agent, LONGEST_ORDER, 3)
            if not text:
                return
            ends = Ends(*descriptors)
            pid = _fork(lambda text=text, ends=ends: _lead(StartLoad.decode(text), ends, agent))  # type: ignore[misc]
            ends.close()
            pidfd = os.pidfd_open(pid)
            leaders[pidfd] = pid
            poller.register(pidfd, select.POLLIN)


def _lead(order: StartLoad, ends: Ends, agent: socket.socket) -> None:
    """Join the control groups, fork the workers, and collect them when they end."""
    agent.close()
    end_after(order.deadline_s)
    path = ""
    try:
        for path in order.join_files:
            with open(path, "w", encoding="ascii") as file:
                file.write("0")
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # what is added goes first when memory runs out
    except OSError as exc:
        ends.refuse(f"cannot join {path}: {exc.strerror}")
        return
    for index in range(order.load.workers):
        _fork(lambda index=index: work(order, ends, index))  # type: ignore[misc]
    ends.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _fork(then: Callable[[], None]) -> int:
    """Fork a process that ends after `then`, or with this one."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        then()
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # nothing here makes cycles, and a worker must not pause
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as agent:
        agent.set_inheritable(False)
        serve(agent)


if __name__ == "__main__":
    main()
