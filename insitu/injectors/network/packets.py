"""The few packets that a gateway reads and writes itself: requests to connect, and refusals of them; pure.

A connection is accepted only after the same connection of the host's has been, and refused as that was. So the
gateway sees the first packet (SYN) before the kernel does.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address

_TCP, _UDP, _ICMP, _ICMP6 = socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6
_FLAGS, _SYN, _RESET_ACK = 0x17, 0x02, 0x14
"""Bits of the flags FIN, SYN, RST and ACK together, of SYN alone, and of RST with ACK."""


class Unreachable(Enum):
    """Why a packet could not be delivered: ICMP type and code in version 4 and in version 6."""

    NETWORK = ((3, 0), (1, 0))
    HOST = ((3, 1), (1, 3))
    PORT = ((3, 3), (1, 4))
    PROHIBITED = ((3, 13), (1, 1))


@dataclass(frozen=True, slots=True)
class Flow:
    """From where to where: what tells connections and flows apart."""

    source: Address
    source_port: int
    target: Address
    target_port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET if self.target.version == 4 else socket.AF_INET6


@dataclass(frozen=True, slots=True)
class Knock:
    """A request to connect.

    Attributes
    ----------
    packet
        From its IP header on, with the checksum that the sender's device would have filled in.
    """

    flow: Flow
    sequence: int
    packet: bytes


def read_knock(packet: bytes) -> Knock | None:
    """Read a packet from its IP header on; ``None`` if it is not a request to connect."""
    start = _payload(packet, _TCP)
    if start is None or len(packet) < start + 20:
        return None
    source_port, target_port, sequence, _, _, flags = struct.unpack_from("!HHIIBB", packet, start)
    if flags & _FLAGS != _SYN:
        return None
    source, target = _addresses(packet)
    whole = bytearray(packet)
    whole[start + 16 : start + 18] = b"\0\0"
    checksum = _transport_checksum(source, target, _TCP, bytes(whole[start:]))
    whole[start + 16 : start + 18] = struct.pack("!H", checksum)
    return Knock(Flow(source, source_port, target, target_port), sequence, bytes(whole))


def _payload(packet: bytes, protocol: int) -> int | None:
    """Where the payload of a whole packet of `protocol` begins."""
    if len(packet) < 20:
        return None
    version = packet[0] >> 4
    if version == 4:
        fragment = struct.unpack_from("!H", packet, 6)[0] & 0x3FFF
        return (packet[0] & 15) * 4 if packet[9] == protocol and not fragment else None
    return 40 if version == 6 and len(packet) >= 40 and packet[6] == protocol else None


def _addresses(packet: bytes) -> tuple[Address, Address]:
    if packet[0] >> 4 == 4:
        return ip_address(packet[12:16]), ip_address(packet[16:20])
    return ip_address(packet[8:24]), ip_address(packet[24:40])


def refusal(knock: Knock) -> bytes:
    """What a host without a listener answers: a reset."""
    flow = knock.flow
    header = struct.pack(
        "!HHIIBBHHH",
        flow.target_port,
        flow.source_port,
        0,
        (knock.sequence + 1) & 0xFFFFFFFF,
        5 << 4,
        _RESET_ACK,
        0,
        0,
        0,
    )
    return _packet(flow.target, flow.source, _TCP, header, checksum_at=16)


def unreachable(why: Unreachable, by: Address, to: Address, packet: bytes) -> bytes:
    """What a router answers that cannot deliver `packet`, which is given from its IP header on."""
    kind, code = why.value[0 if to.version == 4 else 1]
    body = struct.pack("!BBHI", kind, code, 0, 0) + packet[:512]
    if to.version == 6:
        return _packet(by, to, _ICMP6, body, checksum_at=2)
    body = body[:2] + struct.pack("!H", _checksum(body)) + body[4:]
    return _packet(by, to, _ICMP, body)


def datagram(flow: Flow) -> bytes:
    """An empty datagram: enough of one that was lost to say so."""
    header = struct.pack("!HHHH", flow.source_port, flow.target_port, 8, 0)
    return _packet(flow.source, flow.target, _UDP, header, checksum_at=6)


def _packet(source: Address, target: Address, protocol: int, body: bytes, checksum_at: int | None = None) -> bytes:
    if checksum_at is not None:
        checksum = _transport_checksum(source, target, protocol, body)
        body = body[:checksum_at] + struct.pack("!H", checksum) + body[checksum_at + 2 :]
    if target.version == 6:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + source.packed + target.packed + body
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0)
    header += source.packed + target.packed
    return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + body


def _transport_checksum(source: Address, target: Address, protocol: int, body: bytes) -> int:
    ends = source.packed + target.packed
    if target.version == 4:
        return _checksum(ends + struct.pack("!BBH", 0, protocol, len(body)) + body)
    return _checksum(ends + struct.pack("!II", len(body), protocol) + body)


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
