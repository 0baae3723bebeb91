"""What the agent and the server of links say to each other: one JSON document per packet of a local socket."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import get_args

from insitu.injectors.network.link import Link

_LARGEST = 1 << 16
_MOST_FILES = 4


@dataclass(frozen=True, slots=True)
class Make:
    """Make a link for the subject whose process 1 is `init`; its interfaces are called `name`."""

    init: int
    name: str
    link: Link
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """It stands. Comes with sockets that ask about its ends, the subject's first, and with the gauges if any."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It cannot be made; `foreign` says that something in the way is not ours."""

    message: str
    remedy: str = ""
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """End the link."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The gateway is gone; `early` says how, if it went before it was asked to."""

    early: str = ""


Message = Make | Made | Refused | End | Ended
_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def send(connection: socket.socket, message: Message, files: tuple[int, ...] = ()) -> None:
    """Send one message, with open files; raises `OSError` when the other side is gone."""
    socket.send_fds(connection, [json.dumps([type(message).__name__, asdict(message)]).encode()], list(files))


def receive(connection: socket.socket) -> tuple[Message | None, tuple[int, ...]]:
    """Take one message and the files that it came with; ``None`` when the other side is gone."""
    packet, files, _, _ = socket.recv_fds(connection, _LARGEST, _MOST_FILES)
    if not packet:
        return None, ()
    name, fields = json.loads(packet)
    if name == "Make":
        fields["link"] = Link(**fields["link"])
    message: Message = _KINDS[name](**fields)
    return message, tuple(files)
