"""Counters of one trial over time: of its control groups, of its processes, of its disk.

Files are opened once and read in place, so that a sample costs some ten system calls.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.contract import Device, Probe

Row = dict[str, float]
_Parser = Callable[[bytes, Row], None]
_SECTOR_BYTES = 512


class Sampler:
    """Takes samples of one trial until it is closed.

    Parameters
    ----------
    group
        The trial's control groups; without them, processes are read below `follow`.
    device
        The disk whose completions are counted.

    Attributes
    ----------
    measures_cpu
        Whether the groups count processor time; else the process tree does, until it ends.
    """

    def __init__(self, group: Mapping[str, Path], hierarchies: Hierarchies, device: Device | None) -> None:
        self._sources: list[tuple[int, _Parser]] = []
        self._watched: dict[str, Callable[[], float]] = {}
        self._companions: list[Callable[[], None]] = []
        self._rows: list[Row] = []
        self._tree: _ProcessTree | None = None
        self.measures_cpu = False
        version = hierarchies.version
        if "cpuacct" in group and version["cpuacct"] == 1:
            self._add(group["cpuacct"] / "cpuacct.usage", _cpuacct_usage)
            self.measures_cpu = True
        if "cpu" in group:
            self._add(group["cpu"] / "cpu.stat", _cpu_stat_1 if version["cpu"] == 1 else _cpu_stat_2)
            self.measures_cpu |= version["cpu"] == 2
        if "io" in group and device is not None:
            if version["io"] == 1:
                self._add(group["io"] / "blkio.throttle.io_service_bytes", _io_1(device.number, "bytes"))
                self._add(group["io"] / "blkio.throttle.io_serviced", _io_1(device.number, "ops"))
            else:
                self._add(group["io"] / "io.stat", _io_2(device.number))
        self._peak: int | None = None
        if "memory" in group:
            old = version["memory"] == 1
            name = "memory.usage_in_bytes" if old else "memory.current"
            self._add(group["memory"] / name, _number("memory_bytes"))
            self._peak = _open_peak(group["memory"] / ("memory.max_usage_in_bytes" if old else "memory.peak"))
        if PRESSURE in group:
            for resource in ("cpu", "io", "memory"):
                self._add(group[PRESSURE] / f"{resource}.pressure", _pressure(f"{resource}_stall_s"))
        if device is not None:
            self._add(Path("/sys/block") / device.name / "stat", _device)

    def _add(self, path: Path, parser: _Parser) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.pread(descriptor, 64, 0)  # pressure files refuse here where the kernel has them switched off
        except OSError:
            return
        self._sources.append((descriptor, parser))

    def watch(self, columns: Mapping[str, Callable[[], float]]) -> None:
        """Sample further columns, each by a call."""
        self._watched.update(columns)

    def accompany(self, look: Callable[[], None]) -> None:
        """Call something with every sample."""
        self._companions.append(look)

    def probe(self, probes: Iterable[Probe], group: Mapping[str, Path]) -> None:
        """Sample numbers in files; one that is not there has no column."""
        for probe in probes:
            parser = _number(probe.column, probe.scale)
            if probe.key:
                parser = _keyed(probe.column, probe.key.encode(), probe.scale)
            if not probe.controller:
                self._add(Path(probe.path), parser)
            elif probe.controller in group:
                self._add(group[probe.controller] / probe.path, parser)

    def follow(self, pid: int) -> None:
        """Read processor time from the processes below `pid`, if no group counts it."""
        if not self.measures_cpu:
            self._tree = _ProcessTree(pid)

    def take(self, time_s: float) -> Row:
        """Take one sample, stamped `time_s` after the subject's start."""
        row: Row = {"time_s": time_s}
        for descriptor, parser in self._sources:
            parser(os.pread(descriptor, 8192, 0), row)
        if not self.measures_cpu:
            row["cpu_s"] = self._tree.cpu_s() if self._tree else 0.0
        if self._peak is not None:
            row["memory_peak_bytes"] = float(os.pread(self._peak, 64, 0))
        for column, read in self._watched.items():
            row[column] = read()
        self._rows.append(row)
        for look in self._companions:
            look()
        return row

    def drop_from(self, time_s: float) -> None:
        """Forget samples from a time on: one may be taken while word of the end is under way."""
        while len(self._rows) > 1 and self._rows[-1]["time_s"] >= time_s:
            self._rows.pop()

    def correct_last(self, **values: float) -> None:
        """Replace values of the last sample by ones known exactly."""
        self._rows[-1].update(values)

    def columns(self) -> dict[str, np.ndarray]:
        """All samples so far: name to float array, all of one length."""
        names = list(self._rows[0]) if self._rows else []
        return {name: np.array([row.get(name, np.nan) for row in self._rows]) for name in names}

    def peak_memory_bytes(self) -> float | None:
        """Most memory that the group held since this sampler was made, where the node counts it."""
        return None if self._peak is None else float(os.pread(self._peak, 64, 0))

    def close(self) -> None:
        """Close the files."""
        if self._peak is not None:
            os.close(self._peak)
            self._peak = None
        for descriptor, _ in self._sources:
            os.close(descriptor)
        self._sources = []


