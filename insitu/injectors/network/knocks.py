"""Requests to connect: each is let in after the same connection of the host's stands, or refused as that was."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable
from ipaddress import ip_address

from insitu.injectors.network import addresses, packets
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.packets import Address, Flow, Knock, Unreachable
from insitu.injectors.network.streams import Streams, reset

_ALL, _IP, _IP6 = 0x0003, 0x0800, 0x86DD
_SO_ATTACH_FILTER = 26
_OUTGOING = 4
_ACCEPT_S = 60.0
"""How long a connection of the host's waits for the subject's side to be finished."""

_WHY = {
    errno.ENETUNREACH: Unreachable.NETWORK,
    errno.EHOSTUNREACH: Unreachable.HOST,
    errno.EACCES: Unreachable.PROHIBITED,
    errno.EPERM: Unreachable.PROHIBITED,
}

_REQUESTS_ONLY = (  # classic BPF over a packet from its IP header on: version, protocol, and flags & 0x17 == SYN
    (0x30, 0, 0, 0),
    (0x74, 0, 0, 4),
    (0x15, 0, 4, 4),
    (0x30, 0, 0, 9),
    (0x15, 0, 9, socket.IPPROTO_TCP),
    (0xB1, 0, 0, 0),
    (0x50, 0, 0, 13),
    (0x05, 0, 0, 4),
    (0x15, 0, 5, 6),
    (0x30, 0, 0, 6),
    (0x15, 0, 3, socket.IPPROTO_TCP),
    (0x30, 0, 0, 53),
    (0x54, 0, 0, 0x17),
    (0x15, 1, 0, 0x02),
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFF),
)


class Wire:
    """The gateway's end of the link, packet by packet.

    Parameters
    ----------
    link
        Name of the interface.
    """

    def __init__(self, link: str) -> None:
        self._link = link
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
        _filter(self.socket, _REQUESTS_ONLY)
        self.socket.bind((link, _ALL))

    def requests(self) -> list[Knock]:
        """Requests to connect that have come in since the last call."""
        found: list[Knock] = []
        while True:
            try:
                packet, where = self.socket.recvfrom(2048)
            except BlockingIOError:
                return found
            if where[2] != _OUTGOING and (knock := packets.read_knock(packet)) is not None:
                found.append(knock)

    def let_in(self, knock: Knock) -> None:
        """Hand a request to the kernel, as if it had just come."""
        self._send(knock.packet, "lo", bytes(6))

    def answer(self, packet: bytes) -> None:
        """Send a packet to the subject."""
        self._send(packet, self._link, addresses.HARDWARE_SUBJECT)

    def _send(self, packet: bytes, interface: str, hardware: bytes) -> None:
        protocol = _IP if packet[0] >> 4 == 4 else _IP6
        try:
            self.socket.sendto(packet, (interface, protocol, 0, 0, hardware))
        except OSError:  # a full queue: the subject asks again
            return


def _filter(target: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    import ctypes

    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    target.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code))
    )


class Doorkeeper:
    """Joins each connection that the subject asks for to one from the host.

    Parameters
    ----------
    take_socket
        Gives an unconnected stream socket of the host's network, by family.
    where_to
        Address and port that a request is really for; ``None`` for nowhere.
    """

    def __init__(
        self,
        loop: Loop,
        wire: Wire,
        listeners: tuple[socket.socket, ...],
        streams: Streams,
        take_socket: Callable[[socket.AddressFamily], socket.socket],
        where_to: Callable[[Flow], tuple[Address, int] | None],
    ) -> None:
        self._loop = loop
        self._wire = wire
        self._streams = streams
        self._take_socket = take_socket
        self._where_to = where_to
        self._dialling: set[Flow] = set()
        self._standing: dict[Flow, socket.socket] = {}
        loop.watch(wire.socket.fileno(), self._serve_requests)
        for listener in listeners:
            loop.watch(listener.fileno(), lambda listener=listener: self._accept(listener))  # type: ignore[misc]

    @property
    def expected(self) -> tuple[Flow, ...]:
        """Connections that were let in, and have not come yet."""
        return tuple(self._standing)

    def _serve_requests(self) -> None:
        for knock in self._wire.requests():
            if knock.flow in self._standing:  # the answer was lost
                self._wire.let_in(knock)
            elif knock.flow not in self._dialling:
                self._dial(knock)

    def _dial(self, knock: Knock) -> None:
        target = self._where_to(knock.flow)
        if target is None:
            self._wire.answer(packets.refusal(knock))
            return
        address, port = target
        try:
            outer = self._take_socket(socket.AF_INET if address.version == 4 else socket.AF_INET6)
        except OSError as exc:
            self._refuse(knock, exc.errno or 0)
            return
        outer.setblocking(False)
        self._dialling.add(knock.flow)
        self._loop.watch(outer.fileno(), lambda: self._dialled(knock, outer))
        code = outer.connect_ex((str(address), port))
        if code not in (0, errno.EINPROGRESS):
            self._fail(knock, outer, code)

    def _dialled(self, knock: Knock, outer: socket.socket) -> None:
        if knock.flow not in self._dialling:
            return
        if code := outer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail(knock, outer, code)
            return
        try:
            outer.getpeername()
        except OSError:  # not yet
            return
        self._loop.forget(outer.fileno())
        self._dialling.discard(knock.flow)
        self._standing[knock.flow] = outer
        self._wire.let_in(knock)
        self._loop.at(time.monotonic() + _ACCEPT_S, lambda: self._give_up(knock.flow, outer))

    def _fail(self, knock: Knock, outer: socket.socket, code: int) -> None:
        self._loop.forget(outer.fileno())
        self._dialling.discard(knock.flow)
        outer.close()
        self._refuse(knock, code)

    def _refuse(self, knock: Knock, code: int) -> None:
        if code == errno.ETIMEDOUT:  # nobody answered: nobody answers here, either
            return
        if why := _WHY.get(code):
            by = addresses.GATEWAY.ip if knock.flow.source.version == 4 else addresses.GATEWAY_6.ip
            self._wire.answer(packets.unreachable(why, by, knock.flow.source, knock.packet))
        else:
            self._wire.answer(packets.refusal(knock))

    def _give_up(self, flow: Flow, outer: socket.socket) -> None:
        if self._standing.get(flow) is outer:
            del self._standing[flow]
            outer.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # it was gone before it was accepted
                continue
            target = inner.getsockname()
            flow = Flow(ip_address(peer[0]), peer[1], ip_address(target[0]), target[1])
            inner.setblocking(False)
            outer = self._standing.pop(flow, None)
            if outer is None:
                reset(inner)
            else:
                self._streams.join(inner, outer)
