"""Whether a file's pages are in memory, and making it so or not, for that file alone."""

from __future__ import annotations

import ctypes
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


def make_cold(path: Path) -> float:
    """Write a file back and drop its pages; gives the share of it that is still in memory, 0 to 1."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # only clean pages can be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return _resident_share(descriptor)
    finally:
        os.close(descriptor)


def make_warm(path: Path) -> float:
    """Read a file into memory; gives the share of it that is there, 0 to 1."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while os.read(descriptor, 1 << 20):
            pass
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
