"""Makes the links of a run's trials, one at a time, for the agent at the other end of a local socket.

Each is the work of a gateway, a process forked from this small one, which has everything loaded. This process
stays in the host's network and makes the sockets by which a gateway reaches it. It ends when the socket is closed,
and every gateway ends with it.

Run as ``python -m insitu.injectors.network.server SOCKET MARK``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import NoReturn

from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.network import namespaces, protocol
from insitu.injectors.network.gateway import Gateway


@dataclass(frozen=True, slots=True)
class _Trial:
    """A gateway, and the socket by which it asks for sockets of the host's network."""

    pid: int
    wishes: socket.socket | None


def serve(agent: socket.socket) -> None:
    """Make and end links until the agent closes the socket."""
    trial: _Trial | None = None
    while True:
        wishes = trial.wishes if trial is not None else None
        readable, _, _ = select.select([agent] if wishes is None else [agent, wishes], [], [])
        if trial is not None and wishes is not None and wishes in readable and not _grant(wishes):
            wishes.close()  # it has ended; the agent will ask
            trial = _Trial(trial.pid, None)
        if agent in readable:
            message, _ = protocol.receive(agent)
            if message is None:
                break
            if isinstance(message, protocol.Make) and trial is None:
                trial = _begin(agent, message)
            elif isinstance(message, protocol.End):
                early = "" if trial is None else _end(trial)
                trial = None
                protocol.send(agent, protocol.Ended(early))
    if trial is not None:
        _end(trial)


def _grant(wishes: socket.socket) -> bool:
    """Make one socket and hand it over; gives whether anybody asked."""
    wish = wishes.recv(8)
    if not wish:
        return False
    try:
        with socket.socket(wish[0], wish[1]) as granted:
            socket.send_fds(wishes, [b"+"], [granted.fileno()])
    except OSError as exc:  # out of files, most likely
        wishes.send(bytes([(exc.errno or 0) & 0xFF]))
    return True


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


def _begin(agent: socket.socket, order: protocol.Make) -> _Trial:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_gateway(agent, order, _Wishes(theirs), parent)
    theirs.close()
    return _Trial(pid, ours)


def _be_gateway(agent: socket.socket, order: protocol.Make, wishes: _Wishes, parent: int) -> NoReturn:
    try:
        namespaces.die_with_parent()
        try:
            gateway = Gateway(order.init, order.name, order.link, wishes.socket)
            namespaces.die_with_parent()  # joining a user namespace has withdrawn it
            if os.getppid() != parent:
                os._exit(1)
        except (OSError, InjectorError) as exc:
            protocol.send(agent, _refusal(exc))
            os._exit(1)
        ends = gateway.sides.in_subject.fileno(), gateway.sides.in_gateway.fileno()
        protocol.send(agent, protocol.Made(), ends)
        agent.close()
        gateway.run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _refusal(problem: OSError | InjectorError) -> protocol.Refused:
    if isinstance(problem, InjectorError):
        return protocol.Refused(problem.message, problem.remedy, isinstance(problem, ForeignState))
    return protocol.Refused(f"the kernel refuses a network link: {problem}", "insitu doctor")


def _end(trial: _Trial) -> str:
    """End a gateway, wait for it, and give how it ended if it had before."""
    ended, status = os.waitpid(trial.pid, os.WNOHANG)
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(trial.pid, signal.SIGKILL)
        os.waitpid(trial.pid, 0)
    if trial.wishes is not None:
        trial.wishes.close()
    return f"the gateway ended by itself (status {os.waitstatus_to_exitcode(status)})" if ended else ""


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)
        serve(connection)
