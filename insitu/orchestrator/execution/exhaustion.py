"""What a subject ran out of: read off its group after its end, for the reason in the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.units import format_quantity


def out_of_memory(group: Mapping[str, Path], levels: Sequence[SetLevel]) -> str:
    """Whether the kernel killed anything of the subject for lack of memory, and at which limit; empty if not.

    A subject that goes on without the process that was killed has not done the same work.
    """
    killed = _count(group, "memory", "memory.events", "oom_kill")  # version 2
    killed += _count(group, "memory", "memory.oom_control", "oom_kill")  # version 1, since Linux 4.13
    if not killed:
        return ""
    for level in levels:
        if level.injector == "memory.limit" and math.isfinite(level.level):
            return f"out of memory: limit {format_quantity(level.level, 'B')}"
    return "out of memory: a group above the trial's, or the machine, has no more"


def out_of_processes(group: Mapping[str, Path], guards: Guards) -> str:
    """A remark on a failure: whether the subject had reached the limit of processes."""
    if not _count(group, "pids", "pids.events", "max"):
        return ""
    return f" (it reached the limit of {guards.processes} processes)"


def _count(group: Mapping[str, Path], controller: str, file: str, key: str) -> int:
    """The number after a word, 0 where it does not stand."""
    try:
        words = (group[controller] / file).read_text().split()
        return int(words[words.index(key) + 1])
    except (KeyError, OSError, ValueError):
        return 0
