"""Two TCP connections joined into one: bytes, half-closes and resets pass from each to the other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from insitu.injectors.network.loop import Loop

_BUFFER = memoryview(bytearray(256 * 1024))
_ROUNDS = 8
"""How many buffers one connection may move before the others have their turn."""
_RESET = struct.pack("=ii", 1, 0)


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other side sees a reset instead of an orderly end."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except OSError:
        pass
    finally:
        connection.close()


class Streams:
    """All that pass a gateway."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._open: set[Stream] = set()

    def join(self, inner: socket.socket, outer: socket.socket) -> None:
        """Join two connections, the one from the subject to the one outwards."""
        stream = Stream(self._loop, inner, outer, self._open.discard)
        if not stream.closed:
            self._open.add(stream)

    @property
    def carry_outwards(self) -> bool:
        """Whether one has not yet passed on all that the subject sent, and that this was all."""
        return any(not stream.sent_all for stream in self._open)


class Stream:
    """Joins two connected sockets, non-blocking ones, until both directions have ended.

    Parameters
    ----------
    tell_closed
        Called when they have.
    """

    def __init__(
        self, loop: Loop, one: socket.socket, other: socket.socket, tell_closed: Callable[[Stream], None]
    ) -> None:
        self._loop = loop
        self._tell_closed = tell_closed
        self._ways = (_Way(one, other), _Way(other, one))
        for connection in (one, other):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop.forget(connection.fileno())
            loop.watch(connection.fileno(), self._pump)
        self.closed = False
        self._pump()

    @property
    def sent_all(self) -> bool:
        """Whether the other connection has everything that came from the one, and its end."""
        return self._ways[0].ended

    def _pump(self) -> None:
        if self.closed:
            return
        try:
            unfinished = [way.pump() for way in self._ways]
        except OSError:  # reset, or timed out: the other side is to see it, too
            self._close(orderly=False)
            return
        if all(way.ended for way in self._ways):
            self._close(orderly=True)
        elif any(unfinished):
            self._loop.again(self._pump)

    def _close(self, *, orderly: bool) -> None:
        self.closed = True
        self._tell_closed(self)
        for way in self._ways:
            self._loop.forget(way.source.fileno())
            if orderly:
                way.source.close()
            else:
                reset(way.source)


class _Way:
    """One direction."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.ended = False
        self._sink = sink
        self._held = b""
        self._at_end = False

    def pump(self) -> bool:
        """Move what can be moved; gives whether there was more than one turn's share."""
        for _ in range(_ROUNDS):
            if self._held and not self._deliver(self._held):
                return False
            if self._at_end or not self._fetch():
                return False
        return True

    def _fetch(self) -> bool:
        """Read once and pass it on; gives whether to go on."""
        try:
            length = self.source.recv_into(_BUFFER)
        except BlockingIOError:
            return False
        if length:
            return self._deliver(_BUFFER[:length])
        self._at_end = self.ended = True
        self._sink.shutdown(socket.SHUT_WR)
        return False

    def _deliver(self, data: bytes | memoryview) -> bool:
        """Write, and keep what the other side cannot take yet; gives whether it took all."""
        try:
            sent = self._sink.send(data)
        except BlockingIOError:
            sent = 0
        self._held = bytes(data[sent:])
        return not self._held
