"""Messages about interfaces, addresses, routes and queueing disciplines; pure."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from insitu.injectors.network.netlink import CREATE, EXCLUSIVE, Message, Netlink, attribute, attributes, nested

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

MTU_BYTES, ETHERNET_BYTES = 1500, 14
_NEWLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH = 16, 20, 24, 28
_NEWQDISC, _GETQDISC, _NEWCLASS, _GETCLASS = 36, 38, 40, 42
_NEW = CREATE | EXCLUSIVE
_UP = 1
_MAIN = 254
_UNICAST, _LOCAL = 1, 2
_ROOT = 0xFFFFFFFF
_TICK_NS = 64
"""The unit in which queueing disciplines count time."""


def _link(index: int, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _face(name: str, hardware: bytes, bundle_packets: int) -> bytes:
    """What both ends of a pair have: one queue each (IFLA_NUM_TX_QUEUES and RX), for more take longer to make."""
    one_queue = attribute(31, 1) + attribute(32, 1)
    whole = attribute(3, name) + attribute(1, hardware) + attribute(4, MTU_BYTES) + attribute(40, bundle_packets)
    return whole + one_queue


def veth_pair(
    name: str, index: int, hardware: tuple[bytes, bytes], peer_namespace: int, bundle_packets: tuple[int, int]
) -> Message:
    """A pair with one end here and its peer in another namespace, both of the same name and index.

    Parameters
    ----------
    bundle_packets
        Most packets that each end sends as one (IFLA_GSO_MAX_SEGS): what is queued, delayed and lost together.
    """
    peer = _link(index) + _face(name, hardware[1], bundle_packets[1]) + attribute(28, peer_namespace)
    kind = nested(18, attribute(1, "veth"), nested(2, attribute(1, peer)))
    body = _link(index) + _face(name, hardware[0], bundle_packets[0]) + kind
    return Message(_NEWLINK, body, _NEW, f"interface {name}")


def no_own_address(index: int) -> Message:
    """Keep IPv6 from giving the device an address by itself, and from asking around for routers."""
    return Message(_NEWLINK, _link(index) + nested(26, nested(socket.AF_INET6, attribute(8, b"\1"))), what="IPv6")


def up(index: int) -> Message:
    return Message(_NEWLINK, _link(index, _UP, _UP), what="link up")


def queues(index: int, length_packets: int, bundle_packets: int) -> Message:
    """How many packets may wait in a device for whoever takes them, and how many may be sent as one."""
    body = _link(index) + attribute(13, length_packets) + attribute(40, bundle_packets)
    return Message(_NEWLINK, body, what="queue of the interface")


def address(index: int, own: Interface) -> Message:
    """An address that is usable at once: nobody else is on the link to ask whether it is taken."""
    family = socket.AF_INET if own.version == 4 else socket.AF_INET6
    body = struct.pack("=BBBBI", family, own.network.prefixlen, 0, 0, index)
    body += attribute(1, own.ip.packed) + attribute(2, own.ip.packed) + attribute(8, 0x02)  # IFA_F_NODAD
    return Message(_NEWADDR, body, _NEW, f"address {own}")


def default_route(index: int, gateway: Address) -> Message:
    family = socket.AF_INET if gateway.version == 4 else socket.AF_INET6
    body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _MAIN, 4, 0, _UNICAST, 0)
    body += attribute(5, gateway.packed) + attribute(4, index)
    return Message(_NEWROUTE, body, _NEW, f"default route by {gateway}")


def everything_is_local(loopback: int, version: int) -> Message:
    """Whatever has no better route ends here: the namespace answers for every address."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    scope = 254 if version == 4 else 0
    body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _MAIN, 4, scope, _LOCAL, 0) + attribute(4, loopback)
    return Message(_NEWROUTE, body, _NEW, "local default route")


def neighbour(index: int, whom: Address, hardware: bytes) -> Message:
    """Where a neighbour is, so that nobody need ask over a link that delays and loses."""
    family = socket.AF_INET if whom.version == 4 else socket.AF_INET6
    body = struct.pack("=BxxxiHBB", family, index, 0x80, 0, 0)  # NUD_PERMANENT
    return Message(_NEWNEIGH, body + attribute(1, whom.packed) + attribute(2, hardware), _NEW, f"neighbour {whom}")


SHAPED, PROBES = 0x10001, 0x10002
"""Classes 1:1, of all traffic, and 1:2, of our own probes, which must not wait behind it."""
_DISCIPLINE = 0x10000
_UNSHAPED_BYTES_PER_S = 0xFFFFFFFF
_SLACK_S = 0.004


def shaper(index: int) -> Message:
    """The root: a token bucket with two classes (HTB). Refused if the device has a root that somebody set."""
    options = nested(2, attribute(2, struct.pack("=5I", 3, 10, 1, 0, 0)))
    return _discipline(_NEWQDISC, index, _DISCIPLINE, _ROOT, "htb", options, "root queueing discipline")


