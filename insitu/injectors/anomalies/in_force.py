"""A load that holds: what it asks for and what it gets, sampled while it does, and when it was there."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from insitu.injectors.actuator import Moment, MomentKind
from insitu.injectors.anomalies.board import Mark
from insitu.injectors.anomalies.client import RunningLoad
from insitu.injectors.anomalies.counters import GroupCounters, ProcessFile, ProcessState, ProcessTimes
from insitu.injectors.anomalies.load import Kind
from insitu.injectors.contract import Node

_BY_PROCESSOR = (Kind.CPU, Kind.MEMORY_BANDWIDTH, Kind.CACHE)
"""Kinds that the kernel can bear out: their workers run, or wait for a processor, whenever they are at work."""
MOVED = {Kind.DISK: "write_bytes", Kind.NET: "sent_bytes", Kind.MEMORY_BANDWIDTH: "moved_bytes"}
"""Kind to the column of what its workers moved."""


class _AtWork:
    """How long one worker has been at work: by its own clock, as far as the kernel bears it out."""

    def __init__(self, mark: Mark, by_processor: bool) -> None:
        self._mark = mark
        self._state = ProcessState(mark.pid)
        self._times = ProcessTimes([mark.pid])
        self._bears_out = by_processor and self._times.supported
        self._surplus_s = self._times.wanted_s() - mark.busy_s(time.monotonic()) if self._bears_out else 0.0

    def busy_s(self, now: float) -> float:
        busy_s = self._mark.busy_s(now if self._state.going() else 0.0)
        if self._bears_out:
            return min(busy_s, self._times.wanted_s() - self._surplus_s)
        return busy_s

    def at_hand_s(self, now: float) -> float:
        """How long the stretch at hand has lasted; 0 for a worker that is stopped or ended."""
        return self._mark.at_hand_s(now) if self._state.going() else 0.0

    def close(self) -> None:
        self._state.close()
        self._times.close()


class LoadInForce:
    """One load, read by the sampler.

    Columns, each with the injector's variable and a colon in front: ``open_s``, how long its windows have been
    open; ``demand``, the integral over that time of what was asked for (of a load that holds memory: of what is
    held); ``cpu_s``, processor time; and what was moved or held.
    """

    def __init__(self, running: RunningLoad, group: Mapping[str, Path], node: Node) -> None:
        self._running = running
        self._load = running.load
        self._marks = running.board.marks
        self._group = GroupCounters(group, node.hierarchies, node.device)
        self._times = ProcessTimes(running.pids)
        own_server = self._load.kind is Kind.NET and not self._load.target
        by_processor = self._load.kind in _BY_PROCESSOR or own_server
        self._workers = [_AtWork(mark, by_processor) for mark in self._marks]
        self._resident = [ProcessFile(mark.pid, "statm") for mark in self._marks]
        self._began = self._integrated_at = time.monotonic()
        self._held_s = 0.0
        self._started: float | None = None
        self._last: dict[str, float] | None = None
        self._moments_seen: tuple[Moment, ...] = ()

    def columns(self) -> Mapping[str, Callable[[], float]]:
        return {f"{self._load.variable}:{name}": self._reader(name) for name in self._readings()}

    def _reader(self, name: str) -> Callable[[], float]:
        return lambda: self._last[name] if self._last is not None else self._readings()[name]()

    def _readings(self) -> dict[str, Callable[[], float]]:
        readings = {"open_s": self._open_s, "demand": self._demand, "cpu_s": self._cpu_s}
        if self._load.kind in MOVED:
            readings[MOVED[self._load.kind]] = self._moved_bytes
        if self._load.kind is Kind.DISK and self._group.counts_writes:
            readings["write_ops"] = self._group.written_ops
        if self._load.kind is Kind.MEMORY:
            readings["resident_bytes"] = self._resident_bytes
        return readings

    def started(self, at: float) -> None:
        self._started = at
        if self._load.windows is not None:
            self._running.start_windows(at)

    def ended(self) -> tuple[Moment, ...]:
        if self._last is None:
            still_held = self._load.kind is Kind.MEMORY and self._resident_bytes() > 0
            self._last = {name: read() for name, read in self._readings().items()}
            self._running.end()
            self._moments_seen = tuple(self._moments(time.monotonic(), still_held))
        return self._moments_seen

    def close(self) -> None:
        self._group.close()
        self._times.close()
        for worker in self._workers:
            worker.close()
        for file in self._resident:
            file.close()

    # readings

    def _open_s(self) -> float:
        now = time.monotonic()
        if self._load.windows is None:
            return now - self._began
        if self._started is None:
            return 0.0
        elapsed = now - self._started
        return sum(min(max(0.0, elapsed - w.begin_s), w.end_s - w.begin_s) for w in self._load.windows)

    def _demand(self) -> float:
        load = self._load
        if load.kind is Kind.MEMORY:
            return self._integral_of_held()
        return load.levels_per_unit * (self._offered() if load.rate else self._busy_s())

    def _offered(self) -> float:
        """Bytes that fell due, those of the steps at hand included: the longer one lasts, the more wait for it."""
        now = time.monotonic()
        at_hand_s = sum(worker.at_hand_s(now) for worker in self._workers)
        return sum(mark.offered for mark in self._marks) + at_hand_s * self._load.rate / self._load.workers

    def _busy_s(self) -> float:
        """Time that the workers were at work, those that were stopped apart."""
        now = time.monotonic()
        return sum(worker.busy_s(now) for worker in self._workers)

    def _integral_of_held(self) -> float:
        now = time.monotonic()
        self._held_s += self._resident_bytes() * (now - self._integrated_at)
        self._integrated_at = now
        return self._held_s

    def _cpu_s(self) -> float:
        return self._group.cpu_s() if self._group.counts_cpu else self._times.ran_s()

    def _moved_bytes(self) -> float:
        done = sum(mark.done for mark in self._marks)
        if self._load.kind is Kind.DISK and self._group.counts_writes:
            return max(done, self._group.written_bytes())  # the kernel may write some back outside the group
        return done

    def _resident_bytes(self) -> float:
        """Of what is held, the part that is in memory."""
        total = 0.0
        for mark, file in zip(self._marks, self._resident, strict=True):
            words = file.read().split()
            if file.alive and mark.held:
                own = (int(words[1]) - int(words[2])) * mmap.PAGESIZE - mark.base
                total += max(0.0, min(mark.held, own))
        return total

    def _moments(self, ended: float, still_held: bool) -> Iterator[Moment]:
        if self._started is None:
            return
        for number, window in enumerate(self._load.windows or (None,)):
            there = [one for mark in self._marks if (one := mark.presence(number)).first]
            if not there:
                continue
            first, last = min(one.first for one in there), max(one.last for one in there)
            if still_held and number == self._window_at(ended):
                last = ended
            planned = (None, None) if window is None else (window.begin_s, window.end_s)
            for kind, planned_s, at in zip(MomentKind, planned, (first, last), strict=True):
                yield Moment(kind, self._load.variable, planned_s, at - self._started)

    def _window_at(self, at: float) -> int:
        """Number of the window that is open; -1 if none is."""
        if self._load.windows is None:
            return 0
        assert self._started is not None
        elapsed = at - self._started
        open_ones = [n for n, w in enumerate(self._load.windows) if w.begin_s <= elapsed <= w.end_s]
        return open_ones[0] if open_ones else -1
