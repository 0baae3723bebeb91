"""Makes the links of a run's trials, one at a time, for the agent at the other end of a local socket.

Each is the work of a gateway, a process forked from this small one, which has everything loaded. The one that
waits takes the agent's order itself, since every process that passes it on costs half a millisecond. This process
stays in the host's network and makes the sockets by which a gateway reaches it. It ends when the agent's socket is
closed, and every gateway ends with it.

Run as ``python -m insitu.injectors.network.server SOCKET MARK``.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import NoReturn

from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.network import ends, host_view, memory, namespaces, protocol, tun
from insitu.injectors.network.gateway import Gateway, Order
from insitu.injectors.network.line import Line
from insitu.injectors.network.room import Room
from insitu.injectors.network.socket_table import Service

_LARGEST = 1 << 18
_SLOW_TO_CLOSE, _TUNS = b"s", b"t"
"""What a gateway gives to keep."""
_TOLD, _TOLD_BY_LINE, _DONE = b"o", b"l", b"d"
"""What a gateway says: it has its order, for a link without or with a delay line; nothing of its subject is under
way any more, and it may be ended."""
_LAST_WORDS_S = 1.0
"""How long what a subject sent before it ended may take to leave its link."""


@dataclass(slots=True)
class _Gateway:
    """A process that is, or waits to become, the gateway of one link.

    Attributes
    ----------
    talk
        By it the process asks for sockets of the host's network, and for what can be reached there.
    keepsakes
        Open files of its own that take the kernel a while to close; they are closed when nobody waits.
    tuns
        Those of its interfaces, if it has a delay line.
    told, by_line
        It has an order, and that is for a link with a delay line.
    over_by
        When it is ended, by the monotonic clock, even if something that its subject sent is under way; infinity
        until it is asked to end.
    gone
        It has ended by itself.
    """

    pid: int
    talk: socket.socket
    keepsakes: list[int] = field(default_factory=list)
    tuns: list[int] = field(default_factory=list)
    told: bool = False
    by_line: bool = False
    over_by: float = math.inf
    gone: bool = False


def serve(agent: socket.socket) -> None:
    """Make and end links until the agent closes the socket; keeps a process ready for the next one."""
    namespaces.adopt_orphans()
    gc.freeze()  # what is shared with the forked ones stays so
    gateway = _fork(agent, by_line=False)
    while _attend(gateway, agent):
        early = _end(gateway)
        asked = _is_asked_to_end(agent)
        if asked:
            protocol.send(agent, protocol.Ended(early))
        _close(gateway)
        if not asked:
            return
        gateway = _fork(agent, by_line=gateway.by_line)  # the trials of a run have the same variables
    _end(gateway)
    _close(gateway)


def _attend(gateway: _Gateway, agent: socket.socket) -> bool:
    """Give a gateway what it wishes until it has ended or may be; false if the agent has gone instead.

    In place the host's kernel goes on sending what a program wrote before it ended; a link ends with its gateway.
    So the gateway waits until that has left the link, unless it takes long.
    """
    poller = select.poll()
    poller.register(agent, 0)  # the order is for the gateway
    poller.register(gateway.talk, select.POLLIN)
    while not gateway.gone and (left_s := gateway.over_by - time.monotonic()) > 0:
        ready = dict(poller.poll(None if math.isinf(left_s) else left_s * 1e3))
        if gateway.talk.fileno() in ready:
            _grant(gateway)
            if gateway.told and math.isinf(gateway.over_by):
                poller.modify(agent, select.POLLIN)
        elif ready.get(agent.fileno(), 0) & select.POLLHUP:
            return False
        elif ready:  # the request to end, which the gateway sees, too
            gateway.over_by = time.monotonic() + _LAST_WORDS_S
            poller.modify(agent, 0)
    return True


def _is_asked_to_end(agent: socket.socket) -> bool:
    """Take the agent's request to end a link, whose gateway may have ended before; false if the agent has gone."""
    while isinstance(message := protocol.receive(agent)[0], protocol.Make):
        protocol.send(agent, protocol.Refused("the gateway ended before it was asked for", "insitu resume RUN"))
    return isinstance(message, protocol.End)


def _fork(agent: socket.socket, *, by_line: bool) -> _Gateway:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent, has_ipv6 = os.getpid(), host_view.has_ipv6()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_gateway(agent, theirs, parent, has_ipv6=has_ipv6, by_line=by_line)
    theirs.close()
    os.setpgid(pid, pid)  # with the delay line, if it starts one
    memory.own_pages()  # the fork has made each of them a shared one, here as there
    return _Gateway(pid, ours)


