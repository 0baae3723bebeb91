"""The delay line: carries packets between two TUN interfaces, late by a while, and loses some.

It takes the place of the kernel's netem where there is none, with its meaning: each packet of a direction is
delayed by itself, so that those delayed more are overtaken. It adds no cap of its own below `CARRIES_BYTES_PER_S`.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import pickle
import random
import select
import socket
import time
from dataclasses import dataclass, field
from typing import NoReturn

from insitu.injectors.network import namespaces
from insitu.injectors.network.gauges import Gauge, Gauges
from insitu.injectors.network.link import Link

CARRIES_BYTES_PER_S = 12.5e6
"""In both directions together, in full packets; see experiments/benchmarks/network.py."""
_LARGEST = 1 << 16
_BATCH = 32
_FIFO_PRIORITY = 1


@dataclass(slots=True)
class _Way:
    """One direction.

    Attributes
    ----------
    waiting
        Heap of when to write which packet; the number between keeps packets of the same time in order.
    """

    source: int
    sink: int
    delay_s: float
    jitter_s: float
    loss: float
    passed: int
    lost: int
    gauges: Gauges
    chance: random.Random
    waiting: list[tuple[float, int, bytes]] = field(default_factory=list)
    number: int = 0

    def take(self) -> None:
        """Read what has come, and say when each is due."""
        now = time.monotonic()
        for _ in range(_BATCH):
            try:
                packet = os.read(self.source, _LARGEST)
            except BlockingIOError:
                return
            if self.loss and self.chance.random() < self.loss:
                self.gauges[self.lost] += 1
                continue
            due = now + self.delay_s + (self.jitter_s * self.chance.random() if self.jitter_s else 0.0)
            self.number += 1
            heapq.heappush(self.waiting, (due, self.number, packet))

    def give(self) -> None:
        """Write what is due."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            packet = heapq.heappop(self.waiting)[2]
            with contextlib.suppress(OSError):  # the other end has no room: lost, as on any link
                os.write(self.sink, packet)
            self.gauges[self.passed] += 1


class Line:
    """A process that waits to become a delay line, and ends with the caller.

    It is forked before it is needed: a fork takes a millisecond, and both pay for the pages that they write to
    afterwards.
    """

    def __init__(self) -> None:
        self._talk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _wait(theirs, parent)
        theirs.close()

    def start(self, subject: int, gateway: int, link: Link, gauges: Gauges, seed: int) -> int:
        """Carry packets between two interfaces from now on.

        Returns
        -------
        int
            An open file that can be read when the process has ended.

        Raises
        ------
        OSError
            If it has ended already.
        """
        with self._talk:
            if not self._talk.recv(1):
                raise OSError(errno.ESRCH, "the delay line ended before it was asked for anything")
            ends = [subject, gateway, gauges.descriptor]
            socket.send_fds(self._talk, [pickle.dumps((link, seed))], ends)
        return os.pidfd_open(self._pid)

    def close(self) -> None:
        """Let a process end that is not needed."""
        self._talk.close()


def _wait(talk: socket.socket, parent: int) -> NoReturn:
    try:
        namespaces.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        talk.send(b"+")  # ready: from here on nothing can stop it that would let it outlive the gateway
        _keep_open(talk.fileno())
        packet, files, _, _ = socket.recv_fds(talk, _LARGEST, 3)
        if packet:
            link, seed = pickle.loads(packet)  # noqa: S301 - from the parent, over a pair of sockets of its own
            carry(files[0], files[1], link, Gauges(files[2]), seed)
    finally:
        os._exit(1)


def _keep_open(*descriptors: int) -> None:
    """Close all files but these: what the other process has open must end with it."""
    first = 3
    for descriptor in sorted(descriptors):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def carry(subject: int, gateway: int, link: Link, gauges: Gauges, seed: int) -> NoReturn:
    """Carry packets between two interfaces until the process is ended."""
    _hurry()
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    delay_s, loss = (link.delay or 0.0) / 2, link.loss or 0.0
    out = _Way(subject, gateway, delay_s, 0.0, loss, Gauge.PASSED_OUT, Gauge.LOST_OUT, gauges, chance)
    back = _Way(
        gateway, subject, delay_s, link.jitter or 0.0, loss, Gauge.PASSED_IN, Gauge.LOST_IN, gauges, chance
    )
    ways = {subject: out, gateway: back}
    while True:
        dues = [way.waiting[0][0] for way in (out, back) if way.waiting]
        patience_s = max(0.0, min(dues) - time.monotonic()) if dues else None
        readable, _, _ = select.select([subject, gateway], [], [], patience_s)
        for descriptor in readable:
            ways[descriptor].take()
        out.give()
        back.give()


def _hurry() -> None:
    """Be woken before other processes where that is allowed: being late is what this must not be."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_FIFO_PRIORITY))
