"""The archive that a kernel unpacks into its first file system ("newc" cpio)."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder of root's; `mode` is its type and permissions, as in ``st_mode``."""

    name: str
    mode: int
    content: bytes = b""


def folder(name: str) -> Member:
    return Member(name, stat.S_IFDIR | 0o755)


def file(name: str, content: bytes, permissions: int = 0o644) -> Member:
    return Member(name, stat.S_IFREG | permissions, content)


def archive(members: Iterable[Member]) -> bytes:
    """Pack members, folders before what is in them.

    Notes
    -----
    The format is the kernel's own (Documentation/driver-api/early-userspace/buffer-format.rst): a header of
    hexadecimal fields, name and content, each padded to four bytes.
    """
    packed = b"".join(_packed(member, number) for number, member in enumerate(members, start=1))
    return packed + _packed(Member("TRAILER!!!", 0), 0)


def _packed(member: Member, inode: int) -> bytes:
    name = member.name.encode() + b"\0"
    links, unused = 1, 0
    fields = (inode, member.mode, 0, 0, links, 0, len(member.content), *[unused] * 4, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(member.content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
