"""The far end of one trial's link, and the relay from there to the host's network.

Runs in a process of its own, forked for the trial and ended with it. The subject's end of a pair of interfaces is
in its namespace, the other one in the gateway's; nothing leads from there to the host's network but sockets that
were made in the host's. So nothing of the host's configuration changes, and all of this ends with the process.
"""

from __future__ import annotations

import contextlib
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from insitu.injectors.network import addresses, shaping, socket_table
from insitu.injectors.network.datagrams import AT_ONCE, Flows, Peer, answering
from insitu.injectors.network.ends import Ends
from insitu.injectors.network.gauges import Gauges
from insitu.injectors.network.knocks import Doorkeeper, Wire
from insitu.injectors.network.line import Line
from insitu.injectors.network.link import Link
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.loopback import StandIns
from insitu.injectors.network.netlink import SOCKETS, Netlink
from insitu.injectors.network.packets import Address, Flow, Unreachable, datagram, unreachable
from insitu.injectors.network.probes import Probes
from insitu.injectors.network.room import Room, original_target, transparent
from insitu.injectors.network.socket_table import Service
from insitu.injectors.network.streams import Streams

_LARGEST = 1 << 16
_DATAGRAMS = (socket.AF_INET, socket.SOCK_DGRAM)

MakeSocket = Callable[[socket.AddressFamily, socket.SocketKind], socket.socket]


@dataclass(frozen=True, slots=True)
class Order:
    """A link to make.

    Attributes
    ----------
    init
        A process in the subject's namespaces.
    name
        Of the interfaces at both ends.
    seed
        Of what the delay line leaves to chance.
    has_ipv6
        Whether the host has an address of IPv6 that leads anywhere.
    """

    init: int
    name: str
    link: Link
    seed: int
    has_ipv6: bool


class Gateway:
    """A link that stands, and the relay behind it.

    Parameters
    ----------
    room
        One that the caller is in; ``None`` if it has none yet.
    host_socket
        Makes a socket in the host's network.
    host_services
        Gives what can be reached through the host's loopback; asked for late, since it takes a while to find.
    waiting
        A process that can become the delay line, if there is one yet.

    Raises
    ------
    OSError
        If the kernel refuses a part of it.

    Attributes
    ----------
    gauges
        What is measured of the packets' way, if a variable alters it.
    slow_to_close
        An open file on which the kernel waits for a grace period when it is closed.
    tuns
        Open files of the interfaces that the delay line connects, the subject's first.
    """

    def __init__(
        self,
        order: Order,
        room: Room | None,
        host_socket: MakeSocket,
        host_services: Callable[[], tuple[Service, ...]],
        waiting: Line | None = None,
    ) -> None:
        self.ends = ends = Ends.of(order.init, room, has_ipv6=order.has_ipv6)
        self._host_socket = host_socket
        self._loop = Loop()
        self.gauges = Gauges() if order.link.alters_packets else None
        self.tuns: tuple[int, int] | None = None
        self._line: int | None = None
        if order.link.alters_packets and order.link.by_line:
            self.tuns = ends.connect_by_line(order.name, order.link)
        else:
            ends.connect_directly(order.name, order.link)
        shaping.shape(ends.in_subject, ends.room.netlink, order.link)
        self._relay(order.name, host_services())
        if self.gauges is not None and self.tuns is not None:
            self._line = (waiting or Line()).start(*self.tuns, order.link, self.gauges, order.seed)
            self._loop.watch(self._line, lambda: sys.exit("the delay line ended"))
        elif waiting is not None:
            waiting.close()

    def _relay(self, name: str, services: tuple[Service, ...]) -> None:
        _allow_many_sockets()
        room = self.ends.room
        wire = Wire(name)
        self._flows = Flows(self._loop, lambda between: _refuse(wire, _flow(*between)))
        self._streams = streams = Streams(self._loop)
        self._stand_ins = StandIns(self._loop, services, streams, self.ends.subject_socket)
        self.slow_to_close = wire.socket.fileno()
        self._doorkeeper = Doorkeeper(
            self._loop, wire, room.listeners, streams, self._host_stream, self._where_to_connect
        )
        for waiting in room.receivers:
            self._loop.watch(waiting.fileno(), lambda waiting=waiting: self._receive(waiting))  # type: ignore[misc]

    def run(self, agent: socket.socket) -> None:
        """Relay until there is a message of the agent's, which stays there, and then what its subject sent before.

        Somebody else must put an end to that: the other side may take nothing, or send for ever.
        """
        if self.gauges is not None:
            Probes(self._loop, self.gauges, self.ends.subject_socket(*_DATAGRAMS), socket.socket(*_DATAGRAMS))
        readable: list[socket.socket] = []
        self._loop.watch(agent.fileno(), lambda: readable.extend(select.select([agent], [], [], 0.0)[0]))
        while not readable:
            self._loop.turn()
        while self._loop.turn(patience_s=0.0):
            pass
        while self._carries_last_words():
            self._loop.turn()
        if self._line is not None:  # it would end with this process, but after it
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._line, signal.SIGKILL)

    def _carries_last_words(self) -> bool:
        """Whether a connection of a subject that has ended still has bytes, or its own end, to pass on."""
        if self._streams.carry_outwards or self._stand_ins.are_joining:
            return True
        if not (expected := self._doorkeeper.expected):
            return False
        with self.ends.at_subject():
            netlink = Netlink(SOCKETS)
        with netlink:  # one that the subject has given up never comes
            return any(socket_table.has_end_of(netlink, flow) for flow in expected)

    def _host_stream(self, family: socket.AddressFamily) -> socket.socket:
        return self._host_socket(family, socket.SOCK_STREAM)

    def _where_to(self, kind: socket.SocketKind, flow: Flow) -> tuple[Address, int] | None:
        if flow.target == addresses.GATEWAY.ip:
            return self._stand_ins.where_to(kind, flow)
        return flow.target, flow.target_port

    def _where_to_connect(self, flow: Flow) -> tuple[Address, int] | None:
        return self._where_to(socket.SOCK_STREAM, flow)

    def _receive(self, waiting: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                data, notes, _, peer = waiting.recvmsg(_LARGEST, 128)
            except BlockingIOError:
                return
            except OSError:
                continue
            target = original_target(notes)
            if target is not None:
                source: Peer = peer[:2]
                between = (source, target)
                self._flows.send(between, data, lambda: self._flow(source, target))  # noqa: B023 - called at once
        self._loop.again(lambda: self._receive(waiting))

    def _flow(self, source: Peer, target: Peer) -> tuple[socket.socket, socket.socket]:
        flow = _flow(source, target)
        where = self._where_to(socket.SOCK_DGRAM, flow)
        if where is None:
            raise ConnectionRefusedError
        family = socket.AF_INET if where[0].version == 4 else socket.AF_INET6
        outer = self._host_socket(family, socket.SOCK_DGRAM)
        outer.setblocking(False)
        outer.connect((str(where[0]), where[1]))
        return answering(transparent(flow.family, socket.SOCK_DGRAM), target, source), outer


def _flow(source: Peer, target: Peer) -> Flow:
    return Flow(ip_address(source[0]), source[1], ip_address(target[0]), target[1])


def _refuse(wire: Wire, flow: Flow) -> None:
    """Say that nobody takes the datagrams of a flow."""
    wire.answer(unreachable(Unreachable.PORT, flow.target, flow.source, datagram(flow)))


def _allow_many_sockets() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
