"""Messages to a TCP server and back."""

from __future__ import annotations

import socket

from insitu.injectors.anomalies.load import BIGROOTS
from insitu.injectors.errors import NotSettable

_BIGROOTS_CHARACTERS = 512
_STEP_BYTES = 1 << 16
_CONNECT_S = 5.0
_AT_ONCE = 1 << 14
"""Bytes under way: fewer than the buffers of both ends hold, so that neither waits for the other to read."""


class Exchange:
    """Sends a message and waits until all of it has come back.

    Parameters
    ----------
    message_bytes
        Length of a message; 0 for one that suits.
    target
        ``host:port`` of an echo server (RFC 862); empty for a server in this process, over the loopback.

    Notes
    -----
    The ``bigroots`` preset is the generator of network contention of that paper (see
    `insitu.injectors.anomalies.work.cpu`): 512 characters to a TCP server and its reply, in a loop, eight
    processes. Theirs is another machine of the same network: give one as `target`.

    Without a target, one process has both ends. The packets are the same as between two, but two that wake
    each other hundreds of thousands of times per second can keep a processor from everybody else: on Linux
    6.18 with two such pairs on two processors, a third process waited up to seven seconds for its turn.
    """

    def __init__(self, preset: str, message_bytes: float, target: str) -> None:
        suits = _BIGROOTS_CHARACTERS if preset == BIGROOTS else _STEP_BYTES
        length = max(1, int(message_bytes)) if message_bytes else suits
        self.size = float(length)
        self.by_processor = not target
        self._parts = [b"x" * min(_AT_ONCE, length - sent) for sent in range(0, length, _AT_ONCE)]
        self._buffer = bytearray(_AT_ONCE)
        self._connection, self._server = _connect(target)
        for end in filter(None, (self._connection, self._server)):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step(self) -> None:
        for part in self._parts:
            self._connection.sendall(part)
            if self._server is not None:
                _receive(self._server, len(part), self._buffer)
                self._server.sendall(part)
            _receive(self._connection, len(part), self._buffer)


def _receive(end: socket.socket, missing: int, buffer: bytearray) -> None:
    while missing:
        received = end.recv_into(buffer, missing)
        if not received:
            raise ConnectionError("the echo server closed the connection")
        missing -= received


def _connect(target: str) -> tuple[socket.socket, socket.socket | None]:
    """Our end of a connection, and the other one if it is here, too."""
    if target:
        host, _, port = target.rpartition(":")
        try:
            connection = _connect_to_echo(host, int(port))
        except OSError as exc:
            raise NotSettable(
                f"no echo server answers at {target}: {exc.strerror or exc}",
                f"start one there: python -m insitu.injectors.anomalies.work.echo {port}",
            ) from exc
        return connection, None
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        connection = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    if connection.getsockname() != accepted.getpeername():
        raise ConnectionError("somebody else connected to the echo server")
    return connection, accepted


def _connect_to_echo(host: str, port: int) -> socket.socket:
    """A connection through which a byte has come back: the kernel of a server that is full connects, too."""
    connection = socket.create_connection((host, port), timeout=_CONNECT_S)
    try:
        connection.sendall(b"?")
        if connection.recv(1) != b"?":
            raise ConnectionError("what is sent does not come back")
    except OSError:
        connection.close()
        raise
    connection.settimeout(None)
    return connection


def serve(connection: socket.socket) -> None:
    """Send back what comes, until nothing does."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(_STEP_BYTES)
    view = memoryview(buffer)
    while length := connection.recv_into(buffer):
        connection.sendall(view[:length])
