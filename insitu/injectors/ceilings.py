"""What the groups above a trial's allow: a level beyond it would not be reached, or would break out of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from insitu.injectors.cgroups import Hierarchies
from insitu.injectors.contract import Ceiling, Device
from insitu.injectors.processors import parse_list

_NO_LIMIT = 1 << 60
"""Version 1 writes a memory limit that is none as the largest multiple of the page size."""


def of(hierarchies: Hierarchies, device: Device | None) -> dict[str, Ceiling]:
    """The least limit on the way from this process's group to the visible root, per variable.

    A run's groups may hang beside ours (version 2, where only some groups hand controllers on) and then have a
    copy of these limits above them, so the way begins at ours.
    """
    found: dict[str, Ceiling] = {}
    for controller, group in hierarchies.own.items():
        read = _READERS.get((controller, hierarchies.version[controller]))
        if read is None:
            continue
        for above in _upwards(group):
            for variable, ceiling in read(above, device):
                if variable not in found or ceiling.level < found[variable].level:
                    found[variable] = ceiling
            if read is _io_1:  # throttles of version 1 hold the members of the very group only
                break
    return found


def swap_accounted(hierarchies: Hierarchies) -> bool:
    """Whether a group's swap can be limited, too: the kernel may be built or started without."""
    group = hierarchies.parents.get("memory")
    if group is None:
        return False
    if hierarchies.version["memory"] == 1:
        return (group / "memory.memsw.limit_in_bytes").exists()
    return any(group.glob("memory.swap.max")) or any(group.glob("*/memory.swap.max"))  # the root itself has none


def _upwards(group: Path) -> Iterator[Path]:
    while (group / "cgroup.procs").exists():
        yield group
        group = group.parent


def _first_line(file: Path) -> str:
    try:
        return file.read_text().partition("\n")[0].strip()
    except OSError:  # the root of version 2 has no limits
        return ""


Found = Iterator[tuple[str, Ceiling]]


def _cpu_1(group: Path, _device: Device | None) -> Found:
    quota, period = (_first_line(group / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    if quota and int(quota) > 0:
        text = f"{quota} per {period} us"
        yield "cpu.cores", Ceiling(int(quota) / int(period), str(group / "cpu.cfs_quota_us"), text)


def _cpu_2(group: Path, _device: Device | None) -> Found:
    text = _first_line(group / "cpu.max")
    quota, _, period = text.partition(" ")
    if quota and quota != "max":
        yield "cpu.cores", Ceiling(int(quota) / int(period), str(group / "cpu.max"), text)


def _memory_1(group: Path, _device: Device | None) -> Found:
    file = group / "memory.limit_in_bytes"
    text = _first_line(file)
    if text and int(text) < _NO_LIMIT:
        yield "memory.limit", Ceiling(float(text), str(file), text)


def _memory_2(group: Path, _device: Device | None) -> Found:
    for name in ("memory.max", "memory.high"):
        text = _first_line(group / name)
        if text not in ("", "max"):
            ceiling = Ceiling(float(text), str(group / name), text)
            yield "memory.limit", ceiling
            yield "memory.high", ceiling


def _cpuset(name: str) -> Callable[[Path, Device | None], Found]:
    def read(group: Path, _device: Device | None) -> Found:
        text = _first_line(group / name)
        if text and len(parse_list(text)) < (os.cpu_count() or 1):
            yield "cpu.set", Ceiling(float(len(parse_list(text))), str(group / name), text)

    return read


_RATES = {
    "rbps": "disk.read_rate",
    "wbps": "disk.write_rate",
    "riops": "disk.read_iops",
    "wiops": "disk.write_iops",
}
_THROTTLES = {
    "blkio.throttle.read_bps_device": "disk.read_rate",
    "blkio.throttle.write_bps_device": "disk.write_rate",
    "blkio.throttle.read_iops_device": "disk.read_iops",
    "blkio.throttle.write_iops_device": "disk.write_iops",
}


def _io_1(group: Path, device: Device | None) -> Found:
    for name, variable in _THROTTLES.items():
        for words in _lines(group / name, device):
            yield variable, Ceiling(float(words[0]), str(group / name), words[0])


def _io_2(group: Path, device: Device | None) -> Found:
    for words in _lines(group / "io.max", device):
        for word in words:
            key, _, text = word.partition("=")
            if key in _RATES and text != "max":
                yield _RATES[key], Ceiling(float(text), str(group / "io.max"), word)


def _lines(file: Path, device: Device | None) -> Iterator[list[str]]:
    """What a file says of the device, in words."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, *words = line.split() or [""]
        if device is not None and number == device.number and words:
            yield words


_READERS: dict[tuple[str, int], Callable[[Path, Device | None], Found]] = {
    ("cpu", 1): _cpu_1,
    ("cpu", 2): _cpu_2,
    ("memory", 1): _memory_1,
    ("memory", 2): _memory_2,
    ("cpuset", 1): _cpuset("cpuset.effective_cpus"),
    ("cpuset", 2): _cpuset("cpuset.cpus.effective"),
    ("io", 1): _io_1,
    ("io", 2): _io_2,
}