def rate_class(index: int, handle: int, rate_bytes_per_s: float, overhead_bytes: int = 0) -> Message:
    """A class that sends at a rate, infinity for none to speak of.

    Parameters
    ----------
    overhead_bytes
        What each packet takes on the wire beyond what the device sees of it.

    Notes
    -----
    The bucket holds what 4 ms let through, so that a timer which comes late costs no rate; at least one packet.
    """
    rate = min(rate_bytes_per_s, _UNSHAPED_BYTES_PER_S)
    bucket_s = max(_SLACK_S, (MTU_BYTES + ETHERNET_BYTES) / rate)
    spec = struct.pack("=BBHhHI", 0, 1, overhead_bytes, -1, 0, round(rate))
    ticks = round(bucket_s * 1e9 / _TICK_NS)
    parameters = spec + spec + struct.pack("=5I", ticks, ticks, 10 * MTU_BYTES, 0, 0)
    options = nested(2, attribute(1, parameters))
    return _discipline(_NEWCLASS, index, handle, _DISCIPLINE, "htb", options, "rate")


def netem(index: int, parent: int, delay_s: float, jitter_s: float, loss: float, limit_packets: int) -> Message:
    """Delay uniformly between `delay_s` and `delay_s + jitter_s`, and independent losses, below a class."""
    ticks = [round(1e9 * time / _TICK_NS) for time in (delay_s + jitter_s / 2, jitter_s / 2)]
    odds = min(round(loss * 0xFFFFFFFF), 0xFFFFFFFF)
    options = struct.pack("=6I", ticks[0], limit_packets, odds, 0, 0, ticks[1])
    return _discipline(_NEWQDISC, index, netem_handle(parent), parent, "netem", attribute(2, options), "delay")


def netem_handle(parent: int) -> int:
    """The discipline that delays what a class sends."""
    return (parent & 0xFFFF) << 20


def _discipline(
    message: int, index: int, handle: int, parent: int, kind: str, options: bytes, what: str
) -> Message:
    body = struct.pack("=BxxxiIII", 0, index, handle, parent, 0) + attribute(1, kind) + options
    return Message(message, body, _NEW, what)


@dataclass(frozen=True, slots=True)
class ClassState:
    """What a class has done and is doing.

    Attributes
    ----------
    rate_bytes_per_s
        What it is set to.
    sent_bytes, sent_packets
        Since it was made; as the device sees them.
    held
        How often it had to wait for its rate.
    waiting_bytes
        In its queue right now.
    """

    rate_bytes_per_s: int
    sent_bytes: int
    sent_packets: int
    held: int
    waiting_bytes: int


def classes(netlink: Netlink, index: int) -> dict[int, ClassState]:
    """State of every class of a device, by handle."""
    found: dict[int, ClassState] = {}
    for handle, parts in _states(netlink, _GETCLASS, index):
        parameters = dict(attributes(parts[_OPTIONS])).get(1, b"")
        (rate,) = struct.unpack_from("=I", parameters, 8)
        sent, waiting = _statistics(parts)
        found[handle] = ClassState(rate, sent[0], sent[1], waiting[4], waiting[1])
    return found


@dataclass(frozen=True, slots=True)
class DelayState:
    """How long a netem discipline delays on average, what it let through, and what it lost."""

    mean_s: float
    passed_packets: int
    lost_packets: int


def delays(netlink: Netlink, index: int) -> dict[int, DelayState]:
    """State of every netem discipline of a device, by the class that it delays."""
    found: dict[int, DelayState] = {}
    states = dict(_states(netlink, _GETQDISC, index))
    for parent in (SHAPED, PROBES):
        if (parts := states.get(netem_handle(parent))) is not None:
            sent, waiting = _statistics(parts)
            (ticks,) = struct.unpack_from("=I", parts[_OPTIONS])
            found[parent] = DelayState(ticks * _TICK_NS / 1e9, sent[1] + waiting[0], waiting[2])
    return found


_OPTIONS, _STATISTICS = 2, 7
_Parts = dict[int, bytes]


def _states(netlink: Netlink, kind: int, index: int) -> Iterator[tuple[int, _Parts]]:
    for body in netlink.dump(kind, struct.pack("=BxxxiIII", 0, index, 0, 0, 0)):
        interface, handle = struct.unpack_from("=iI", body, 4)
        if interface == index:
            yield handle, dict(attributes(body[20:]))


def _statistics(parts: _Parts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bytes and packets sent; packets and bytes waiting, packets dropped, put back, held back."""
    statistics = dict(attributes(parts[_STATISTICS]))
    return struct.unpack_from("=QI", statistics[1]), struct.unpack_from("=5I", statistics[3])
