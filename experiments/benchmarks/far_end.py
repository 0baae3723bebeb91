"""A server for subjects that measure their network, in a process of its own; it keeps what they report.

One TCP connection per wish, whose first line says what is wanted: ``down SECONDS BYTES_PER_S`` (0 for as fast as it
goes), ``up SECONDS`` or ``report NUMBER ...``. Datagrams are sent back.
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
    """Serve on every address of this host."""
    address = _own_address()
    reading, writing = os.pipe()
    with (
        socket.create_server(("0.0.0.0", 0), backlog=64) as streams,  # noqa: S104 - as a server in place would
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        port = streams.getsockname()[1]
        datagrams.bind(("0.0.0.0", port))  # noqa: S104
        pid = os.fork()
        if pid == 0:
            try:
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
        elif wish == "down":
            _send(connection, float(numbers[0]), float(numbers[1]))
        else:
            connection.sendall(" ".join(map(str, received(connection, float(numbers[0])))).encode())


def _send(connection: socket.socket, seconds: float, rate: float) -> None:
    began = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < began + seconds:
        due = rate * (now - began) - sent if rate else len(_BLOCK)
        if due > 0:
            sent += connection.send(_BLOCK[: int(due) + 1])
        else:
            time.sleep(_TICK_S)


def received(connection: socket.socket, seconds: float, settle_s: float = 0.5) -> tuple[int, float]:
    """Bytes and seconds, after the transfer has settled."""
    connection.recv(1)
    began = start = time.monotonic()
    total = 0
    settled = False
    while data := connection.recv(1 << 18):
        now = time.monotonic()
        if not settled and now > began + settle_s:
            settled, start, total = True, now, 0
        elif settled:
            total += len(data)
            if now > began + seconds:
                break
    return total, now - start


SUBJECT = """
import socket, statistics, sys, threading, time
address, port, what, seconds, load = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), float(sys.argv[5])

def wish(text):
    connection = socket.create_connection((address, port))
    connection.sendall(text.encode() + b"\\n")
    return connection

def report(*numbers):
    wish("report " + " ".join(map(str, numbers))).close()

def received(connection, seconds, settle=0.5):
    connection.recv(1)
    began = start = now = time.monotonic()
    total, settled = 0, False
    while data := connection.recv(1 << 18):
        now = time.monotonic()
        if not settled and now > began + settle:
            settled, start, total = True, now, 0
        elif settled:
            total += len(data)
            if now > began + seconds:
                break
    return total, now - start

if what == "down":
    report(*received(wish(f"down {seconds + 1} 0"), seconds))
elif what == "up":
    connection, block, end = wish(f"up {seconds}"), bytes(1 << 18), time.monotonic() + seconds + 1
    connection.settimeout(0.5)
    try:
        while time.monotonic() < end:
            connection.send(block)
    except OSError:
        pass
    connection.settimeout(30)
    connection.shutdown(socket.SHUT_WR)
    report(*map(float, connection.recv(100).split()))
else:
    if load:
        def drain(connection):
            while connection.recv(1 << 18): pass
        threading.Thread(target=drain, args=(wish(f"down {seconds + 1} {load}"),), daemon=True).start()
        time.sleep(0.5)
    trips = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, port))
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(trips) < 5:
            begin = time.monotonic()
            s.send(b"there and back")
            try:
                s.recv(100)
            except TimeoutError:
                continue
            trips.append(time.monotonic() - begin)
            time.sleep(0.02)
    trips.sort()
    report(statistics.median(trips), trips[int(0.9 * len(trips))], len(trips))
"""
"""A subject: moves bytes for a while, or measures round trips, with or without a load beside them."""
