"""Limits of version 2 that hold this process, and that groups made beside its own would escape.

Where the own group hands no controllers on, new groups are made under an ancestor that does. The groups between
have the limits of whoever started us, as ``systemd-run --scope --property=MemoryMax=2G`` sets them, and the kernel
holds nobody outside to them. So a group of the run's gets the same limits, and everything else is made in there
(`insitu.injectors.confinement`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.contract import Setting

_AMOUNTS = {
    "cpu.max": "cpu",
    "memory.max": "memory",
    "memory.high": "memory",
    "memory.swap.max": "memory",
    "pids.max": "pids",
}
"""Files that hold one limit, and their controllers."""
_RATES = ("rbps", "wbps", "riops", "wiops")
"""Keys of ``io.max``, in the kernel's order."""


def escaped(hierarchies: Hierarchies) -> tuple[Setting, ...]:
    """The least of each limit that new groups would escape, as it is written; empty where they are made inside."""
    own, parent = hierarchies.own.get(PRESSURE), hierarchies.parents.get(PRESSURE)
    if own is None or parent is None or parent not in own.parents:
        return ()
    passed = tuple(itertools.takewhile(lambda group: group != parent, (own, *own.parents)))
    return (*_least_amounts(passed), *_least_rates(passed), *_processors_and_memory_nodes(passed, parent))


def with_caps(limits: Sequence[Setting], caps: Sequence[Setting]) -> tuple[Setting, ...]:
    """Limits and caps of one group, where both are for one file the less: a cap must not lift a limit."""
    stricter = [
        cap
        for cap in caps
        if all(_amount(cap.text) < _amount(limit.text) for limit in limits if limit.file == cap.file)
    ]
    replaced = {cap.file for cap in stricter}
    return (*(limit for limit in limits if limit.file not in replaced), *stricter)


def _least_amounts(groups: Sequence[Path]) -> Iterator[Setting]:
    for file, controller in _AMOUNTS.items():
        texts = [text for group in groups for text in _lines(group / file)]
        least = min(texts, key=_amount, default="max")
        if math.isfinite(_amount(least)):
            yield Setting(controller, file, least)


def _amount(text: str) -> float:
    """A number, ``max``, or a quota and its period."""
    most, _, period = text.partition(" ")
    return math.inf if most == "max" else int(most) / int(period or 1)


def _least_rates(groups: Sequence[Path]) -> Iterator[Setting]:
    least: dict[str, dict[str, int]] = {}
    for line in (line for group in groups for line in _lines(group / "io.max")):
        device, *words = line.split()
        for key, _, text in (word.partition("=") for word in words):
            if text != "max":
                rates = least.setdefault(device, {})
                rates[key] = min(int(text), rates.get(key, int(text)))
    for device, rates in least.items():
        spelled = (f"{key}={rates[key]}" for key in _RATES if key in rates)
        yield Setting("io", "io.max", " ".join((device, *spelled)))


def _processors_and_memory_nodes(groups: Sequence[Path], parent: Path) -> Iterator[Setting]:
    """Those in effect in the innermost group that says so: they are among those of the groups above it."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        effective = f"{file}.effective"
        held = next((lines for group in groups if (lines := _lines(group / effective))), [])
        if held and held != _lines(parent / effective):
            yield Setting("cpuset", file, held[0], reads_back_in=effective)


def _lines(file: Path) -> list[str]:
    """What a file says; nothing where the controller is not handed on so far down."""
    try:
        return [line for line in file.read_text().splitlines() if line]
    except OSError:
        return []
