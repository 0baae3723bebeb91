"""Memory that the workers of one load write to and the agent reads: no call, no message, no lock.

All cells are doubles that one process writes: eight aligned bytes, so a reader sees the old or the new value.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from enum import IntEnum, auto

_CELL = 8


class _Head(IntEnum):
    START = 0
    """When the subject was executed, by the monotonic clock; 0 until then."""
    END = auto()


class _Cell(IntEnum):
    """A worker's own cells; its windows' first and last moments follow."""

    PID = 0
    DONE = auto()
    """Bytes that were moved."""
    OFFERED = auto()
    """Bytes that were asked for by the clock, moved or not, until the end of the last step."""
    BUSY_S = auto()
    """Time of finished stretches of work."""
    BUSY_SINCE = auto()
    """Begin of the stretch at hand, 0 between two."""
    BUSY_UNTIL = auto()
    """Its end by the clock."""
    HELD = auto()
    """Bytes of memory that it holds."""
    BASE = auto()
    """Bytes that it had in memory before."""
    END = auto()


@dataclass(frozen=True, slots=True)
class Presence:
    """First and last moment of work, by the monotonic clock; 0 for none."""

    first: float
    last: float


class Mark:
    """The cells of one worker."""

    def __init__(self, cells: memoryview[float], first: int) -> None:
        self._cells = cells
        self._first = first
        self._window = first + _Cell.END

    def _get(self, cell: int) -> float:
        return float(self._cells[self._first + cell])

    @property
    def pid(self) -> int:
        return int(self._get(_Cell.PID))

    @property
    def done(self) -> float:
        return self._get(_Cell.DONE)

    @property
    def offered(self) -> float:
        return self._get(_Cell.OFFERED)

    @property
    def held(self) -> float:
        return self._get(_Cell.HELD)

    @property
    def base(self) -> float:
        return self._get(_Cell.BASE)

    def busy_s(self, now: float) -> float:
        """Time at work until now."""
        return self._get(_Cell.BUSY_S) + self.at_hand_s(now)

    def at_hand_s(self, now: float) -> float:
        """Time for which the stretch at hand has lasted by the clock; 0 between two."""
        since, until = self._get(_Cell.BUSY_SINCE), self._get(_Cell.BUSY_UNTIL)
        return max(0.0, min(now, until) - since) if since else 0.0

    def presence(self, window: int) -> Presence:
        first = self._first + _Cell.END + 2 * window
        return Presence(float(self._cells[first]), float(self._cells[first + 1]))

    # the worker's side

    def introduce(self, pid: int, base: float) -> None:
        self._cells[self._first + _Cell.PID] = float(pid)
        self._cells[self._first + _Cell.BASE] = base

    def enter(self, window: int) -> None:
        """Moments of work count for this window from now on."""
        self._window = self._first + _Cell.END + 2 * window

    def begin(self, now: float, on: float, off: float) -> None:
        """A stretch of work begins, which is from `on` to `off` by the clock."""
        self._cells[self._first + _Cell.BUSY_UNTIL] = off
        self._cells[self._first + _Cell.BUSY_SINCE] = on
        if not self._cells[self._window]:
            self._cells[self._window] = now

    def progress(self, done: float, now: float) -> None:
        """A step of the stretch is done."""
        self._cells[self._first + _Cell.DONE] += done
        self._cells[self._window + 1] = now

    def end(self, busy_s: float) -> None:
        """The stretch is over, and counts as so much time at work."""
        self._cells[self._first + _Cell.BUSY_SINCE] = 0.0
        self._cells[self._first + _Cell.BUSY_S] += busy_s

    def offer(self, size: float) -> None:
        self._cells[self._first + _Cell.OFFERED] += size

    def hold(self, held: float) -> None:
        self._cells[self._first + _Cell.HELD] = held


class Board:
    """The cells of one load; made by the agent, mapped by its workers through the same descriptor."""

    def __init__(self, descriptor: int, workers: int, windows: int) -> None:
        self._stride = _Cell.END + 2 * max(1, windows)
        self._map = mmap.mmap(descriptor, self.size(workers, windows))
        self._cells = memoryview(self._map).cast("d")
        self.marks = tuple(Mark(self._cells, _Head.END + worker * self._stride) for worker in range(workers))

    @staticmethod
    def size(workers: int, windows: int) -> int:
        """In bytes."""
        return _CELL * (_Head.END + workers * (_Cell.END + 2 * max(1, windows)))

    @staticmethod
    def make(workers: int, windows: int) -> int:
        """Memory without a name, all zero, to be given to both sides; gives its descriptor."""
        descriptor = os.memfd_create("insitu-board", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, Board.size(workers, windows))
        return descriptor

    @property
    def start(self) -> float:
        return float(self._cells[_Head.START])

    @start.setter
    def start(self, at: float) -> None:
        self._cells[_Head.START] = at
