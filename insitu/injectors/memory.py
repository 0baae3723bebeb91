"""``memory.limit`` and ``memory.high``: how much memory the subject may hold, page cache included."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.binding import Mask
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Probe, Setting, Treatment
from insitu.injectors.demand import Demand

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_LEAST_BYTES = 4e6
"""What process 1 of the sandbox and a small program need; the kernel refuses less than what is in use."""
_BATCH_BYTES = 64 * mmap.PAGESIZE
"""Each processor charges memory in advance by so much (MEMCG_CHARGE_BATCH, Linux 5.18 and later)."""
_NEARLY_FULL = 0.97


class _Memory(Injector):
    variable: ClassVar[str]
    unit: ClassVar[str] = "B"
    controllers: ClassVar[tuple[str, ...]] = ("memory",)
    _event: ClassVar[str]

    def capability(self, node: Node) -> Capability:
        reason, remedy = self._problem(node)
        version = node.hierarchies.version.get("memory", 1)
        mechanism = "" if reason else f"cgroup{version}.memory.{self._event if version == 2 else 'limit'}"
        capability = Capability(
            self.variable, self.unit, mechanism, _LEAST_BYTES, node.memory_bytes, reason=reason, remedy=remedy
        )
        return capability.capped(node)

    def demand(self, level: float) -> Demand:
        """The memory that the subject may fill."""
        return Demand() if level == self.rest else Demand(memory_bytes=level)

    def _problem(self, node: Node) -> tuple[str, str]:
        """Why it cannot be set here, and what to do; empty if it can."""
        if node.hierarchies.usable("memory"):
            return "", ""
        return node.hierarchies.problem("memory"), node.hierarchies.remedy("memory")

    def probes(self, node: Node) -> tuple[Probe, ...]:
        if node.hierarchies.version.get("memory") == 2:
            return (Probe("memory_limit_hits", "memory.events", "memory", key=self._event),)
        return (Probe("memory_limit_hits", "memory.failcnt", "memory"),)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """The most that was held; a limit binds where the kernel says so, or where the group was full.

        Notes
        -----
        Version 2 counts each attempt to go beyond the limit, so that nothing else is asked there. Version 1 of
        recent kernels (6.18 at least) leaves ``memory.failcnt`` at 0, so that fullness must do.
        """
        if "memory_bytes" not in samples or len(samples["time_s"]) < 2:
            return Achieved(None, 0.0, 0.0, note="not measured on this node")
        time_s = samples["time_s"]
        step_s, wall_s = np.diff(time_s), float(time_s[-1] - time_s[0])
        batch = _BATCH_BYTES * node.cpus
        counted = node.hierarchies.version.get("memory") == 2 and "memory_limit_hits" in samples
        full = _hits(samples) if counted else _hits(samples) | self._full(level, samples, batch)
        reached = np.logical_or.accumulate(full)
        stalled_s = np.diff(samples["memory_stall_s"]) if "memory_stall_s" in samples else 0 * step_s
        full |= reached & (stalled_s > 0)  # taking pages back leaves less than the limit for a moment
        peak = self._peak(samples)
        bound_s = float(step_s[full].sum())
        if not counted and not bound_s and peak >= _NEARLY_FULL * level:  # between two samples
            bound_s = float(np.median(step_s))
        starved = bool(stalled_s[~reached].sum() > 0.05 * wall_s)
        note = "the machine was short of memory" if starved else ""
        return Achieved(self._level(samples, full, peak), bound_s / wall_s, batch, starved=starved, note=note)

    @staticmethod
    def _full(level: float, samples: Samples, batch: float) -> Mask:
        """Intervals at whose end the limit may have been in the way."""
        full: Mask = samples["memory_bytes"][1:] >= min(_NEARLY_FULL * level, max(level - batch, 0.5 * level))
        return full

    @staticmethod
    def _peak(samples: Samples) -> float:
        """The most that was held since the subject's start; a mark that never rose is of the time before."""
        held = float(samples["memory_bytes"].max())
        marks = samples.get("memory_peak_bytes")
        return held if marks is None or not marks[-1] > marks[0] else max(held, float(marks[-1]))

    def _level(self, samples: Samples, full: Mask, peak: float) -> float:
        return peak


class MemoryLimit(_Memory):
    """Bytes beyond which the kernel takes pages back, and kills the subject where it cannot.

    Swap does not extend it where the kernel accounts for swap.
    """

    variable: ClassVar[str] = "memory.limit"
    tolerance: ClassVar[float] = 0.03
    _event: ClassVar[str] = "max"

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        text = _whole_pages(level)
        if node.hierarchies.version["memory"] == 2:
            swap = (Setting("memory", "memory.swap.max", "0"),) if node.swap_accounted else ()
            return Treatment((Setting("memory", "memory.max", text), *swap))
        swap = (Setting("memory", "memory.memsw.limit_in_bytes", text),) if node.swap_accounted else ()
        return Treatment((Setting("memory", "memory.limit_in_bytes", text), *swap))

    def demand(self, level: float) -> Demand:
        """What the subject may take, as the level says."""
        return Demand() if level == self.rest else Demand(memory_bytes=level)


class MemoryHigh(_Memory):
    """Bytes beyond which the kernel slows the subject down and takes pages back, and never kills it.

    The slowing-down lets a subject beyond it for a while, so what is achieved is the middle of the time in which
    it was reached. Version 1 has nothing of the kind: its soft limit matters only where the machine is short.
    """

    variable: ClassVar[str] = "memory.high"
    tolerance: ClassVar[float] = 0.1
    _event: ClassVar[str] = "high"

    def _problem(self, node: Node) -> tuple[str, str]:
        reason, remedy = super()._problem(node)
        if not reason and node.hierarchies.version["memory"] == 1:
            return "cgroup version 1 has no memory.high", "boot with cgroup version 2, or use memory.limit"
        return reason, remedy

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        return Treatment((Setting("memory", "memory.high", _whole_pages(level)),))

    def _level(self, samples: Samples, full: Mask, peak: float) -> float:
        return float(np.median(samples["memory_bytes"][1:][full])) if full.any() else peak


def _hits(samples: Samples) -> Mask:
    """Intervals in which the kernel counted an attempt to go beyond the limit."""
    if "memory_limit_hits" not in samples:
        return np.zeros(len(samples["time_s"]) - 1, dtype=bool)
    hits: Mask = np.diff(samples["memory_limit_hits"]) > 0
    return hits


def _whole_pages(level: float) -> str:
    """The kernel rounds down, and would read back another text."""
    return str(int(level) // mmap.PAGESIZE * mmap.PAGESIZE)
