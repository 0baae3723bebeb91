"""What a subject sent before it ended arrives, though its network ends with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from insitu.injectors.network import server
from insitu.injectors.network.link import Link
from tests.injectors.network import hosts
from tests.injectors.network.linked import linked

MBIT = 1e6 / 8
SIZE = 100_000

SEND_AND_EXIT = """
import os, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * int(sys.argv[3]))
s.connect((sys.argv[1], int(sys.argv[2])))
s.sendall(bytes(int(sys.argv[3])))
os._exit(0)
"""

FILL = """
import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setblocking(False)
sent = 0
while select.select([], [s], [], 0.5)[1]:
    sent += s.send(bytes(1 << 16))
print(sent, flush=True)
os._exit(0)
"""

GIVE_UP = """
import os, socket, sys, time
s = socket.socket()
s.setblocking(False)
s.connect_ex((sys.argv[1], int(sys.argv[2])))
time.sleep(0.3)
os._exit(0)
"""

KEEP = """
import os, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b"hello")
assert s.recv(5) == b"hello"
os._exit(0)
"""


class FarEnd:
    """A server that reads when it is told to, and counts."""

    def __init__(self) -> None:
        self.read = threading.Event()
        self.ended = threading.Event()
        self.count = 0

    def serve(self, connection: socket.socket) -> None:
        self.read.wait()
        try:
            while data := connection.recv(1 << 16):
                self.count += len(data)
        finally:
            self.ended.set()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long a link waits; what is longer than the agent waits for an answer fails a test that needs it."""
    return lambda seconds: monkeypatch.setattr(server, "_LAST_WORDS_S", seconds)


LINKS = [
    pytest.param(Link(rate_out=MBIT), id="at a rate"),
    pytest.param(Link(delay=0.4, by_line=True), id="late", marks=pytest.mark.tun),
    pytest.param(Link(rate_out=MBIT, delay=0.2, by_line=True), id="late, at a rate", marks=pytest.mark.tun),
    pytest.param(Link(loss=0.02, by_line=True), id="with losses", marks=pytest.mark.tun),
]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("by_loopback", [True, False])
def test_what_was_sent_arrives(link: Link, patience: Callable[[float], None], *, by_loopback: bool) -> None:
    patience(15.0)
    address = "127.0.0.1" if by_loopback else hosts.own_address()
    if not address:
        pytest.skip("this host has only its loopback")
    far = FarEnd()
    far.read.set()
    with hosts.serving(far.serve, address) as port:
        with linked(link) as here:
            here.run(SEND_AND_EXIT, address, str(port), str(SIZE))
        assert far.ended.wait(10)
        assert far.count == SIZE


def test_a_far_end_that_takes_nothing_is_not_waited_for(patience: Callable[[float], None]) -> None:
    patience(0.2)
    far = FarEnd()
    with hosts.serving(far.serve) as port:
        with linked(Link(rate_out=100 * MBIT)) as here:
            sent = int(here.run(FILL, "127.0.0.1", str(port)))
        far.read.set()
        assert far.ended.wait(10)
        assert 0 < far.count < sent


def test_a_connection_that_stays_open_is_not_waited_for(patience: Callable[[float], None]) -> None:
    patience(600.0)
    closing = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.sendall(connection.recv(5))
        closing.wait()

    with hosts.serving(serve) as port:
        with linked(Link(rate_out=MBIT)) as here:
            here.run(KEEP, "127.0.0.1", str(port))
        closing.set()


@pytest.mark.tun
def test_a_connection_that_was_given_up_is_not_waited_for(patience: Callable[[float], None]) -> None:
    address = hosts.own_address()
    if not address:
        pytest.skip("this host has only its loopback")
    patience(600.0)
    with hosts.serving(hosts.echo, address) as port, linked(Link(delay=0.4, by_line=True)) as here:
        here.run(GIVE_UP, address, str(port))
