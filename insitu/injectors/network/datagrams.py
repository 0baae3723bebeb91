"""Datagrams: each flow of the subject's, from one address to another, is a pair of connected sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from insitu.injectors.network.loop import Loop

_MOST_FLOWS = 4096
_IDLE_S, _SWEEP_S = 60.0, 5.0
_LARGEST = 1 << 16
AT_ONCE = 64
"""Datagrams of one flow that are passed on before others have their turn: some send for ever."""

Peer = tuple[str, int]


def answering(fresh: socket.socket, own: Peer, peer: Peer) -> socket.socket:
    """Give a socket both ends of a flow: what comes from `peer` to `own` goes to it from now on."""
    fresh.setblocking(False)
    fresh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    fresh.bind(own)
    fresh.connect(peer)
    return fresh


@dataclass(slots=True)
class _Flow:
    inner: socket.socket
    outer: socket.socket
    used_at: float


class Flows:
    """Flows of datagrams, by whoever they are between; each ends when it was idle for a minute.

    Parameters
    ----------
    refused
        Told between whom, when nobody took a datagram that was passed on.
    """

    def __init__(self, loop: Loop, refused: Callable[[tuple[Peer, Peer]], None] = lambda _: None) -> None:
        self._loop = loop
        self._refused = refused
        self._flows: dict[tuple[Peer, Peer], _Flow] = {}
        loop.at(time.monotonic() + _SWEEP_S, self._sweep)

    def send(
        self, between: tuple[Peer, Peer], data: bytes, make: Callable[[], tuple[socket.socket, socket.socket]]
    ) -> None:
        """Pass a datagram on outwards; `make` gives the sockets of a flow that is new, inner and outer."""
        flow = self._flows.get(between)
        if flow is None:
            if len(self._flows) >= _MOST_FLOWS:
                self._end(min(self._flows, key=lambda one: self._flows[one].used_at))
            try:
                inner, outer = make()
            except OSError:  # nowhere to send it: lost, as on any network
                return
            flow = self._flows[between] = _Flow(inner, outer, time.monotonic())
            self._loop.watch(inner.fileno(), lambda: self._move(between, outwards=True))
            self._loop.watch(outer.fileno(), lambda: self._move(between, outwards=False))
        flow.used_at = time.monotonic()
        _send(flow.outer, data)

    def _move(self, between: tuple[Peer, Peer], *, outwards: bool) -> None:
        flow = self._flows.get(between)
        if flow is None:
            return
        source, sink = (flow.inner, flow.outer) if outwards else (flow.outer, flow.inner)
        flow.used_at = time.monotonic()
        for _ in range(AT_ONCE):
            try:
                data = source.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:  # nobody listens there (ICMP): the next datagram may find somebody
                if not outwards:
                    self._refused(between)
                continue
            _send(sink, data)
        self._loop.again(lambda: self._move(between, outwards=outwards))

    def _sweep(self) -> None:
        now = time.monotonic()
        for between in [one for one, flow in self._flows.items() if now - flow.used_at > _IDLE_S]:
            self._end(between)
        self._loop.at(now + _SWEEP_S, self._sweep)

    def _end(self, between: tuple[Peer, Peer]) -> None:
        flow = self._flows.pop(between)
        for one in (flow.inner, flow.outer):
            self._loop.forget(one.fileno())
            one.close()


def _send(sink: socket.socket, data: bytes) -> None:
    try:
        sink.send(data)
    except OSError:  # a full queue, or nobody there: datagrams are lost then
        return
