"""The two ends of a link: a pair of interfaces, one in the subject's namespace and one in the gateway's room."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from insitu.injectors.errors import ForeignState
from insitu.injectors.network import addresses, namespaces, shaping, tun
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Message, Netlink
from insitu.injectors.network.room import Room

_LINE_QUEUE_PACKETS = 5000
"""Packets that may wait for the delay line to be woken: some 0.1 s of small ones."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Both namespaces.

    Attributes
    ----------
    subject
        Open file of the subject's namespace.
    in_subject
        Speaks to the kernel about it.
    """

    subject: int
    room: Room
    in_subject: Netlink

    @classmethod
    def of(cls, init: int, room: Room | None, *, has_ipv6: bool) -> Ends:
        """Open the namespace of a subject's process, and be in a room of the same user namespace."""
        folder = f"/proc/{init}/ns"
        subject, user = (os.open(f"{folder}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "user"))
        if not namespaces.is_own(user, "user"):
            namespaces.enter(user, namespaces.CLONE_NEWUSER)
            room = None
        os.close(user)
        room = room or Room.enter(has_ipv6=has_ipv6)
        namespaces.enter(subject, namespaces.CLONE_NEWNET)
        in_subject = Netlink()
        namespaces.enter(room.namespace, namespaces.CLONE_NEWNET)
        return cls(subject, room, in_subject)

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

    def connect_directly(self, name: str, link: Link) -> None:
        """Raise a pair of interfaces, each other's peers (veth)."""
        index, hardware = addresses.LINK_INDEX, (addresses.HARDWARE_GATEWAY, addresses.HARDWARE_SUBJECT)
        bundles = (shaping.bundle_packets(link, link.rate_in), shaping.bundle_packets(link, link.rate_out))
        with _nothing_foreign():
            self.room.netlink.request(rt.veth_pair(name, index, hardware, self.subject, bundles))
        far, near = addressed(has_ipv6=self.room.has_ipv6)
        far_neighbours, near_neighbours = acquainted(has_ipv6=self.room.has_ipv6)
        self.room.netlink.request(*far, *far_neighbours)
        self.in_subject.request(*near, *near_neighbours)

    def connect_by_line(self, name: str, link: Link) -> tuple[int, int]:
        """Raise two interfaces that a process connects (TUN); gives what it reads and writes, subject's first."""
        index = addresses.LINK_INDEX
        with self.at_subject(), _nothing_foreign():
            near_file = tun.make(name, index)
        far_file = tun.make(name, index)
        far, near = addressed(has_ipv6=self.room.has_ipv6)
        self.room.netlink.request(
            rt.queues(index, _LINE_QUEUE_PACKETS, shaping.bundle_packets(link, link.rate_in)), *far
        )
        self.in_subject.request(
            rt.queues(index, _LINE_QUEUE_PACKETS, shaping.bundle_packets(link, link.rate_out)), *near
        )
        return near_file, far_file


_Messages = tuple[Message, ...]


@lru_cache
def addressed(*, has_ipv6: bool) -> tuple[_Messages, _Messages]:
    """For the gateway's end and the subject's: up, with addresses, and everything else behind the gateway."""
    index = addresses.LINK_INDEX
    ready = [rt.no_own_address(index)] if Path("/proc/net/if_inet6").exists() else []
    ready.append(rt.up(index))
    far, near = [*ready], [rt.up(addresses.LOOPBACK_INDEX), *ready]
    for gateway, subject in _versions(has_ipv6=has_ipv6):
        far.append(rt.address(index, gateway))
        near += [rt.address(index, subject), rt.default_route(index, gateway.ip)]
    return tuple(far), tuple(near)


@lru_cache
def acquainted(*, has_ipv6: bool) -> tuple[_Messages, _Messages]:
    """For the gateway's end and the subject's: where the other one is."""
    index, versions = addresses.LINK_INDEX, _versions(has_ipv6=has_ipv6)
    far = tuple(rt.neighbour(index, subject.ip, addresses.HARDWARE_SUBJECT) for _, subject in versions)
    near = tuple(rt.neighbour(index, gateway.ip, addresses.HARDWARE_GATEWAY) for gateway, _ in versions)
    return far, near


def _versions(*, has_ipv6: bool) -> tuple[tuple[rt.Interface, rt.Interface], ...]:
    both = (addresses.GATEWAY, addresses.SUBJECT), (addresses.GATEWAY_6, addresses.SUBJECT_6)
    return both if has_ipv6 else both[:1]


@contextmanager
def _nothing_foreign() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno in (errno.EEXIST, errno.EBUSY):
            message = "the subject's network namespace has an interface that is not ours; left alone"
            raise ForeignState(message, shaping.LEAVE_ALONE) from exc
        raise
