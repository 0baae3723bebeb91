"""Servers on the host for subjects to reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def serving(
    serve: Callable[[socket.socket], None],
    address: str = "127.0.0.1",
    family: socket.AddressFamily = socket.AF_INET,
) -> Iterator[int]:
    """Serve each TCP connection in a thread of its own; gives the port."""
    with socket.create_server((address, 0), family=family, backlog=512) as waiting:

        def accept() -> None:
            while True:
                try:
                    connection, _ = waiting.accept()
                except OSError:
                    return
                threading.Thread(target=_quietly, args=(serve, connection), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield waiting.getsockname()[1]
        waiting.shutdown(socket.SHUT_RDWR)


def _quietly(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with connection:
        try:
            serve(connection)
        except OSError:
            return


@contextmanager
def answering(
    answer: Callable[[bytes], bytes], address: str = "127.0.0.1", family: socket.AddressFamily = socket.AF_INET
) -> Iterator[int]:
    """Answer each datagram; gives the port."""
    with socket.socket(family, socket.SOCK_DGRAM) as waiting:
        waiting.bind((address, 0))

        def serve() -> None:
            while True:
                data, peer = waiting.recvfrom(1 << 16)
                if data == b"":
                    return
                waiting.sendto(answer(data), peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield waiting.getsockname()[1]
        with socket.socket(family, socket.SOCK_DGRAM) as stopping:
            stopping.sendto(b"", (address, waiting.getsockname()[1]))
        thread.join()


def echo(connection: socket.socket) -> None:
    """Send everything back, and end when the other side has."""
    while data := connection.recv(1 << 16):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def own_address() -> str:
    """An address of this host that is not its loopback's, or nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return ""
        name: str = probe.getsockname()[0]
        return name
