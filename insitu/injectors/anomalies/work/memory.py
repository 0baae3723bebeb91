"""Memory: the way to it, the cache before it, and its room."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

import numpy as np

from insitu.injectors.errors import NotSettable

_STEP_BYTES = 512 * 1024
_LINE_BYTES = 64
_LEAST_LEFT = 0.05
"""Share of the machine's memory that must be left after a load has taken its part."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Stream:
    """Copies from one buffer to another, both beyond the last-level cache.

    Parameters
    ----------
    cache_bytes
        Size of that cache.
    step_bytes
        Bytes to move per step, read and written together; 0 for a size that suits.
    """

    by_processor = True

    def __init__(self, cache_bytes: int, step_bytes: float = 0.0) -> None:
        part = int(step_bytes) // 2 or _STEP_BYTES
        parts = max(4, -(-2 * cache_bytes // part))
        source, target = (np.ones(parts * part, np.uint8) for _ in range(2))
        cuts = [slice(first, first + part) for first in range(0, parts * part, part)]
        self._parts = [(source[cut], target[cut]) for cut in cuts]
        self._next = 0
        self.size = 2.0 * part
        """As STREAM counts: what is read and what is written."""

    def step(self) -> None:
        source, target = self._parts[self._next]
        np.copyto(target, source)
        self._next = (self._next + 1) % len(self._parts)


class Sweep:
    """Writes to every line of a buffer as large as the last-level cache, to have it instead of others."""

    size = 0.0
    by_processor = True

    def __init__(self, cache_bytes: int) -> None:
        buffer = np.ones(cache_bytes, np.uint8)
        lines = buffer[::_LINE_BYTES]
        part = _STEP_BYTES // _LINE_BYTES
        self._parts = [lines[first : first + part] for first in range(0, len(lines), part)]
        self._next = 0

    def step(self) -> None:
        lines = self._parts[self._next]
        np.add(lines, 1, out=lines)
        self._next = (self._next + 1) % len(self._parts)


class Room:
    """Memory that is taken and held: locked where that is allowed, else touched once."""

    def __init__(self, held_bytes: float) -> None:
        self._length = -(-int(held_bytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map: mmap.mmap | None = None

    def take(self) -> float:
        self._refuse_the_last()
        self._map = mmap.mmap(-1, self._length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        cell = ctypes.c_char.from_buffer(self._map)
        address = ctypes.addressof(cell)
        if _libc.mlock(address, self._length):  # beyond RLIMIT_MEMLOCK
            ctypes.memset(address, 1, self._length)
        del cell
        return float(self._length)

    def give_back(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None

    def _refuse_the_last(self) -> None:
        facts = {}
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                facts[name] = int(rest.split()[0]) * 1024
        left = facts["MemAvailable"] - self._length
        if left < _LEAST_LEFT * facts["MemTotal"]:
            raise NotSettable(
                f"{self._length / 1e6:.0f} MB of memory would leave {max(0, left) / 1e6:.0f} MB for all others",
                "ask for less, or free some",
            )


def resident_bytes() -> float:
    """What this process has in memory by itself."""
    with contextlib.suppress(OSError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        fields = file.read().split()
        return float((int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGESIZE"))
    return 0.0