def _grant(gateway: _Gateway) -> None:
    """Do what a gateway asks for, or take what it gives to keep."""
    try:
        wish, files, _, _ = socket.recv_fds(gateway.talk, 8, 2)
    except ConnectionResetError:  # it has ended before it read everything
        wish, files = b"", []
    if wish == _DONE:
        gateway.over_by = time.monotonic()
    elif not wish:
        gateway.gone = True
    elif wish in (_TOLD, _TOLD_BY_LINE):
        gateway.told, gateway.by_line = True, wish == _TOLD_BY_LINE
        with contextlib.suppress(BrokenPipeError):  # it has refused already
            gateway.talk.send(pickle.dumps(host_view.services()))
    elif files:
        (gateway.tuns if wish == _TUNS else gateway.keepsakes).extend(files)
    else:
        try:
            with socket.socket(wish[0], wish[1]) as granted:
                socket.send_fds(gateway.talk, [b"+"], [granted.fileno()])
        except OSError as exc:  # out of files, most likely
            gateway.talk.send(bytes([(exc.errno or 0) & 0xFF]))


class _Wishes:
    """The gateway's side of `_grant`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def socket(self, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        self._connection.send(bytes([family, kind]))
        answer, files, _, _ = socket.recv_fds(self._connection, 1, 1)
        if not files:
            code = answer[0] if answer else 0
            raise OSError(code, os.strerror(code))
        return socket.socket(fileno=files[0])

    def services(self) -> tuple[Service, ...]:
        """What `told` has asked for."""
        found: tuple[Service, ...] = pickle.loads(self._connection.recv(_LARGEST))  # noqa: S301 - from the parent, by a pair of sockets of its own
        return found

    def told(self, *, by_line: bool) -> None:
        self._connection.send(_TOLD_BY_LINE if by_line else _TOLD)

    def done(self) -> None:
        self._connection.send(_DONE)

    def keep(self, what: bytes, *descriptors: int) -> None:
        socket.send_fds(self._connection, [what], descriptors)


def _be_gateway(
    agent: socket.socket,
    talk: socket.socket,
    parent: int,
    *,
    has_ipv6: bool,
    by_line: bool,
) -> NoReturn:
    try:
        os.setpgid(0, 0)  # here, too: whoever comes first
        namespaces.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        # an ordinary user's gateway must be in the user namespace of the subject, which is not there yet
        room = None
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):  # tried again, and reported, when a link is asked for
                room = Room.enter(has_ipv6=has_ipv6)
        ends.addressed(has_ipv6=has_ipv6), ends.acquainted(has_ipv6=has_ipv6)  # spelled before anybody waits
        waiting = Line() if by_line else None
        memory.own_pages()
        wanted, _ = protocol.receive(agent)
        if not isinstance(wanted, protocol.Make):
            os._exit(0)
        wishes = _Wishes(talk)
        wishes.told(by_line=wanted.link.by_line)
        order = Order(wanted.init, wanted.name, wanted.link, wanted.seed, has_ipv6)
        try:
            gateway = Gateway(order, room, wishes.socket, wishes.services, waiting)
            namespaces.die_with_parent()  # joining a user namespace has withdrawn it
            if os.getppid() != parent:
                os._exit(1)
        except (OSError, InjectorError) as exc:
            protocol.send(agent, _refusal(exc))
            os._exit(1)
        files = [gateway.ends.in_subject.fileno(), gateway.ends.room.netlink.fileno()]
        if gateway.gauges is not None:
            files.append(gateway.gauges.descriptor)
        protocol.send(agent, protocol.Made(), tuple(files))
        wishes.keep(_SLOW_TO_CLOSE, gateway.slow_to_close)
        if gateway.tuns:
            wishes.keep(_TUNS, *gateway.tuns)
        gateway.run(agent)
        wishes.done()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _refusal(problem: OSError | InjectorError) -> protocol.Refused:
    if isinstance(problem, InjectorError):
        return protocol.Refused(problem.message, problem.remedy, isinstance(problem, ForeignState))
    return protocol.Refused(f"the kernel refuses a network link: {problem}", "insitu doctor")


def _end(gateway: _Gateway) -> str:
    """End a gateway, and wait for it; gives how it ended if it had before it was asked to.

    Its subject's namespace is about to end, too. Where this process is killed instead, the kernel closes the
    files, and removes the interfaces with the last of them.
    """
    for descriptor in gateway.tuns:
        tun.leave_to_namespace(descriptor)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(gateway.pid, signal.SIGKILL)
    _, status = os.waitpid(gateway.pid, 0)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-gateway.pid, 0)
    if gateway.gone and math.isinf(gateway.over_by):
        return f"the gateway ended by itself (status {os.waitstatus_to_exitcode(status)})"
    return ""


def _close(gateway: _Gateway) -> None:
    gateway.talk.close()
    for descriptor in (*gateway.tuns, *gateway.keepsakes):
        os.close(descriptor)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)
        serve(connection)
