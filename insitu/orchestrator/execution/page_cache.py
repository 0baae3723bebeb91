"""Whether a file's pages are in memory, and making it so or not, for that file alone."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
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


def keep(path: Path, share: float) -> float:
    """Write a file back, and leave its first `share` (0 to 1) in memory and nothing else of it.

    All pages are dropped first: who reads them in again is whose memory they count as, and those of the input
    are not the subject's.

    Returns
    -------
    float
        Share of it that is in memory now, 0 to 1.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # only clean pages can be dropped
        pages = math.ceil(os.fstat(descriptor).st_size / _PAGE)
        wanted = round(share * pages) * _PAGE
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if wanted < pages * _PAGE:
            # Nothing may be read ahead: a page on its way from the disk cannot be dropped, nor part of a folio.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        left = wanted
        while left > 0 and (read := len(os.read(descriptor, min(left, 1 << 20)))):
            left -= read
        return _resident_share(descriptor)
    finally:
        os.close(descriptor)


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
