"""Services on the host's loopback, at the same addresses and ports of the subject's loopback, through the link.

Whatever listens on the host when the link is made gets a stand-in in the subject's namespace, which passes
connections and datagrams on to the gateway over the link: as in place, the port is taken, and answers.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address

from insitu.injectors.network import addresses
from insitu.injectors.network.datagrams import Flows, answering
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.packets import Address, Flow
from insitu.injectors.network.socket_table import Service
from insitu.injectors.network.streams import Streams, reset

_LARGEST = 1 << 16


class StandIns:
    """Listens for the host's services in the subject's namespace.

    Parameters
    ----------
    in_subject
        Makes a socket in the subject's network namespace.
    """

    def __init__(
        self,
        loop: Loop,
        services: tuple[Service, ...],
        streams: Streams,
        in_subject: Callable[[socket.AddressFamily, socket.SocketKind], socket.socket],
    ) -> None:
        self._loop = loop
        self._streams = streams
        self._in_subject = in_subject
        self._joining: set[socket.socket] = set()
        self._targets: dict[tuple[socket.SocketKind, int], tuple[Address, int]] = {}
        self._flows = Flows(loop)
        self._kept: list[socket.socket] = []
        for service in services:
            self._listen(service)

    @property
    def are_joining(self) -> bool:
        """Whether a connection to one of them is not passed on yet."""
        return bool(self._joining)

    def where_to(self, kind: socket.SocketKind, flow: Flow) -> tuple[Address, int] | None:
        """Address on the host's loopback that something which came over the link is for."""
        return self._targets.get((kind, flow.source_port))

    def _listen(self, service: Service) -> None:
        waiting = self._in_subject(service.family, service.kind)
        waiting.setblocking(False)
        address = service.address
        if service.kind == socket.SOCK_DGRAM and address.is_unspecified:
            address = addresses.LOOPBACK if address.version == 4 else addresses.LOOPBACK_6
        try:
            if address.version == 6:
                waiting.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            waiting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            waiting.bind((str(address), service.port))
            if service.kind == socket.SOCK_STREAM:
                waiting.listen(1024)
        except OSError:  # one with a wider address is there already
            waiting.close()
            return
        self._kept.append(waiting)
        serve = self._accept if service.kind == socket.SOCK_STREAM else self._receive
        self._loop.watch(waiting.fileno(), lambda: serve(waiting))

    def _to_gateway(self, kind: socket.SocketKind, target: tuple[Address, int]) -> socket.socket:
        """A socket on the subject's end of the link; whatever comes from its port is for `target`."""
        link = self._in_subject(socket.AF_INET, kind)
        link.setblocking(False)
        link.bind((str(addresses.SUBJECT.ip), 0))
        self._targets[kind, link.getsockname()[1]] = target
        link.connect_ex((str(addresses.GATEWAY.ip), target[1]))
        return link

    def _accept(self, waiting: socket.socket) -> None:
        while True:
            try:
                inner, _ = waiting.accept()
            except BlockingIOError:
                return
            except OSError:
                continue
            inner.setblocking(False)
            try:
                link = self._to_gateway(socket.SOCK_STREAM, _target(inner))
            except OSError:
                reset(inner)
                continue
            self._joining.add(link)
            self._loop.watch(link.fileno(), lambda inner=inner, link=link: self._joined(inner, link))  # type: ignore[misc]

    def _joined(self, inner: socket.socket, link: socket.socket) -> None:
        if link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._joining.discard(link)
            self._loop.forget(link.fileno())
            link.close()
            reset(inner)
            return
        try:
            link.getpeername()
        except OSError:  # not yet
            return
        self._joining.discard(link)
        self._streams.join(inner, link)

    def _receive(self, waiting: socket.socket) -> None:
        own = waiting.getsockname()[:2]
        while True:
            try:
                data, peer = waiting.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            except OSError:
                continue
            between = (peer[:2], own)
            self._flows.send(between, data, lambda: self._flow(own, peer))  # noqa: B023 - called at once

    def _flow(self, own: tuple[str, int], peer: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
        address = ip_address(own[0])
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        inner = answering(self._in_subject(family, socket.SOCK_DGRAM), own, peer)
        return inner, self._to_gateway(socket.SOCK_DGRAM, (address, own[1]))


def _target(inner: socket.socket) -> tuple[Address, int]:
    """Which address of the host's a connection to a stand-in is for."""
    name, port = inner.getsockname()[:2]
    address = ip_address(name)
    if address.is_loopback:
        return address, port
    return (addresses.LOOPBACK if address.version == 4 else addresses.LOOPBACK_6), port
