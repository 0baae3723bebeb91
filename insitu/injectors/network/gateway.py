"""The far end of one trial's link, and the relay from there to the host's network.

Runs in a process of its own, forked for the trial and ended with it. The subject's end of a pair of interfaces is
in its namespace, the other one in the gateway's; nothing leads from there to the host's network but sockets that
were made in the host's. So nothing of the host's configuration changes, and all of this ends with the process.
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from insitu.injectors.network import addresses, namespaces, shaping
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.datagrams import Flows, Peer, answering
from insitu.injectors.network.host_view import HostView
from insitu.injectors.network.knocks import Doorkeeper, Wire
from insitu.injectors.network.link import Link
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.loopback import StandIns
from insitu.injectors.network.netlink import Message, Netlink
from insitu.injectors.network.packets import Address, Ends
from insitu.injectors.network.room import Room, original_target, transparent

_LARGEST = 1 << 16

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
    """

    init: int
    name: str
    link: Link
    host: HostView


@dataclass(frozen=True, slots=True)
class Sides:
    """The two ends of a link: the subject's namespace, and the gateway's room."""

    subject: int
    room: Room
    in_subject: Netlink

    @contextmanager
    def at_subject(self) -> Iterator[None]:
        """Make what is made meanwhile in the subject's namespace."""
        namespaces.enter(self.subject, namespaces.CLONE_NEWNET)
        try:
            yield
        finally:
            namespaces.enter(self.room.namespace, namespaces.CLONE_NEWNET)

    def subject_socket(self, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        with self.at_subject():
            return socket.socket(family, kind)


class Gateway:
    """A link that stands, and the relay behind it.

    Parameters
    ----------
    room
        One that the caller is in; ``None`` if it has none yet.
    host_socket
        Makes a socket in the host's network.

    Raises
    ------
    OSError
        If the kernel refuses a part of it.

    Attributes
    ----------
    slow_to_close
        An open file on which the kernel waits for a grace period when it is closed.
    """

    def __init__(self, order: Order, room: Room | None, host_socket: MakeSocket) -> None:
        self.sides = _meet(order, room)
        _raise_link(self.sides, order)
        shaping.shape(self.sides.in_subject, self.sides.room.netlink, order.link)
        self._host_socket = host_socket
        self._loop = Loop()
        self._flows = Flows(self._loop)
        _allow_many_sockets()
        self._stand_ins = StandIns(self._loop, order.host.services, self.sides.subject_socket)
        wire = Wire(order.name)
        self.slow_to_close = wire.socket.fileno()
        take, listeners = self._host_stream, self.sides.room.listeners
        Doorkeeper(self._loop, wire, listeners, take, self._where_to_connect)
        for waiting in self.sides.room.receivers:
            self._loop.watch(waiting.fileno(), lambda waiting=waiting: self._receive(waiting))  # type: ignore[misc]

    def run(self) -> None:
        """Relay until the process is ended."""
        while True:
            self._loop.turn()

    def _host_stream(self, family: socket.AddressFamily) -> socket.socket:
        return self._host_socket(family, socket.SOCK_STREAM)

    def _where_to(self, kind: socket.SocketKind, ends: Ends) -> tuple[Address, int] | None:
        if ends.target == addresses.GATEWAY.ip:
            return self._stand_ins.where_to(kind, ends)
        return ends.target, ends.target_port

    def _where_to_connect(self, ends: Ends) -> tuple[Address, int] | None:
        return self._where_to(socket.SOCK_STREAM, ends)

    def _receive(self, waiting: socket.socket) -> None:
        while True:
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

    def _flow(self, source: Peer, target: Peer) -> tuple[socket.socket, socket.socket]:
        ends = Ends(ip_address(source[0]), source[1], ip_address(target[0]), target[1])
        where = self._where_to(socket.SOCK_DGRAM, ends)
        if where is None:
            raise ConnectionRefusedError
        family = socket.AF_INET if where[0].version == 4 else socket.AF_INET6
        outer = self._host_socket(family, socket.SOCK_DGRAM)
        outer.setblocking(False)
        outer.connect((str(where[0]), where[1]))
        return answering(transparent(ends.family, socket.SOCK_DGRAM), target, source), outer


def _allow_many_sockets() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _meet(order: Order, room: Room | None) -> Sides:
    """Open the subject's namespace, and be in a room of the same user namespace."""
    folder = f"/proc/{order.init}/ns"
    subject, user = (os.open(f"{folder}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "user"))
    if not namespaces.is_own(user, "user"):
        namespaces.enter(user, namespaces.CLONE_NEWUSER)
        room = None
    os.close(user)
    room = room or Room.enter(has_ipv6=order.host.has_ipv6)
    namespaces.enter(subject, namespaces.CLONE_NEWNET)
    in_subject = Netlink()
    namespaces.enter(room.namespace, namespaces.CLONE_NEWNET)
    return Sides(subject, room, in_subject)


def _raise_link(sides: Sides, order: Order) -> None:
    link, hardware = addresses.LINK_INDEX, (addresses.HARDWARE_GATEWAY, addresses.HARDWARE_SUBJECT)
    rates = (order.link.rate_in, order.link.rate_out)
    bundles = (shaping.bundle_packets(order.link, rates[0]), shaping.bundle_packets(order.link, rates[1]))
    sides.room.netlink.request(rt.veth_pair(order.name, link, hardware, sides.subject, bundles))
    kernel_has_ipv6 = Path("/proc/net/if_inet6").exists()
    ready: list[Message] = [rt.no_own_address(link)] if kernel_has_ipv6 else []
    ready.append(rt.up(link))
    at_gateway, at_subject = [*ready], [rt.up(addresses.LOOPBACK_INDEX), *ready]
    both = ((addresses.GATEWAY, addresses.SUBJECT), (addresses.GATEWAY_6, addresses.SUBJECT_6))
    for far, near in both[: 2 if sides.room.has_ipv6 else 1]:
        at_gateway += [rt.address(link, far), rt.neighbour(link, near.ip, hardware[1])]
        at_subject += [rt.address(link, near), rt.neighbour(link, far.ip, hardware[0])]
        at_subject.append(rt.default_route(link, far.ip))
    sides.room.netlink.request(*at_gateway)
    sides.in_subject.request(*at_subject)
