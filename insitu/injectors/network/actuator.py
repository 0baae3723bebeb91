"""Links, brought about for the agent: a server is started for the first trial that needs one, and kept."""

from __future__ import annotations

import math
import os
import select
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from insitu.injectors.actuator import Host, InForce
from insitu.injectors.contract import Part
from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.journal import Journal
from insitu.injectors.network import protocol
from insitu.injectors.network.gauges import Gauges
from insitu.injectors.network.in_force import LinkInForce
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Netlink
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind, carry_out

_LONGEST_NAME = 15
"""What the kernel takes for an interface."""
_PATIENCE_S = 20.0


class LinkActuator:
    """Keeps the server of links; a context manager that ends it.

    Everything about a link is bound to the trial's gateway, which ends with the server, as that does with the
    agent; the journal has the server, for the case that it hangs.
    """

    part: type[Part] = Link

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._server: _Server | None = None

    def describe(self, part: Part, name: str) -> tuple[str, ...]:
        assert isinstance(part, Link)
        device = interface_name(name)
        if part.by_line:
            lines = [f"ip -n {end} tuntap add {device} mode tun" for end in ("SUBJECT", "GATEWAY")]
        else:
            lines = [f"ip -n GATEWAY link add {device} type veth peer {device} netns SUBJECT"]
        for end, rate in (("SUBJECT", part.rate_out), ("GATEWAY", part.rate_in)):
            if rate is not None and math.isfinite(rate):
                lines.append(f"tc -n {end} class add dev {device} classid 1:1 htb rate {rate * 8:.0f}bit")
        if part.alters_packets:
            means = "delay line" if part.by_line else "netem"
            delay, jitter, loss = (value or 0.0 for value in (part.delay, part.jitter, part.loss))
            lines.append(f"{means}: delay {delay:g} s, jitter {jitter:g} s, loss {loss:g}")
        return tuple(lines)

    def undos(self, part: Part, name: str) -> tuple[Undo, ...]:
        return ()

    @contextmanager
    def hold(self, part: Part, name: str, host: Host) -> Iterator[InForce]:
        assert isinstance(part, Link)
        if self._server is None:
            self._server = _Server(self.journal)
        server = self._server
        try:
            seed = zlib.crc32(name.encode())
            with server.link(protocol.Make(host.init, interface_name(name), part, seed)) as (
                subject,
                gateway,
                gauges,
            ):
                yield LinkInForce(part, subject, gateway, gauges)
        except (OSError, _ServerGone) as exc:
            self.close()
            raise InjectorError(f"the network link was lost: {exc}", "insitu resume RUN") from exc

    def close(self) -> None:
        """End the server, and every link with it."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def interface_name(name: str) -> str:
    """Name of a link's interfaces, with the run's mark as far as the kernel has room for it."""
    return name[:_LONGEST_NAME]


class _ServerGone(Exception):
    """The server does not answer."""


class _Server:
    """A server process, journalled before it is told to make anything."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        package = __package__ or ""
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{package}.server", str(theirs.fileno()), journal.header.ownership.prefix],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.defpath},
                start_new_session=True,
            )
        self._connection = ours
        pid = self._process.pid
        self._undo = Undo(UndoKind.PROCESS, f"/proc/{pid}", start_time(pid))
        self._intent = journal.intend([self._undo])

    @contextmanager
    def link(self, order: protocol.Make) -> Iterator[tuple[Netlink, Netlink, Gauges | None]]:
        """Make a link; gives sockets that can ask about its ends, the subject's first, and its gauges."""
        protocol.send(self._connection, order)
        answer, files = self._receive()
        ends = [Netlink(descriptor=file) for file in files[:2]]
        gauges = Gauges(files[2]) if len(files) > 2 else None
        early = ""
        try:
            if isinstance(answer, protocol.Refused):
                kind = ForeignState if answer.foreign else InjectorError
                raise kind(answer.message, answer.remedy)
            if not isinstance(answer, protocol.Made):
                raise _ServerGone("the server of links answered out of turn")
            yield ends[0], ends[1], gauges
        finally:
            for one in (*ends, gauges):
                if one is not None:
                    one.close()
            early = self._end_link()
        if early:
            raise _ServerGone(early)

    def _end_link(self) -> str:
        protocol.send(self._connection, protocol.End())
        answer, _ = self._receive()
        if not isinstance(answer, protocol.Ended):
            raise _ServerGone("the server of links answered out of turn")
        return answer.early

    def _receive(self) -> tuple[protocol.Message, tuple[int, ...]]:
        readable, _, _ = select.select([self._connection], [], [], _PATIENCE_S)
        message, files = protocol.receive(self._connection) if readable else (None, ())
        if message is None:
            raise _ServerGone("the server of links does not answer")
        return message, files

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        carry_out(self._undo, self._journal.header.ownership)
        self._journal.done(self._intent)
