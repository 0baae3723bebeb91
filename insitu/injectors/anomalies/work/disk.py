"""Writes to a file that is as large at the end as at the beginning."""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path

from insitu.injectors.anomalies.load import BIGROOTS

_BLOCK = 4096
_STEP_BYTES = 1 << 18
_FILE_BYTES = 1 << 24
_FILL_BYTES = 1 << 20
_BIGROOTS_CHARACTERS = 10**8
_BIGROOTS_STEP = 10**6


class DirectWrites:
    """Overwrites one file of 16 MiB again and again, past the page cache, each block on the disk at its return.

    Where a file system has no direct writes, through the page cache and with fdatasync(2).

    Parameters
    ----------
    step_bytes
        Bytes per write; 0 for a size that suits.
    """

    by_processor = False

    def __init__(self, path: Path, step_bytes: float = 0.0) -> None:
        self._length = max(_BLOCK, int(step_bytes) // _BLOCK * _BLOCK) if step_bytes else _STEP_BYTES
        self._end = max(1, _FILE_BYTES // self._length) * self._length
        _fill(path, self._end)
        self._file, self._syncs = _open(path)
        self._buffer = mmap.mmap(-1, self._length)  # page-aligned, as direct writes must be
        self._buffer.write(os.urandom(_BLOCK) * (self._length // _BLOCK))
        self._at = 0
        self.size = float(self._length)

    def step(self) -> None:
        os.pwrite(self._file, self._buffer, self._at)
        if self._syncs:
            os.fdatasync(self._file)
        self._at = (self._at + self._length) % self._end


def _fill(path: Path, length: int) -> None:
    """Have the file system place the whole file, so that overwriting it changes nothing but its data."""
    with path.open("wb") as file:
        for at in range(0, length, _FILL_BYTES):
            file.write(bytes(min(_FILL_BYTES, length - at)))
        file.flush()
        os.fsync(file.fileno())


def _open(path: Path) -> tuple[int, bool]:
    """A file for direct writes; gives it, and whether each write must be followed by a sync."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        return os.open(path, flags | os.O_DIRECT | os.O_DSYNC), False
    return os.open(path, flags), True


class HugeWrites:
    """Writes of 10^8 characters, one after the other, each on the disk before the next begins.

    Notes
    -----
    The generator of disk contention of the BigRoots paper (see `insitu.injectors.anomalies.work.cpu`): 10^8
    characters written in a loop, eight processes. Here a loop overwrites what the one before it wrote, so that
    the disk does not fill up, and waits for the disk at its end, since else it would only overwrite memory.
    """

    size = float(_BIGROOTS_STEP)
    by_processor = False

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._characters = b"x" * _BIGROOTS_STEP
        self._at = 0

    def step(self) -> None:
        os.pwrite(self._file, self._characters, self._at)
        self._at += _BIGROOTS_STEP
        if self._at == _BIGROOTS_CHARACTERS:
            os.fdatasync(self._file)
            self._at = 0


def writes(preset: str, path: Path, step_bytes: float) -> DirectWrites | HugeWrites:
    return HugeWrites(path) if preset == BIGROOTS else DirectWrites(path, step_bytes)
