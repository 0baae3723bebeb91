"""Round trips over a link between the kernels of its two ends: no program's own time is in them.

Datagrams are sent from both ends by this process, and the kernel notes when each arrives.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

from insitu.injectors.network import addresses, namespaces

_SO_TIMESTAMPNS = 35


def round_trips_s(subject: int, gateway: int, count: int = 40, every_s: float = 0.02) -> list[float]:
    """Time out and back of datagrams between the network namespaces of two processes.

    Raises
    ------
    OSError
        If one does not arrive.
    """
    trips: list[float] = []
    with _end_at(subject, str(addresses.SUBJECT.ip)) as near, _end_at(gateway, str(addresses.GATEWAY.ip)) as far:
        near.connect(far.getsockname())
        far.connect(near.getsockname())
        for number in range(count + 1):
            trip_s = 0.0
            for source, target in ((near, far), (far, near)):
                time.sleep(every_s)  # before each way, so that it begins from rest with a delay and without
                trip_s += _one_way_s(source, target)
            if number > 0:  # whatever must be looked up, is for the first one
                trips.append(trip_s)
    return trips


def gateway_of(parent: int) -> int:
    """The process behind a link that a process, by its server, has made; `OSError` if there is none."""
    own = os.stat(f"/proc/{parent}/ns/net").st_ino
    for server in _children(parent):
        for child in _children(server):
            if os.stat(f"/proc/{child}/ns/net").st_ino != own:
                return child
    raise ProcessLookupError("no gateway")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _end_at(pid: int, address: str) -> socket.socket:
    """A datagram socket in the network namespace of a process."""
    own, theirs = (os.open(f"/proc/{one}/ns/net", os.O_RDONLY | os.O_CLOEXEC) for one in ("self", pid))
    try:
        namespaces.enter(theirs, namespaces.CLONE_NEWNET)
        try:
            end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            namespaces.enter(own, namespaces.CLONE_NEWNET)
    finally:
        os.close(own)
        os.close(theirs)
    end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    end.settimeout(5.0)
    end.bind((address, 0))
    return end


def _one_way_s(source: socket.socket, target: socket.socket) -> float:
    sent_ns = time.time_ns()
    source.send(b"there")
    _, notes, _, _ = target.recvmsg(64, 64)
    for level, kind, value in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("@ll", value[: struct.calcsize("@ll")])
            arrived_ns: int = seconds * 1_000_000_000 + nanoseconds
            return (arrived_ns - sent_ns) / 1e9
    raise OSError("the kernel did not say when it came")
