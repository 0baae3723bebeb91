"""One class per variable, as the entry points name them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from insitu.injectors.anomalies.counters import total_memory_bytes
from insitu.injectors.anomalies.levels import MOST_PROCESSES, PRESET, PROCESSES, TARGET, WINDOWS, Anomaly
from insitu.injectors.anomalies.load import Kind, Load
from insitu.injectors.contract import Capability, Node
from insitu.injectors.options import Option

_MOST_MEMORY = 0.8
"""Share of the machine's memory that can be asked for."""


class _Processes(Anomaly):
    """So many processes, at work all the time."""

    unit: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = (WINDOWS,)

    def reach(self, node: Node) -> tuple[float, float]:
        return 1.0, float(MOST_PROCESSES)

    def capability(self, node: Node) -> Capability:
        return replace(super().capability(node), step=1.0)

    def load(self, level: float) -> Load:
        how = self.how
        return Load(self.variable, self.kind, round(level), preset=how.preset, target=how.target)


class _Duty(Anomaly):
    """Each of some processes (one, unless the plan says), at work for this part of each period."""

    unit: ClassVar[str] = "fraction"
    least_tolerance: ClassVar[float] = 0.01
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PROCESSES)

    def reach(self, node: Node) -> tuple[float, float]:
        return 0.05, 1.0

    def load(self, level: float) -> Load:
        how, workers = self.how, max(1, self.how.processes)
        plain = Load(self.variable, self.kind, workers, preset=how.preset, target=how.target)
        return replace(plain, duty=level, levels_per_unit=1 / workers)


class _Rate(Anomaly):
    """So many bytes per second, asked for in steps at fixed times."""

    unit: ClassVar[str] = "B/s"
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PROCESSES)

    def reach(self, node: Node) -> tuple[float, float]:
        return 1e4, 1e11

    def load(self, level: float) -> Load:
        workers = max(1, self.how.processes)
        return Load(self.variable, self.kind, workers, rate=level, target=self.how.target)

    def edges(self, load: Load) -> float:
        return 0.02 * load.rate * load.levels_per_unit


class CpuLoad(_Processes):
    """Processor time: so many processes that always want a processor."""

    variable: ClassVar[str] = "anomaly.cpu"
    kind: ClassVar[Kind] = Kind.CPU
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PRESET)


class CpuDuty(_Duty):
    """Processor time: processes that want a processor for a part of each 0.1 s."""

    variable: ClassVar[str] = "anomaly.cpu.duty"
    kind: ClassVar[Kind] = Kind.CPU
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PROCESSES, PRESET)


class CpuRate(Anomaly):
    """Processor time: so many seconds of it wanted per second, by as few processes as can."""

    variable: ClassVar[str] = "anomaly.cpu.cores"
    unit: ClassVar[str] = "core"
    kind: ClassVar[Kind] = Kind.CPU
    least_tolerance: ClassVar[float] = 0.01
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PRESET)

    def reach(self, node: Node) -> tuple[float, float]:
        return 0.05, float(MOST_PROCESSES)

    def load(self, level: float) -> Load:
        workers = math.ceil(level)
        return Load(self.variable, self.kind, workers, duty=level / workers, preset=self.how.preset)


class DiskLoad(_Processes):
    """The disk under the run directory: so many processes that always write."""

    variable: ClassVar[str] = "anomaly.disk"
    kind: ClassVar[Kind] = Kind.DISK
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PRESET)


class DiskDuty(_Duty):
    """The disk: processes that write for a part of each 0.5 s."""

    variable: ClassVar[str] = "anomaly.disk.duty"
    kind: ClassVar[Kind] = Kind.DISK


class DiskRate(_Rate):
    """The disk: so many bytes per second to be written."""

    variable: ClassVar[str] = "anomaly.disk.rate"
    kind: ClassVar[Kind] = Kind.DISK


class NetLoad(_Processes):
    """A network: so many processes that always exchange messages with an echo server."""

    variable: ClassVar[str] = "anomaly.net"
    kind: ClassVar[Kind] = Kind.NET
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PRESET, TARGET)


class NetDuty(_Duty):
    """A network: processes that exchange messages for a part of each 0.1 s."""

    variable: ClassVar[str] = "anomaly.net.duty"
    kind: ClassVar[Kind] = Kind.NET
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PROCESSES, PRESET, TARGET)


class NetRate(_Rate):
    """A network: so many bits per second to be sent, and as many to come back."""

    variable: ClassVar[str] = "anomaly.net.rate"
    unit: ClassVar[str] = "bit/s"
    kind: ClassVar[Kind] = Kind.NET
    options: ClassVar[tuple[Option, ...]] = (WINDOWS, PROCESSES, TARGET)


class MemoryBandwidthLoad(_Processes):
    """The way to memory: so many processes that always copy what no cache holds."""

    variable: ClassVar[str] = "anomaly.memory_bandwidth"
    kind: ClassVar[Kind] = Kind.MEMORY_BANDWIDTH


class MemoryBandwidthDuty(_Duty):
    """The way to memory: processes that copy for a part of each 0.1 s."""

    variable: ClassVar[str] = "anomaly.memory_bandwidth.duty"
    kind: ClassVar[Kind] = Kind.MEMORY_BANDWIDTH


class MemoryBandwidthRate(_Rate):
    """The way to memory: so many bytes per second to be read and written, counted together."""

    variable: ClassVar[str] = "anomaly.memory_bandwidth.rate"
    kind: ClassVar[Kind] = Kind.MEMORY_BANDWIDTH


class CacheLoad(_Processes):
    """The last-level cache: so many processes that always write to as many lines as it holds."""

    variable: ClassVar[str] = "anomaly.cache"
    kind: ClassVar[Kind] = Kind.CACHE


class CacheDuty(_Duty):
    """The last-level cache: processes that write to its lines for a part of each 0.1 s."""

    variable: ClassVar[str] = "anomaly.cache.duty"
    kind: ClassVar[Kind] = Kind.CACHE


class MemoryLoad(Anomaly):
    """Memory that is held by somebody else, who sleeps."""

    variable: ClassVar[str] = "anomaly.memory"
    unit: ClassVar[str] = "B"
    kind: ClassVar[Kind] = Kind.MEMORY
    options: ClassVar[tuple[Option, ...]] = (WINDOWS,)
    least_tolerance: ClassVar[float] = 5e5  # the kernel counts pages in batches

    def reach(self, node: Node) -> tuple[float, float]:
        return 1e7, _MOST_MEMORY * total_memory_bytes()

    def load(self, level: float) -> Load:
        return Load(self.variable, self.kind, held_bytes=level)

    def preparation_s(self, level: float) -> float:
        return self.load(level).taking_s

    def edges(self, load: Load) -> float:
        return (0.005 + (load.taking_s if load.windows else 0.0)) * load.held_bytes
