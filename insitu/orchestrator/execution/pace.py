"""How fast the processors are while a trial runs.

Two hardware threads share a core. Where a hypervisor does not show which processors are such a pair, another
machine on the other thread takes a third of a core's speed and leaves no trace in any counter of this one: no time
is stolen, the same work takes longer. Only work shows it. So a thread of the agent does a small piece of work on
one processor after the other, some hundred microseconds forty times a second, and compares its processor time with
the best that it has seen.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from insitu.injectors import processors

_EVERY_S = 0.025
_PIECES = 3
"""Of which the fastest counts: the first one finds caches as the subject left them."""
_BEST = 10
"""Percentile of all looks at a processor that stands for its speed when nobody is in its way."""
_REMEMBERED = 20_000
"""Latest looks at a processor: of two, those of a quarter of an hour."""
_MOST = 8
"""Processors that are looked at: of more, some evenly between."""
_LOOKS_BEFORE, _LOOKS_AT_FIRST = 4, 40
"""At each processor, before a trial that would not count on slow ones; and before the first one."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_TEXT = b" ".join(b"%x" % (number * number) for number in range(500))[:3000]


def piece_s() -> float:
    """Processor time of a small piece of work, in seconds: integers, branches and a little memory.

    The interpreter's lock is not held meanwhile, so that the thread that takes samples need not wait.
    """
    before = time.thread_time_ns()
    zlib.compress(_TEXT, 6)
    return (time.thread_time_ns() - before) * 1e-9


@dataclass(frozen=True, slots=True)
class Look:
    """What a piece of work took on a processor."""

    processor: int
    piece_s: float


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen in a stretch of time.

    Attributes
    ----------
    busy_s
        Processor time that the machine used on each processor meanwhile; empty until its end.
    """

    looks: list[Look] = field(default_factory=list)
    busy_s: dict[int, float] = field(default_factory=dict)


def busy_times() -> dict[int, float]:
    """Processor time that was used on each processor since boot, in seconds."""
    with open("/proc/stat", "rb") as file:
        rows = [line.split() for line in file if line[:3] == b"cpu" and line[3:4].isdigit()]
    return {int(row[0][3:]): _TICK_S * sum(map(int, (*row[1:4], *row[6:8]))) for row in rows}


class Pace:
    """Remembers how fast each processor can be, for as long as an agent lives.

    Parameters
    ----------
    allowed
        Processors that a subject may use.
    piece
        What is timed.

    Notes
    -----
    Where processors are known to be threads of one core, nothing is looked at: others on it are other processes
    then, which are seen as such, and the subject's own threads would slow each other.
    """

    def __init__(self, allowed: Sequence[int], piece: Callable[[], float] = piece_s) -> None:
        step = max(1, math.ceil(len(allowed) / _MOST))
        self.processors = () if processors.sharing_is_known(allowed) else tuple(allowed[::step])
        self._piece = piece
        self._known: dict[int, deque[float]] = {one: deque(maxlen=_REMEMBERED) for one in self.processors}

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Look at the processors inside this context; the looks become more meanwhile."""
        watch, over = Watch(), threading.Event()
        if not self.processors:
            yield watch
            return
        before = busy_times()
        watcher = threading.Thread(target=self._look_on, args=(watch.looks, over), name="insitu-pace", daemon=True)
        watcher.start()
        try:
            yield watch
        finally:
            over.set()
            watcher.join()
            watch.busy_s.update({one: busy_s - before.get(one, 0.0) for one, busy_s in busy_times().items()})

    def slower_share(self, looks: Sequence[Look], busy_s: Mapping[int, float] = MappingProxyType({})) -> float:
        """How much longer than at best a piece took, over all processors; not a number without looks.

        Each counts by the work that was done on it: a slow one on which nobody works is no harm.
        """
        shares, weights = [], []
        for processor, known in self._known.items():
            seen = [one.piece_s for one in looks if one.processor == processor]
            if seen:
                shares.append(float(np.mean(seen) / np.percentile(known, _BEST)) - 1)
                weights.append(busy_s.get(processor, 0.0) + _TICK_S)
        return max(0.0, float(np.average(shares, weights=weights))) if shares else math.nan

    def wait_until_fast(self, tolerated: float, within_s: float) -> None:
        """Wait while the processors are slower than that, but no longer than so many seconds."""
        if not self.processors or tolerated == math.inf:
            return
        latest = _LOOKS_BEFORE * len(self.processors)
        enough = latest if any(self._known.values()) else _LOOKS_AT_FIRST * len(self.processors)
        deadline = time.monotonic() + within_s
        with self.watched() as watch:
            while len(watch.looks) < enough or self.slower_share(watch.looks[-latest:]) > tolerated:
                if time.monotonic() > deadline:
                    return
                time.sleep(_EVERY_S)

    def _look_on(self, looks: list[Look], over: threading.Event) -> None:
        for processor in itertools.cycle(self.processors):
            try:
                os.sched_setaffinity(0, {processor})  # of this thread alone
            except OSError:  # it has been taken from us, or switched off
                if over.wait(_EVERY_S):
                    return
                continue
            took_s = min(self._piece() for _ in range(_PIECES))
            self._known[processor].append(took_s)
            looks.append(Look(processor, took_s))
            if over.wait(_EVERY_S):
                return
