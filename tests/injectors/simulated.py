"""Small simulations of a quota and of a disk throttle: what their counters would read, and what really happened.

They know which of the verdicts is the right one, because they made it happen; the injectors see the counters only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

STEP_S = 0.025
_TICK_S = 0.0005


@dataclass(frozen=True, slots=True)
class Processors:
    """A subject under a quota.

    Attributes
    ----------
    quota
        Cores that are really enforced; infinity for none.
    threads, wanted
        How many, and the part of every 5 ms in which each wants to run, in tenths.
    left
        Share of the time, in turns of 4 ms, in which others leave the processors to the subject.
    """

    period_s: float
    quota: float
    threads: int
    wanted: float = 1.0
    left: float = 1.0
    cpus: int = 2

    def samples(self, wall_s: float = 2.0) -> dict[str, np.ndarray]:
        """What a trial would have sampled."""
        columns: dict[str, list[float]] = {name: [0.0] for name in ("time_s", *_CPU_COLUMNS)}
        used = stalled = stopped = in_period = 0.0
        periods = throttled = 0
        was_throttled, next_sample = False, STEP_S
        for tick in range(1, round(wall_s / _TICK_S) + 1):
            now = tick * _TICK_S
            wants = tick % 10 < round(self.wanted * 10)
            turn = tick // 8
            theirs = math.floor((turn + 1) * self.left + 1e-9) == math.floor(turn * self.left + 1e-9)
            runnable = self.threads if wants else 0
            running = 0 if theirs else min(runnable, self.cpus)
            if in_period >= self.quota * self.period_s - 1e-12:
                running, was_throttled = 0, was_throttled or runnable > 0
                stopped += _TICK_S if was_throttled else 0.0
            used, in_period = used + running * _TICK_S, in_period + running * _TICK_S
            stalled += _TICK_S if runnable > running else 0.0
            if now >= (periods + 1) * self.period_s - 1e-9:
                periods, throttled = periods + 1, throttled + was_throttled
                in_period, was_throttled = max(0.0, in_period - self.quota * self.period_s), False
            if now >= next_sample - 1e-9:
                next_sample += STEP_S
                values = (now, used, float(periods), float(throttled), stopped, stalled, 0.0)
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        return {name: np.array(column) for name, column in columns.items()}


_EARLY_S = 0.02
"""By how much the throttle lets data through before their time."""
_CPU_COLUMNS = ("cpu_s", "periods", "throttled_periods", "throttled_s", "cpu_stall_s", "io_stall_s")


@dataclass(frozen=True, slots=True)
class Disk:
    """A subject that reads pieces of a file and works on each for a while, under a throttle.

    Attributes
    ----------
    cap
        Bytes per second that are really enforced; infinity for none.
    speed
        Bytes per second of the disk, of which others take `others`.
    piece, work_s
        What it reads at once, and how long it works on that.
    begin_s
        When it begins to read.
    """

    cap: float
    speed: float
    piece: float = 262144.0
    work_s: float = 0.0
    others: float = 0.0
    begin_s: float = 0.0

    def samples(self, wall_s: float = 3.0) -> dict[str, np.ndarray]:
        """What a trial would have sampled, until the first piece that ends after `wall_s`."""
        now, waited, moved = self.begin_s, 0.0, 0.0
        events = [(0.0, 0.0, 0.0), *([(now, 0.0, 0.0)] if now else [])]  # time, bytes, time waited so far
        begins: list[float] = []
        while now < wall_s:
            begins.append(now)
            through = self.piece / max(self.speed - self.others, self.speed * 0.02)
            end = max(now + through, self.begin_s + (moved + self.piece) / self.cap - _EARLY_S)
            waited, moved = waited + end - now, moved + self.piece
            events.append((end, moved, waited))
            now = end + self.work_s
            if self.work_s:
                events.append((now, moved, waited))
        ends, amounts, waits = (np.array(column) for column in zip(*events, strict=True))
        time_s = np.append(np.arange(0.0, now - STEP_S / 2, STEP_S), now)
        done = amounts[np.searchsorted(ends, time_s, side="right") - 1]
        busy_s = np.minimum(time_s, (done + self.others * time_s) / self.speed)
        return {
            "time_s": time_s,
            "read_bytes": np.searchsorted(begins, time_s) * self.piece,  # counted when asked for
            "device_read_bytes": done + self.others * time_s,
            "io_stall_s": np.interp(time_s, ends, waits),
            "device_busy_s": busy_s,
        }
