"""How long packets take over the link, each way: small datagrams between its ends, while the subject runs.

They pass everything that the subject's packets pass, but the queue in front of the rate: what waits there is the
subject's own doing. Both ends are on one machine, so one clock tells how long each direction took.
"""

from __future__ import annotations

import socket
import struct
import time

from insitu.injectors.network import addresses
from insitu.injectors.network.gauges import Gauge, Gauges
from insitu.injectors.network.loop import Loop
from insitu.injectors.network.rtnetlink import PROBES

_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("=q")
_EVERY_S, _FIRST_EVERY_S, _FIRST = 0.05, 0.02, 50
"""The first are closer than samples, which see one each: short trials, too, are to have enough of them."""


class Probes:
    """Sends probes both ways and measures those that arrive.

    Parameters
    ----------
    subject, gateway
        A datagram socket at each end of the link.
    """

    def __init__(self, loop: Loop, gauges: Gauges, subject: socket.socket, gateway: socket.socket) -> None:
        self._loop = loop
        self._gauges = gauges
        self._ends = (subject, gateway)
        self._sent = 0
        for end, own in ((subject, addresses.SUBJECT), (gateway, addresses.GATEWAY)):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, PROBES)
            end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            end.bind((str(own.ip), 0))
        subject.connect(gateway.getsockname())
        gateway.connect(subject.getsockname())
        loop.watch(gateway.fileno(), lambda: self._receive(gateway, Gauge.PROBES_OUT, Gauge.TRANSIT_OUT_S))
        loop.watch(subject.fileno(), lambda: self._receive(subject, Gauge.PROBES_IN, Gauge.TRANSIT_IN_S))
        self._send()

    def _send(self) -> None:
        for end in self._ends:
            try:
                end.send(_STAMP.pack(time.time_ns()))
            except OSError:  # no room: a lost probe
                continue
        self._sent += 1
        self._loop.at(time.monotonic() + (_FIRST_EVERY_S if self._sent < _FIRST else _EVERY_S), self._send)

    def _receive(self, end: socket.socket, count: Gauge, transit: Gauge) -> None:
        while True:
            try:
                data, notes, _, _ = end.recvmsg(64, 64)
            except BlockingIOError:
                return
            except OSError:
                continue
            arrived_ns = time.time_ns()
            for level, kind, value in notes:
                if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):  # when it came, not when it was read
                    seconds, nanoseconds = struct.unpack("@ll", value[: struct.calcsize("@ll")])
                    arrived_ns = seconds * 1_000_000_000 + nanoseconds
            self._gauges[transit] = (arrived_ns - _STAMP.unpack(data)[0]) / 1e9
            self._gauges[count] += 1
