"""What the kernel counted of one load: from its own control groups, or else of its processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from insitu.injectors.cgroups import Hierarchies
from insitu.injectors.contract import Device

_STOPPED = "TtZX"


class ProcessFile:
    """A file in /proc of one process, kept open; after the process ended it says what it last said."""

    def __init__(self, pid: int, name: str) -> None:
        self.alive = True
        self._text = b""
        try:
            self._file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file, self.alive = -1, False

    def read(self) -> str:
        if self.alive:
            try:
                text = os.pread(self._file, 4096, 0)
            except ProcessLookupError:
                text = b""
            if text:
                self._text = text
            else:
                self.alive = False
        return self._text.decode()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.alive = False


class ProcessTimes:
    """Processor time of processes, and the time for which they waited for a processor."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._files = [ProcessFile(pid, "schedstat") for pid in pids]

    @property
    def supported(self) -> bool:
        """Whether the kernel counts both."""
        return all(len(file.read().split()) == 3 for file in self._files)

    def ran_s(self) -> float:
        return sum(int(file.read().split()[0]) for file in self._files if file.read()) / 1e9

    def wanted_s(self) -> float:
        """Time in which they ran or could have run: what they asked for."""
        total = 0
        for file in self._files:
            words = file.read().split()
            total += sum(map(int, words[:2]))
        return total / 1e9

    def close(self) -> None:
        for file in self._files:
            file.close()


class ProcessState:
    """Whether one process is there and not stopped."""

    def __init__(self, pid: int) -> None:
        self._file = ProcessFile(pid, "stat")

    def going(self) -> bool:
        text = self._file.read()
        return self._file.alive and text.rpartition(") ")[2][:1] not in _STOPPED

    def close(self) -> None:
        self._file.close()


class GroupCounters:
    """Counters of a load's own control groups.

    Attributes
    ----------
    counts_cpu, counts_writes
        Whether there is a group that counts it.
    """

    def __init__(self, group: Mapping[str, Path], hierarchies: Hierarchies, device: Device | None) -> None:
        version = hierarchies.version
        self._cpu = self._bytes = self._ops = -1
        self._cpu_is_old = "cpuacct" in group and version["cpuacct"] == 1
        if self._cpu_is_old:
            self._cpu = _open(group["cpuacct"] / "cpuacct.usage")
        elif "cpu" in group and version["cpu"] == 2:
            self._cpu = _open(group["cpu"] / "cpu.stat")
        self._device = device.number if device is not None else ""
        self._io_is_old = "io" in group and version["io"] == 1
        if "io" in group and device is not None:
            old = "blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"
            of_bytes, of_ops = old if self._io_is_old else ("io.stat", "io.stat")
            self._bytes, self._ops = _open(group["io"] / of_bytes), _open(group["io"] / of_ops)
        self.counts_cpu = self._cpu >= 0
        self.counts_writes = self._bytes >= 0 and self._ops >= 0

    def cpu_s(self) -> float:
        text = os.pread(self._cpu, 4096, 0)
        if self._cpu_is_old:
            return int(text) / 1e9
        return int(text.partition(b"usage_usec ")[2].split()[0]) / 1e6

    def written_bytes(self) -> float:
        return self._writes(self._bytes, "wbytes")

    def written_ops(self) -> float:
        """Requests to write."""
        return self._writes(self._ops, "wios")

    def _writes(self, descriptor: int, key: str) -> float:
        text = os.pread(descriptor, 8192, 0).decode()
        if self._io_is_old:
            _, found, rest = text.partition(f"{self._device} Write ")
            return float(rest.split(None, 1)[0]) if found else 0.0
        for line in text.splitlines():
            name, _, rest = line.partition(" ")
            if name == self._device:
                pairs = dict(word.split("=", 1) for word in rest.split() if "=" in word)
                return float(pairs.get(key, 0))
        return 0.0

    def close(self) -> None:
        for descriptor in (self._cpu, self._bytes, self._ops):
            if descriptor >= 0:
                os.close(descriptor)
        self._cpu = self._bytes = self._ops = -1


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def last_level_cache_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Size of the largest cache that the first processor uses; 0 where the kernel does not say."""
    sizes = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = [0]
    for path in folder.glob("index*/size"):
        try:
            text = path.read_text().strip()
            found.append(int(text[:-1]) * sizes[text[-1]] if text[-1:] in sizes else int(text))
        except (OSError, ValueError):
            continue
    return max(found)


def total_memory_bytes() -> float:
    """Memory of this machine."""
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
