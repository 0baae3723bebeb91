"""Which sockets a network namespace has, asked of the kernel (sock_diag).

The tables under /proc/net say the same, but walk through every connection there is: some 10 ms even without any.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from insitu.injectors.network.netlink import SOCKETS, Netlink
from insitu.injectors.network.packets import Address, Flow

_BY_FAMILY = 20
_ANY_COOKIE = bytes([0xFF]) * 8
_LISTENS, _UNCONNECTED = 10, 7
_PROTOCOLS = (
    (socket.SOCK_STREAM, socket.IPPROTO_TCP, _LISTENS),
    (socket.SOCK_DGRAM, socket.IPPROTO_UDP, _UNCONNECTED),
)


@dataclass(frozen=True, slots=True)
class Service:
    """A socket that waits for others; `kind` is SOCK_STREAM or SOCK_DGRAM."""

    kind: socket.SocketKind
    address: Address
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET if self.address.version == 4 else socket.AF_INET6


def waiting() -> Iterator[Service]:
    """All of the caller's network namespace; `OSError` if the kernel cannot say."""
    with Netlink(SOCKETS) as netlink:
        for kind, protocol, state in _PROTOCOLS:
            for family in (socket.AF_INET, socket.AF_INET6):
                request = struct.pack("=BBBxI48x", family, protocol, 0, 1 << state)
                for answer in netlink.dump(_BY_FAMILY, request):
                    yield _read(kind, answer)


def has_end_of(netlink: Netlink, flow: Flow) -> bool:
    """Whether the namespace that `netlink` (of family `SOCKETS`) speaks to has a connection's source."""
    ports = struct.pack("!HH", flow.source_port, flow.target_port)
    where = ports + flow.source.packed.ljust(16, b"\0") + flow.target.packed.ljust(16, b"\0")
    request = struct.pack("=BBBxI", flow.family, socket.IPPROTO_TCP, 0, 0) + where + bytes(4) + _ANY_COOKIE
    return netlink.find(_BY_FAMILY, request) is not None


def _read(kind: socket.SocketKind, answer: bytes) -> Service:
    """From a struct inet_diag_msg: family, state, timer, retransmissions; then ports and addresses."""
    (port,) = struct.unpack_from("!H", answer, 4)
    length = 4 if answer[0] == socket.AF_INET else 16
    address = ip_address(answer[8 : 8 + length])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return Service(kind, address, port)
