"""Starts sandboxes, one at a time, for the agent at the other end of a local socket.

A process of its own because a fork copies the page tables of its parent: from here it takes a fraction of
what it takes from an agent that has ray and its threads loaded. It ends when the socket is closed, and every
sandbox ends with it.
"""

from __future__ import annotations

import os
import socket
import sys

from . import filesystem, init, kernel, protocol


def serve(connection: socket.socket) -> None:
    """Start what the agent asks for until it closes the socket."""
    namespaces = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET
    namespaces |= kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    own_pid = os.getpid()
    carried: tuple[filesystem.Carried, ...] = ()
    mount_table = b""
    with open("/proc/self/mountinfo", "rb", buffering=0) as table:
        while (launch := protocol.receive(connection)) is not None:
            if not isinstance(launch, protocol.Launch):
                continue
            table.seek(0)
            if (current := table.read(1 << 20)) != mount_table:
                carried, mount_table = filesystem.survey(launch.unprivileged), current
            try:
                pid = kernel.clone(namespaces | (kernel.CLONE_NEWUSER if launch.unprivileged else 0))
            except OSError as exc:
                protocol.send(connection, protocol.NotStarted(f"no sandbox: {exc}"))
                protocol.send(connection, protocol.Reaped())
                continue
            if pid == 0:
                init.main(connection, launch, carried, own_pid)
            os.waitpid(pid, 0)
            protocol.send(connection, protocol.Reaped())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as agent:
        agent.set_inheritable(False)  # it came by inheritance; a subject must not speak for its process 1
        serve(agent)
