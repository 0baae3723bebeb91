"""A value of the host in a file: set it, and put it back only while it still reads as we left it.

Files that hold one short value: those of sysfs and procfs, and ordinary ones of a user's device. What the host
has in them is not ours and carries no mark, so the text that we wrote is what tells that nobody else has
changed it since.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.errors import ForeignState, UndoFailed

_LONGEST = 64 * 1024
_KERNEL = ("/proc/", "/sys/")


@dataclass(frozen=True, slots=True)
class Change:
    """A value that was changed, once or several times in a row.

    Attributes
    ----------
    prior
        What the file read before the first change, to be written back as it stands here.
    written
        What it read after each change.
    """

    path: str
    prior: str
    written: tuple[str, ...]


def chains(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Join changes of the same file, given the latest first, so that putting back is one step.

    A change whose text is not what the next one found had been put back in between (or somebody else had
    stepped in): it is settled, and dropped.
    """
    joined: dict[str, Change] = {}
    settled: set[str] = set()
    for change in changes:
        later = joined.get(change.path)
        if later is None:
            joined[change.path] = change
        elif change.path not in settled and any(_same(text, later.prior) for text in change.written):
            joined[change.path] = Change(change.path, change.prior, (*later.written, *change.written))
        else:
            settled.add(change.path)
    return tuple(joined.values())


def read_value(path: Path | str) -> str:
    """The text of a value file, as it stands.

    Raises
    ------
    ForeignState
        If it is a link, no regular file, or too long for a value.
    OSError
        If it cannot be read.
    """
    descriptor = _open(path, os.O_RDONLY)
    try:
        return _read(descriptor, path).decode(errors="surrogateescape")
    finally:
        os.close(descriptor)


def write_value(path: Path | str, text: str) -> None:
    """Write a value in one system call, so that a crash leaves the old or the new one.

    The kernel takes a value of its own files by the call; in an ordinary file, blank lines cover what a
    shorter text would leave of a longer one, and are cut off afterwards.

    Raises
    ------
    ForeignState
        If it is a link or no regular file.
    OSError
        If it cannot be written, or the value is refused.
    """
    descriptor = _open(path, os.O_RDWR)
    try:
        data = text.encode(errors="surrogateescape")
        size = os.fstat(descriptor).st_size
        if size != len(_read(descriptor, path)):  # the kernel's own files say 0 or 4096
            size = 0
        padded = data.ljust(size, b"\n")
        if os.pwrite(descriptor, padded, 0) != len(padded):
            raise OSError(errno.EIO, "the value was taken in part", str(path))
        if size > len(data):
            os.ftruncate(descriptor, len(data))
        _keep(descriptor)
    finally:
        os.close(descriptor)


def put_back(change: Change, *, rebooted: bool = False) -> str:
    """Write the prior value back if the file reads as we left it, and verify it; done already is fine.

    Parameters
    ----------
    rebooted
        The change was made before the last boot, which has reset the kernel's own values, whatever they read
        now. An ordinary file that is gone or reads otherwise is as the host wants it, too.

    Returns
    -------
    str
        What there is to know beyond success; mostly nothing.

    Raises
    ------
    ForeignState
        If somebody else has changed it since; it is left alone.
    UndoFailed
        If it cannot be put back.
    """
    try:
        current = read_value(change.path)
        if current == change.prior:
            return ""
        if rebooted and change.path.startswith(_KERNEL):
            return f"it was reset by the boot, and reads {current.strip()!r}"
        # with blank lines after it, it was being put back when whoever did it was killed
        if not any(_same(current, text) for text in (change.prior, *change.written)):
            if rebooted:
                return f"it reads {current.strip()!r} since the boot; left alone"
            raise ForeignState(
                f"it reads {current.strip()!r}, but {change.written[0].strip()!r} was written over "
                f"{change.prior.strip()!r}: somebody else has changed it; left alone",
                f"echo '{change.prior.strip()}' > {change.path}; insitu recover",
            )
        write_value(change.path, change.prior)
        now = read_value(change.path)
    except FileNotFoundError as exc:
        if rebooted:
            return "it is gone since the boot"
        raise UndoFailed(
            f"it is gone, and may come back with the {change.written[0].strip()!r} that was written",
            "bring it back, then run insitu recover",
        ) from exc
    except OSError as exc:
        raise UndoFailed(f"it cannot be put back: {exc.strerror}", "run insitu recover as root") from exc
    if not _same(now, change.prior):
        raise UndoFailed(
            f"it reads {now.strip()!r} after {change.prior.strip()!r} was written back", "insitu recover"
        )
    return ""


def _keep(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # procfs has nothing to keep
            raise


def _same(one: str, other: str) -> bool:
    return one.strip() == other.strip()


def _open(path: Path | str, flags: int) -> int:
    try:
        # nonblocking: a pipe in its place must not hold us up
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise ForeignState(f"{path} is a link, not the file of a value; left alone") from exc
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ForeignState(f"{path} is no regular file; left alone")
    return descriptor


def _read(descriptor: int, path: Path | str) -> bytes:
    content = b""
    while part := os.pread(descriptor, _LONGEST + 1 - len(content), len(content)):
        content += part
        if len(content) > _LONGEST:
            raise ForeignState(f"{path} is too long for a value; left alone")
    return content
