"""Processors: which of them a subject gets that may use only some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")


def in_order(allowed: Collection[int], root: Path = _CPUS) -> tuple[int, ...]:
    """Sort processors: first one of each physical core, by number, then their siblings.

    Two hardware threads of one core share its execution units, so that two processors are two cores' worth of
    work only if they are not siblings.
    """
    rank: dict[int, int] = {}
    for cpu in sorted(allowed):
        earlier = [one for one in siblings(cpu, root) if one in rank]
        rank[cpu] = len(earlier)
    return tuple(sorted(rank, key=lambda cpu: (rank[cpu], cpu)))


def siblings(cpu: int, root: Path = _CPUS) -> frozenset[int]:
    """Hardware threads of the same core, itself included, as far as the kernel knows."""
    try:
        return parse_list((root / f"cpu{cpu}/topology/thread_siblings_list").read_text())
    except OSError:
        return frozenset((cpu,))


def sharing_is_known(allowed: Iterable[int], root: Path = _CPUS) -> bool:
    """Whether the kernel shows that some of these processors are threads of one core, as a hypervisor may not."""
    return any(len(siblings(cpu, root)) > 1 for cpu in allowed)


def parse_list(text: str) -> frozenset[int]:
    """Read a list as the kernel writes it: ``0-2,5``."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def spell_list(cpus: Iterable[int]) -> str:
    """Write a list as the kernel does, so that it reads back the same."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
