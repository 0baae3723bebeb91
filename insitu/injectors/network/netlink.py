"""Netlink, as much of it as links need: batches with acknowledgements, and dumps.

A library (pyroute2 0.9) was measured first: 0.22 s to import, and 0.7 to 3 ms per message, which is more for one
link than a trial may spend on all of them. Here the messages of a link leave in one system call.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

ROUTE, SOCKETS, NETFILTER = 0, 4, 12
"""Families of netlink sockets: NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_NETFILTER."""

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
CREATE, EXCLUSIVE = 0x400, 0x200
_ERROR, _DONE = 2, 3
_NFTABLES, _BATCH_BEGIN, _BATCH_END = 10, 16, 17
_HEADER = struct.Struct("=IHHII")
_NESTED = 0x8000
_SOL_NETLINK, _EXT_ACK = 270, 11
_LARGEST = 1 << 16
_PATIENCE = struct.pack("@ll", 5, 0)
"""The kernel answers at once, or not at all."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request; `what` names it where the kernel refuses it."""

    kind: int
    body: bytes
    flags: int = 0
    what: str = ""


class Refused(OSError):
    """The kernel refused a message: `errno`, and its own words where it has some."""


class Netlink:
    """A socket that speaks to the network namespace that it was made in, from wherever it is used afterwards."""

    def __init__(self, family: int = ROUTE, descriptor: int | None = None) -> None:
        if descriptor is None:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
            self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            self._socket.bind((0, 0))
        else:
            self._socket = socket.socket(fileno=descriptor)
        self._sequence = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def request(self, *messages: Message) -> None:
        """Send messages in one batch, and wait until each is acknowledged.

        Raises
        ------
        Refused
            For the first that the kernel refused; those after it were tried all the same.
        """
        names = self._send(messages, acknowledged=range(len(messages)))
        refused: Refused | None = None
        while names:
            for sequence, error in self._answers(names):
                del names[sequence]
                refused = refused or error
        if refused is not None:
            raise refused

    def transact(self, *messages: Message) -> None:
        """Send messages that the kernel takes all together or not at all (nf_tables).

        Raises
        ------
        Refused
            For the one that it refused.
        """
        envelope = struct.pack("=BBH", 0, 0, socket.htons(_NFTABLES))
        begin, end = Message(_BATCH_BEGIN, envelope), Message(_BATCH_END, envelope)
        names = self._send((begin, *messages, end), acknowledged=(len(messages),))
        while True:
            for sequence, error in self._answers(names):
                if error is not None:
                    raise error
                if sequence == self._sequence - 1:
                    return

    def _send(self, messages: Sequence[Message], acknowledged: Container[int]) -> dict[int, str]:
        """Send a batch; gives what each message is, by the number that its answer will carry."""
        names: dict[int, str] = {}
        packet = bytearray()
        for place, message in enumerate(messages):
            self._sequence += 1
            names[self._sequence] = message.what
            flags = REQUEST | message.flags | (ACK if place in acknowledged else 0)
            packet += _HEADER.pack(_HEADER.size + len(message.body), message.kind, flags, self._sequence, 0)
            packet += message.body + bytes(-len(message.body) % 4)
        self._socket.send(packet)
        return names

    def _answers(self, names: Mapping[int, str]) -> Iterator[tuple[int, Refused | None]]:
        for kind, sequence, flags, body in self._receive():
            if kind == _ERROR and sequence in names:
                code = -struct.unpack_from("=i", body)[0]
                yield sequence, Refused(code, _words(code, names[sequence], flags, body)) if code else None

    def find(self, kind: int, body: bytes) -> bytes | None:
        """Body of the one thing asked for; ``None`` if there is no such thing."""
        self._sequence += 1
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, REQUEST, self._sequence, 0) + body)
        while True:
            for answer, sequence, _, found in self._receive():
                if sequence != self._sequence:
                    continue
                if answer != _ERROR:
                    return found
                code = -struct.unpack_from("=i", found)[0]
                if code == errno.ENOENT:
                    return None
                raise Refused(code, os.strerror(code))

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Bodies of what the kernel lists."""
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, kind, REQUEST | DUMP, self._sequence, 0) + body)
        while True:
            for answer, sequence, _, found in self._receive():
                if sequence != self._sequence:
                    continue
                if answer == _DONE:
                    return
                if answer == _ERROR:
                    code = -struct.unpack_from("=i", found)[0]
                    raise Refused(code, os.strerror(code))
                yield found

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        packet = self._socket.recv(_LARGEST)
        place = 0
        while place + _HEADER.size <= len(packet):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(packet, place)
            yield kind, sequence, flags, packet[place + _HEADER.size : place + length]
            place += length + -length % 4

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _words(code: int, what: str, flags: int, body: bytes) -> str:
    """What the kernel says about a refusal: the error, and the text that newer kernels add."""
    text = os.strerror(code)
    if flags & 0x200:  # NLM_F_ACK_TLVS; NLM_F_CAPPED (0x100) says that the request is not repeated in full
        (length,) = struct.unpack_from("=I", body, 4)
        start = 4 + (_HEADER.size if flags & 0x100 else length + -length % 4)
        for kind, value in attributes(body[start:]):
            if kind == 1:
                text += f" ({value.rstrip(bytes(1)).decode(errors='replace')})"
    return f"{what}: {text}" if what else text


def attribute(kind: int, value: bytes | int | str) -> bytes:
    """One attribute; numbers are 32 bits wide, text ends with NUL."""
    if isinstance(value, int):
        value = struct.pack("=I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """An attribute of attributes."""
    return attribute(kind | _NESTED, b"".join(parts))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kinds and values of attributes in a row; their flags are left out."""
    place = 0
    while place + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, place)
        if length < 4:
            return
        yield kind & 0x3FFF, data[place + 4 : place + length]
        place += length + -length % 4


def exists(error: OSError) -> bool:
    """Whether something was there already."""
    return error.errno == errno.EEXIST
