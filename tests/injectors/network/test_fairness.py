"""One flow of datagrams, however many, leaves others their turn."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from insitu.injectors.network.datagrams import AT_ONCE, Flows
from insitu.injectors.network.loop import Loop

_MANY = 3 * AT_ONCE


def _connected(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two datagram sockets of the loopback that send to each other."""
    pair = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)]
    for one in pair:
        one.bind(("127.0.0.1", 0))
        one.setblocking(False)
    for one, other in zip(pair, reversed(pair), strict=True):
        one.connect(other.getsockname())
    return pair[0], pair[1]


def _arrived(end: socket.socket) -> int:
    count = 0
    while True:
        try:
            end.recv(1)
        except BlockingIOError:
            return count
        count += 1


def test_a_flow_passes_on_so_many_at_once_and_the_rest_later() -> None:
    with ExitStack() as stack:
        subject, inner = _connected(stack)
        outer, far = _connected(stack)
        loop = Loop()
        flows = Flows(loop)
        flows.send((subject.getsockname(), far.getsockname()), b"1", lambda: (inner, outer))
        assert _arrived(far) == 1
        for _ in range(_MANY):
            subject.send(b"1")
        loop.turn(patience_s=0.0)
        assert _arrived(far) == AT_ONCE
        while loop.turn(patience_s=0.0):
            pass
        assert _arrived(far) == _MANY - AT_ONCE
