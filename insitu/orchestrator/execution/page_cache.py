"""Whether a file's pages are in memory, and making it so or not, for that file alone."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Callable
from pathlib import Path

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_WRITE_BACK = 0b111
"""Of sync_file_range(2): wait for what is under way, write the rest, and wait for it."""
_PIECE = 2 << 20
"""Between two calls of `meanwhile`: 0.2 s for a disk that manages 10 MB/s."""


def keep(path: Path, share: float, meanwhile: Callable[[], None] = lambda: None) -> float:
    """Write a file back, and leave its first `share` (0 to 1) in memory and nothing else of it.

    All pages are dropped first: who reads them in again is whose memory they count as, and those of the input
    are not the subject's.

    Parameters
    ----------
    meanwhile
        Called every few megabytes; what it raises ends this.

    Returns
    -------
    float
        Share of it that is in memory now, 0 to 1.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        _write_back(descriptor, size, meanwhile)  # only clean pages can be dropped
        pages = math.ceil(size / _PAGE)
        wanted = round(share * pages) * _PAGE
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if wanted < pages * _PAGE:
            # Nothing may be read ahead: a page on its way from the disk cannot be dropped, nor part of a folio.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        left = wanted
        while left > 0 and (read := len(os.read(descriptor, min(left, _PIECE)))):
            left -= read
            meanwhile()
        return _resident_share(descriptor)
    finally:
        os.close(descriptor)


def _write_back(descriptor: int, size: int, meanwhile: Callable[[], None]) -> None:
    """As fsync(2), but in pieces, for which alone there is no call: so that little is left to it."""
    for begin in range(0, size, _PIECE):
        meanwhile()
        if _libc.sync_file_range(descriptor, begin, _PIECE, _WRITE_BACK):
            raise OSError(ctypes.get_errno(), "sync_file_range")
    meanwhile()
    os.fsync(descriptor)
    meanwhile()


def _resident_share(descriptor: int) -> float:
    """By mincore(2), which counts pages that are present and up to date."""
    length = os.fstat(descriptor).st_size
    if length == 0:
        return 0.0
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = (length + _PAGE - 1) // _PAGE
        resident = ctypes.create_string_buffer(pages)
        if _libc.mincore(address, length, resident):
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(byte & 1 for byte in resident.raw) / pages
    finally:
        _libc.munmap(address, length)
