"""The far end of one trial's link: a namespace that answers for every address, and relays to the host's network.

Runs in a process of its own, forked for the trial and ended with it. The subject's end of a pair of interfaces is
in its namespace, the other one here; nothing leads from here to the host's network but sockets that were made
there. So nothing of the host's configuration changes, and all of this ends with the process.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from insitu.injectors.network import addresses, namespaces, nftables, shaping
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.datagrams import Flows, Peer, answering
from insitu.injectors.network.knocks import Doorkeeper, Wire
from insitu.injectors.network.link import Link
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.loopback import Service, StandIns, services_of_host
from insitu.injectors.network.netlink import Netlink
from insitu.injectors.network.packets import Address, Ends

_IP_TRANSPARENT, _IP_RECVORIGDSTADDR = 19, 20
_IPV6_TRANSPARENT, _IPV6_RECVORIGDSTADDR = 75, 74
_LARGEST = 1 << 16

MakeSocket = Callable[[socket.AddressFamily, socket.SocketKind], socket.socket]


@dataclass(frozen=True, slots=True)
class Sides:
    """The two ends of a link: the subject's namespace and the gateway's.

    Attributes
    ----------
    name
        Of both interfaces.
    """

    name: str
    subject: int
    gateway: int
    in_subject: Netlink
    in_gateway: Netlink

    @contextmanager
    def at_subject(self) -> Iterator[None]:
        """Make what is made meanwhile in the subject's namespace."""
        namespaces.enter(self.subject, namespaces.CLONE_NEWNET)
        try:
            yield
        finally:
            namespaces.enter(self.gateway, namespaces.CLONE_NEWNET)

    def subject_socket(self, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        with self.at_subject():
            return socket.socket(family, kind)


class Gateway:
    """A link that stands, and the relay behind it.

    Parameters
    ----------
    init
        A process in the subject's namespaces.
    name
        Of the interfaces.
    host_socket
        Makes a socket in the host's network.

    Raises
    ------
    OSError
        If the kernel refuses a part of it.
    """

    def __init__(self, init: int, name: str, link: Link, host_socket: MakeSocket) -> None:
        _allow_many_sockets()
        services = services_of_host()
        has_ipv6 = _host_has_ipv6()
        self.sides = _make_ends(init, name)
        bundles = (shaping.bundle_packets(link, link.rate_in), shaping.bundle_packets(link, link.rate_out))
        _raise_link(self.sides, has_ipv6, bundles)
        shaping.shape(self.sides.in_subject, self.sides.in_gateway, link)
        self._loop = Loop()
        self._host_socket = host_socket
        self._relay(services, has_ipv6)

    def _relay(self, services: tuple[Service, ...], has_ipv6: bool) -> None:
        versions = (socket.AF_INET, socket.AF_INET6) if has_ipv6 else (socket.AF_INET,)
        listeners = tuple(_transparent(family, socket.SOCK_STREAM) for family in versions)
        nftables.catch_all(addresses.LINK_INDEX, addresses.LOOPBACK_INDEX, addresses.ANY_PORT)
        self._flows = Flows(self._loop)
        self._stand_ins = StandIns(self._loop, services, self.sides.subject_socket)
        wire = Wire(self.sides.name)
        take = self._host_socket
        Doorkeeper(
            self._loop, wire, listeners, lambda family: take(family, socket.SOCK_STREAM), self._where_to_connect
        )
        for family in versions:
            waiting = _transparent(family, socket.SOCK_DGRAM)
            self._loop.watch(waiting.fileno(), lambda waiting=waiting: self._receive(waiting))  # type: ignore[misc]

    def run(self) -> None:
        """Relay until the process is ended."""
        while True:
            self._loop.turn()

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
            target = _original_target(notes)
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
        inner = _make_transparent(socket.socket(ends.family, socket.SOCK_DGRAM))
        return answering(inner, target, source), outer


def _allow_many_sockets() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _host_has_ipv6() -> bool:
    """Whether the caller's namespace has an address of IPv6 that leads anywhere."""
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return False
    return any(line.split()[3] == "00" for line in lines)  # of global scope


def _make_ends(init: int, name: str) -> Sides:
    """Enter a namespace of our own that is of the subject's user namespace, and open both."""
    subject, user = (os.open(f"/proc/{init}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "user"))
    if not namespaces.is_own(user, "user"):
        namespaces.enter(user, namespaces.CLONE_NEWUSER)
    os.close(user)
    namespaces.enter(subject, namespaces.CLONE_NEWNET)
    in_subject = Netlink()
    namespaces.leave(namespaces.CLONE_NEWNET)
    gateway = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    for switch in ("all", "default"):  # requests to connect come back in by the loopback
        Path(f"/proc/sys/net/ipv4/conf/{switch}/rp_filter").write_text("0")
    return Sides(name, subject, gateway, in_subject, Netlink())


def _raise_link(sides: Sides, has_ipv6: bool, bundles: tuple[int, int]) -> None:
    link, hardware = addresses.LINK_INDEX, (addresses.HARDWARE_GATEWAY, addresses.HARDWARE_SUBJECT)
    sides.in_gateway.request(rt.veth_pair(sides.name, link, hardware, sides.subject, bundles))
    own_6 = [rt.no_own_address(link)] if Path("/proc/net/if_inet6").exists() else []
    far, near = addresses.GATEWAY, addresses.SUBJECT
    far_6, near_6 = addresses.GATEWAY_6, addresses.SUBJECT_6
    at_gateway = [*own_6, rt.up(addresses.LOOPBACK_INDEX), rt.up(link), rt.address(link, far)]
    at_gateway += [rt.neighbour(link, near.ip, hardware[1]), rt.everything_is_local(addresses.LOOPBACK_INDEX, 4)]
    at_subject = [*own_6, rt.up(addresses.LOOPBACK_INDEX), rt.up(link), rt.address(link, near)]
    at_subject += [rt.neighbour(link, far.ip, hardware[0]), rt.default_route(link, far.ip)]
    if has_ipv6:
        at_gateway += [rt.address(link, far_6), rt.neighbour(link, near_6.ip, hardware[1])]
        at_gateway += [rt.everything_is_local(addresses.LOOPBACK_INDEX, 6)]
        at_subject += [rt.address(link, near_6), rt.neighbour(link, far_6.ip, hardware[0])]
        at_subject += [rt.default_route(link, far_6.ip)]
    sides.in_gateway.request(*at_gateway)
    sides.in_subject.request(*at_subject)


def _transparent(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """A socket that takes what is for any address and port."""
    waiting = _make_transparent(socket.socket(family, kind))
    waiting.setblocking(False)
    if family == socket.AF_INET6:
        waiting.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_DGRAM:
        level, option = (
            (socket.IPPROTO_IP, _IP_RECVORIGDSTADDR)
            if family == socket.AF_INET
            else (socket.IPPROTO_IPV6, _IPV6_RECVORIGDSTADDR)
        )
        waiting.setsockopt(level, option, 1)
    waiting.bind(("", addresses.ANY_PORT))
    if kind == socket.SOCK_STREAM:
        waiting.listen(4096)
    return waiting


def _make_transparent(fresh: socket.socket) -> socket.socket:
    if fresh.family == socket.AF_INET:
        fresh.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
    else:
        fresh.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
    return fresh


def _original_target(notes: list[tuple[int, int, bytes]]) -> Peer | None:
    for level, kind, data in notes:
        if (level, kind) == (socket.IPPROTO_IP, _IP_RECVORIGDSTADDR):
            port, packed = struct.unpack_from("!2xH4s", data)
            return str(ip_address(packed)), port
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_RECVORIGDSTADDR):
            port, packed = struct.unpack_from("!2xH4x16s", data)
            return str(ip_address(packed)), port
    return None
