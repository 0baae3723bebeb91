"""A link for a process in fresh namespaces, and programs that run at its end of it.

Standard library only: also run as ``python -m tests.injectors.network.linked SCRIPT`` by an ordinary user, where
`link` makes a link and executes a script in it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from insitu.injectors.network import namespaces, protocol, server, support
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Netlink

NAME = f"insitu-t{os.getpid()}"[:15]


@dataclass(frozen=True, slots=True)
class Linked:
    """A subject's end of a link: `init` is in its namespaces; the sockets ask about both ends."""

    init: int
    subject: Netlink
    gateway: Netlink

    def run(self, script: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Execute a Python script there; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            preexec_fn=self.enter,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def enter(self) -> None:
        """Move the calling process there."""
        user = os.open(f"/proc/{self.init}/ns/user", os.O_RDONLY)
        network = os.open(f"/proc/{self.init}/ns/net", os.O_RDONLY)
        if not namespaces.is_own(user, "user"):
            namespaces.enter(user, namespaces.CLONE_NEWUSER)
        namespaces.enter(network, namespaces.CLONE_NEWNET)


@contextmanager
def serving(*, cut_off: bool = False) -> Iterator[socket.socket]:
    """A server of links in a forked process; gives the agent's end of its socket.

    With `cut_off`, on a host that has no network at all.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            if cut_off:
                namespaces.leave(namespaces.CLONE_NEWNET)
            server.serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        os.waitpid(pid, 0)


def ask(connection: socket.socket, message: protocol.Message) -> tuple[protocol.Message, tuple[int, ...]]:
    """Send a message and wait for the answer."""
    protocol.send(connection, message)
    assert select.select([connection], [], [], 20)[0], "no answer from the server of links"
    answer, files = protocol.receive(connection)
    assert answer is not None, "the server of links ended"
    return answer, files


@contextmanager
def linked(link: Link | None = None, name: str = NAME, *, cut_off: bool = False) -> Iterator[Linked]:
    """A link for nobody in particular."""
    with support.nobody() as init, serving(cut_off=cut_off) as connection:
        answer, files = ask(connection, protocol.Make(init, name, link or Link()))
        assert isinstance(answer, protocol.Made), answer
        with Netlink(descriptor=files[0]) as subject, Netlink(descriptor=files[1]) as gateway:
            yield Linked(init, subject, gateway)
        ended, _ = ask(connection, protocol.End())
        assert ended == protocol.Ended()


if __name__ == "__main__":
    signal.alarm(60)
    with linked(Link(**json.loads(sys.argv[2]))) as here:
        sys.stdout.write(here.run(sys.argv[1], *sys.argv[3:]))
