"""A server for subjects that measure their network, in a process of its own; it keeps what they report.

One TCP connection per wish, whose first line says what is wanted: ``down SECONDS BYTES_PER_S`` (0 for as fast as
it goes), ``up SECONDS`` or ``report NUMBER ...``. Datagrams are sent back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.benchmarks.net_subject import received
from insitu.injectors.anomalies.process import die_with_parent

_BLOCK = bytes(1 << 18)
_TICK_S = 0.002


@dataclass(frozen=True, slots=True)
class FarEnd:
    """Where it listens, and what subjects report to it."""

    address: str
    port: int
    _reports: int

    def reported(self) -> tuple[float, ...]:
        """The next report; waits for it."""
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self._reports, 1)
        return tuple(map(float, line.split()))


@contextlib.contextmanager
def far_end() -> Iterator[FarEnd]:
    """Serve on one address of this host: one that others reach, or its loopback's where it has none."""
    address = _own_address()
    reading, writing = os.pipe()
    with (
        socket.create_server((address, 0), backlog=64) as streams,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        port = streams.getsockname()[1]
        datagrams.bind((address, port))
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                die_with_parent(parent)
                threading.Thread(target=_echo, args=(datagrams,), daemon=True).start()
                while True:
                    connection, _ = streams.accept()
                    threading.Thread(target=_serve, args=(connection, writing), daemon=True).start()
            finally:
                os._exit(1)
        os.close(writing)
        try:
            yield FarEnd(address, port, reading)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reading)


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"
        name: str = probe.getsockname()[0]
        return name


def _echo(datagrams: socket.socket) -> None:
    while True:
        data, peer = datagrams.recvfrom(2048)
        datagrams.sendto(data, peer)


def _serve(connection: socket.socket, reports: int) -> None:
    with connection, contextlib.suppress(OSError):
        words = b""
        while not words.endswith(b"\n"):
            words += connection.recv(1)
        wish, *numbers = words.decode().split()
        if wish == "report":
            os.write(reports, f"{' '.join(numbers)}\n".encode())
            connection.sendall(b".")
        elif wish == "down":
            _send(connection, float(numbers[0]), float(numbers[1]))
        else:
            got = received(connection, float(numbers[0]))
            while connection.recv(len(_BLOCK)):  # what is left unread would reset the connection
                pass
            connection.sendall(" ".join(map(str, got)).encode())


def _send(connection: socket.socket, seconds: float, rate: float) -> None:
    began = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < began + seconds:
        if not rate:
            connection.send(_BLOCK)
            continue
        time.sleep(_TICK_S)
        due = rate * (now - began) - sent
        sent += connection.send(_BLOCK[: max(1, int(due))])
