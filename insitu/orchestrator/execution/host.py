"""What the rest of the machine did during a trial: the subject's node is not always its own.

Others may run beside the subject: what they take is no harm as long as the subject did not want it. The rules
look at windows of a quarter of a second, so that a load that comes and goes is not averaged away.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.injectors.added import added
from insitu.injectors.anomalies.counters import last_level_cache_bytes
from insitu.injectors.binding import starved_intervals_s
from insitu.orchestrator.units import percent

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_WINDOW_S = 0.25
_DISTURBED_SHARE = 0.1
"""Part of a trial's time that may lie in crowded windows: the begin and the end of a program are uneven."""
_CROWDED_CORES = 0.25
_SHORT_OF_IDLE = 0.1
_SOME_CORES, _STARVED_SHARE = 0.1, 0.1
"""A subject that waits for a processor so long, while others use at least so much, waits for them."""
_LEAST_LEFT = 0.4
"""Share of the crowd's limit that remains beside an added load: the agent itself uses a few percent of a core."""
_STEAL_CORES = 0.05
_WAITS_FOR_DISK = 0.02
_CROWDED_DISK, _CROWDED_BYTES, _CROWDED_BYTES_PER_S = 0.1, 1e6, 1e6
_JOURNAL_BYTES = 32768.0
"""What the file system's own thread may write for each flush of the disk that the subject causes."""
_SHORT_OF_MEMORY = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """Processor time of the whole machine since boot, in core seconds, at a time of the monotonic clock.

    Attributes
    ----------
    kernel_s
        The part of `busy_s` that was not spent in programs themselves.
    held_bytes
        Memory that processes hold, files apart; ``nan`` where the kernel does not say.
    received_bytes
        What came in by any network interface, the loopback included, since boot; ``nan`` likewise.
    """

    at: float
    busy_s: float
    idle_s: float
    steal_s: float
    kernel_s: float = math.nan
    held_bytes: float = math.nan
    received_bytes: float = math.nan


def read_times() -> Reading:
    """From the first line of /proc/stat, where guest time is part of user time; and what else the host does."""
    with open("/proc/stat", "rb") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    kernel = system + irq + softirq
    return Reading(
        time.monotonic(),
        (user + nice + kernel) * _TICK_S,
        (idle + iowait) * _TICK_S,
        steal * _TICK_S,
        kernel * _TICK_S,
        _held_bytes(),
        _received_bytes(),
    )


def _held_bytes() -> float:
    try:
        with open("/proc/meminfo", "rb") as file:
            known = {words[0]: int(words[1]) for line in file if (words := line.split())}
        return 1024.0 * (known[b"AnonPages:"] + known[b"Shmem:"])
    except (OSError, KeyError, ValueError):
        return math.nan


def _received_bytes() -> float:
    try:
        with open("/proc/net/dev", "rb") as file:
            return float(sum(int(line.partition(b":")[2].split()[0]) for line in file.readlines()[2:]))
    except (OSError, IndexError, ValueError):
        return math.nan


