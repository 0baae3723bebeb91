"""A network namespace that answers for every address, and hands what comes to transparent sockets."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from insitu.injectors.network import addresses, namespaces, nftables
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.netlink import Netlink

_IP_TRANSPARENT, _IP_RECVORIGDSTADDR = 19, 20
_IPV6_TRANSPARENT, _IPV6_RECVORIGDSTADDR = 75, 74


@dataclass(frozen=True, slots=True)
class Room:
    """The gateway's namespace, before a link leads to it. The process that makes it stays in it.

    Attributes
    ----------
    namespace
        Open file of it.
    listeners, receivers
        Take connections and datagrams to every address and port; one of each per version of IP.
    """

    namespace: int
    netlink: Netlink
    listeners: tuple[socket.socket, ...]
    receivers: tuple[socket.socket, ...]
    has_ipv6: bool

    @classmethod
    def enter(cls, *, has_ipv6: bool) -> Self:
        """Make one, owned by the user namespace that the caller is in; `OSError` if the kernel refuses."""
        namespaces.leave(namespaces.CLONE_NEWNET)
        for switch in ("all", "default"):  # requests to connect come back in by the loopback
            Path(f"/proc/sys/net/ipv4/conf/{switch}/rp_filter").write_text("0")
        netlink = Netlink()
        versions = (4, 6) if has_ipv6 else (4,)
        local = (rt.everything_is_local(addresses.LOOPBACK_INDEX, version) for version in versions)
        netlink.request(rt.up(addresses.LOOPBACK_INDEX), *local)
        nftables.catch_all(addresses.LINK_INDEX, addresses.LOOPBACK_INDEX, addresses.ANY_PORT)
        families = (socket.AF_INET, socket.AF_INET6)[: len(versions)]
        return cls(
            namespace=os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC),
            netlink=netlink,
            listeners=tuple(_for_all(family, socket.SOCK_STREAM) for family in families),
            receivers=tuple(_for_all(family, socket.SOCK_DGRAM) for family in families),
            has_ipv6=has_ipv6,
        )


def _for_all(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """A socket that takes what is for any address and port, and knows which."""
    waiting = transparent(family, kind)
    waiting.setblocking(False)
    if family == socket.AF_INET6:
        waiting.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_DGRAM and family == socket.AF_INET:
        waiting.setsockopt(socket.IPPROTO_IP, _IP_RECVORIGDSTADDR, 1)
    elif kind == socket.SOCK_DGRAM:
        waiting.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVORIGDSTADDR, 1)
    waiting.bind(("", addresses.ANY_PORT))
    if kind == socket.SOCK_STREAM:
        waiting.listen(4096)
    return waiting


def transparent(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """A socket that may have any address for its own."""
    fresh = socket.socket(family, kind)
    if family == socket.AF_INET:
        fresh.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
    else:
        fresh.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
    return fresh


def original_target(notes: list[tuple[int, int, bytes]]) -> tuple[str, int] | None:
    """Where a datagram was sent to, from what came with it."""
    for level, kind, data in notes:
        port = int.from_bytes(data[2:4], "big")
        if (level, kind) == (socket.IPPROTO_IP, _IP_RECVORIGDSTADDR):
            return socket.inet_ntop(socket.AF_INET, data[4:8]), port
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_RECVORIGDSTADDR):
            return socket.inet_ntop(socket.AF_INET6, data[8:24]), port
    return None