def _open_peak(path: Path) -> int | None:
    """Open a high-water mark and reset it: preparing the trial may have raised it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # version 2 before Linux 6.12: the mark then includes the preparation
        os.write(descriptor, b"0")
    return descriptor


class _ProcessTree:
    """Processor time of all processes below one, including those that have ended meanwhile."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, int], float] = {}

    def cpu_s(self) -> float:
        for pid in self._descendants(self._root):
            try:
                tasks = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for task in tasks:
                used = self._read(f"/proc/{pid}/task/{task}/schedstat").split()
                if used:
                    self._seen[pid, int(task)] = int(used[0]) / 1e9
        return sum(self._seen.values())

    def _descendants(self, pid: int) -> Sequence[int]:
        children = [int(word) for word in self._read(f"/proc/{pid}/task/{pid}/children").split()]
        return children + [deeper for child in children for deeper in self._descendants(child)]

    @staticmethod
    def _read(path: str) -> str:
        try:
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""


def _number(name: str, scale: float = 1.0) -> _Parser:
    def parse(text: bytes, row: Row) -> None:
        row[name] = scale * float(text)

    return parse


def _keyed(name: str, key: bytes, scale: float) -> _Parser:
    def parse(text: bytes, row: Row) -> None:
        words = text.split()
        row[name] = scale * float(words[words.index(key) + 1]) if key in words else float("nan")

    return parse


def _cpuacct_usage(text: bytes, row: Row) -> None:
    row["cpu_s"] = int(text) / 1e9


def _fields(text: bytes) -> dict[bytes, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _cpu_stat_1(text: bytes, row: Row) -> None:
    stat = _fields(text)
    row["periods"], row["throttled_periods"] = stat[b"nr_periods"], stat[b"nr_throttled"]
    row["throttled_s"] = stat[b"throttled_time"] / 1e9


def _cpu_stat_2(text: bytes, row: Row) -> None:
    stat = _fields(text)
    row["cpu_s"] = stat[b"usage_usec"] / 1e6
    if b"nr_periods" in stat:
        row["periods"], row["throttled_periods"] = stat[b"nr_periods"], stat[b"nr_throttled"]
        row["throttled_s"] = stat[b"throttled_usec"] / 1e6


def _io_1(device: str, what: str) -> _Parser:
    marks = {f"{device} {way} ".encode(): f"{way.lower()}_{what}" for way in ("Read", "Write")}

    def parse(text: bytes, row: Row) -> None:
        for mark, name in marks.items():
            _, found, rest = text.partition(mark)
            row[name] = float(rest.split(None, 1)[0]) if found else 0.0

    return parse


def _io_2(device: str) -> _Parser:
    mark = f"{device} ".encode()

    def parse(text: bytes, row: Row) -> None:
        row.update(dict.fromkeys(("read_bytes", "write_bytes", "read_ops", "write_ops"), 0.0))
        for line in text.splitlines():
            if line.startswith(mark):
                pairs = dict(word.split(b"=", 1) for word in line.split()[1:] if b"=" in word)
                row["read_bytes"] = float(pairs.get(b"rbytes", 0))
                row["write_bytes"] = float(pairs.get(b"wbytes", 0))
                row["read_ops"] = float(pairs.get(b"rios", 0))
                row["write_ops"] = float(pairs.get(b"wios", 0))

    return parse


def _pressure(name: str) -> _Parser:
    def parse(text: bytes, row: Row) -> None:
        # "some avg10=… total=123\nfull …": microseconds in which at least one task was stalled
        row[name] = int(text.partition(b"total=")[2].split(None, 1)[0]) / 1e6

    return parse


def _device(text: bytes, row: Row) -> None:
    # https://docs.kernel.org/block/stat.html; requests that were merged into others are counted with them
    fields = [float(field) for field in text.split()]
    row["device_read_ops"], row["device_write_ops"] = fields[0] + fields[1], fields[4] + fields[5]
    row["device_read_bytes"], row["device_write_bytes"] = fields[2] * _SECTOR_BYTES, fields[6] * _SECTOR_BYTES
    row["device_busy_s"] = fields[9] / 1e3
    if len(fields) > 15:  # since Linux 5.5
        row["device_flushes"] = fields[15]