class HostTimes:
    """Takes a reading at its making, whenever `take` is called a window later, and at the end."""

    def __init__(self) -> None:
        self._readings = [read_times()]

    def take(self) -> None:
        """To be called often; mostly does nothing."""
        if time.monotonic() - self._readings[-1].at >= _WINDOW_S:
            self._readings.append(read_times())

    def end(self) -> tuple[Reading, ...]:
        """All readings; a last window that would be short is joined to the one before."""
        last = read_times()
        if len(self._readings) > 1 and last.at - self._readings[-1].at < _WINDOW_S / 2:
            self._readings.pop()
        return (*self._readings, last)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a trial.

    Attributes
    ----------
    other_cores
        Processor time per second that was neither the subject's nor added on purpose.
    starved_share
        Part in which the subject waited for a processor, and neither a cap nor its own threads explain it.
    """

    span_s: float
    other_cores: float
    idle_cores: float
    added_cores: float
    starved_share: float

    @property
    def crowded(self) -> bool:
        """Whether others had what the subject wanted.

        Beside an added load nobody gets what they want, and others have less of what is left, so less of it
        counts. A tick or two of the kernel's accounting may be in the wrong window.
        """
        slack = 2 * _TICK_S / self.span_s
        cores = os.cpu_count() or 1
        limit = _CROWDED_CORES * max(_LEAST_LEFT, 1 - self.added_cores / cores)
        if self.other_cores > limit + slack and self.idle_cores < _SHORT_OF_IDLE:
            return True
        return self.starved_share > _STARVED_SHARE and self.other_cores > _SOME_CORES + slack


@dataclass(frozen=True, slots=True)
class Trial:
    """What is known of a trial's use of the machine.

    Attributes
    ----------
    started
        On the monotonic clock.
    dirtied_bytes
        What its processes wrote to files, wherever and whenever it reached the disk.
    memory_is_limited
        Whether it may be short of memory by its own limit, or by what was added beside it.
    slower_share
        How much slower than at their best the processors were; not a number where that is not known.
    tolerated_slowdown
        How much of that is no disturbance.
    """

    samples: Mapping[str, np.ndarray]
    started: float
    wall_s: float
    dirtied_bytes: float = 0.0
    memory_is_limited: bool = False
    slower_share: float = math.nan
    tolerated_slowdown: float = math.inf

    def total(self, column: str) -> float:
        """How much a counter grew over the trial; 0 where it is not sampled."""
        values = self.samples.get(column)
        return 0.0 if values is None or len(values) < 2 else float(values[-1] - values[0])


def windows(readings: Sequence[Reading], trial: Trial) -> tuple[Window, ...]:
    """Between each reading and the next, what others did and what the subject went without."""
    time_s = trial.samples["time_s"]
    if len(time_s) < 2:
        return ()
    starved_s = np.concatenate(([0.0], np.cumsum(starved_intervals_s(trial.samples, float(os.cpu_count() or 1)))))
    ours = [name for name in trial.samples if name == "cpu_s"]
    beside = [name for name in trial.samples if name.partition(":")[2] == "cpu_s"]
    found = []
    for before, after in itertools.pairwise(readings):
        span_s = after.at - before.at
        ends = np.array([before.at, after.at]) - trial.started

        def grown(counter: np.ndarray, ends: np.ndarray = ends) -> float:
            return float(np.diff(np.interp(ends, time_s, counter))[0])

        own_s, added_s = (sum(grown(trial.samples[name]) for name in names) for names in (ours, beside))
        found.append(
            Window(
                span_s,
                max(0.0, after.busy_s - before.busy_s - own_s - added_s) / span_s,
                (after.idle_s - before.idle_s) / span_s,
                added_s / span_s,
                grown(starved_s) / span_s,
            )
        )
    return tuple(found)


def load_of(readings: Sequence[Reading], trial: Trial) -> dict[str, float]:
    """Load of others over a trial, for its record.

    Returns
    -------
    dict
        ``other_cores``, ``idle_cores``, ``steal_cores`` (taken by the hypervisor), ``other_disk_bytes``,
        ``crowded_share`` of its time; ``added_cores``, if something was added; of the whole machine, the subject
        included, ``kernel_cores``, ``network_bytes`` (received) and the most memory that was held, ``held_bytes``;
        beside it the size of the last-level cache, ``cache_bytes``, and how much slower than at their best the
        processors were, ``slower_share``. What the machine does not tell is left out.
    """
    if trial.wall_s <= 0 or len(readings) < 2:
        return {}
    parts = windows(readings, trial)
    span_s = readings[-1].at - readings[0].at
    added_s = added(trial.samples, "cpu_s")
    load = {
        "other_cores": sum(one.other_cores * one.span_s for one in parts) / span_s,
        "idle_cores": (readings[-1].idle_s - readings[0].idle_s) / span_s,
        "steal_cores": max(0.0, readings[-1].steal_s - readings[0].steal_s - _TICK_S) / span_s,
        "other_disk_bytes": _other_disk_bytes(trial),
        "crowded_share": sum(one.span_s for one in parts if one.crowded) / span_s,
    }
    whole = {
        "kernel_cores": (readings[-1].kernel_s - readings[0].kernel_s) / span_s,
        "network_bytes": readings[-1].received_bytes - readings[0].received_bytes,
        "held_bytes": max(one.held_bytes for one in readings),
        "cache_bytes": float(last_level_cache_bytes()) or math.nan,
        "slower_share": trial.slower_share,
    }
    load |= {name: value for name, value in whole.items() if math.isfinite(value)}
    return load | ({"added_cores": added_s / trial.wall_s} if added_s else {})


def disturbance(load: Mapping[str, float], trial: Trial) -> str:
    """Why a trial's host counts as disturbed, or nothing."""
    if not load:
        return ""
    if load["steal_cores"] > _STEAL_CORES:
        return f"the hypervisor took {load['steal_cores']:.2f} cores"
    if load["crowded_share"] > _DISTURBED_SHARE:
        when = "" if load["crowded_share"] > 0.9 else f", in {load['crowded_share']:.0%} of the time too many"
        return f"other processes used {load['other_cores']:.2f} cores{when}"
    moved = trial.total("read_bytes") + max(trial.total("write_bytes"), trial.dirtied_bytes)
    allowed = _CROWDED_DISK * moved + _CROWDED_BYTES + _CROWDED_BYTES_PER_S * trial.wall_s
    if trial.total("io_stall_s") > _WAITS_FOR_DISK * trial.wall_s and load["other_disk_bytes"] > allowed:
        return f"others moved {load['other_disk_bytes'] / 1e6:.1f} MB to or from the disk, and the subject waited"
    if not trial.memory_is_limited and trial.total("memory_stall_s") > _SHORT_OF_MEMORY * trial.wall_s:
        return "the machine was short of memory"
    if load.get("slower_share", 0.0) > trial.tolerated_slowdown:
        slower, tolerated = percent(load["slower_share"]), percent(trial.tolerated_slowdown)
        return f"the processors were {slower} slower than at their best, of which {tolerated} are tolerated"
    return ""


def _other_disk_bytes(trial: Trial) -> float:
    """What neither the subject nor what was added moved over its disk.

    On version 1 buffered writes reach the disk outside the subject's group, so what it dirtied is taken off, too.
    """
    if "device_read_bytes" not in trial.samples or "read_bytes" not in trial.samples:
        return 0.0
    read = trial.total("device_read_bytes") - trial.total("read_bytes") - added(trial.samples, "read_bytes")
    own = max(trial.total("write_bytes"), trial.dirtied_bytes) + added(trial.samples, "write_bytes")
    journal = _JOURNAL_BYTES * min(trial.total("device_flushes"), trial.total("write_ops"))
    return max(0.0, read) + max(0.0, trial.total("device_write_bytes") - own - journal)
