"""What a subject may move to or from a disk: bytes (``disk.*_rate``) or requests (``disk.*_iops``) per second."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.added import added
from insitu.injectors.binding import MOST_UNCERTAIN, TOO_BRIEF, too_brief, unresolved, untold, waiting_rate
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Probe, Setting, Treatment
from insitu.injectors.disk_traffic import SLICE_S, flushes, kept_busy, natural_rate, waiting

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_NEARLY = 0.9
"""Share of a cap below which it cannot be what the subject waited for."""
_CROWDED_SHARE = 0.1
"""What others may move over the same disk before a trial counts as disturbed, beyond a little of its own."""


class _DiskThrottle(Injector):
    """blk-throttle: ``blkio.throttle`` on version 1, ``io.max`` on version 2.

    Notes
    -----
    Version 1 counts a request when it is queued, not when it is done, so *when* data moved is read off the
    disk's own completions, and *how much* off the group's counter: the journal of a file system, and the little
    that others may move, are taken to be spread evenly over the time in which the subject has asked for something.
    Where others move much, only the group's counter is left.
    """

    variable: ClassVar[str]
    unit: ClassVar[str]
    tolerance: ClassVar[float] = 0.03
    controllers: ClassVar[tuple[str, ...]] = ("io",)
    _reach: ClassVar[tuple[float, float]]
    _counter: ClassVar[str]
    _crowd: ClassVar[float]
    _journal: ClassVar[float] = 0.0
    """What a flush of the disk may bring along: the journal is written by a thread of the file system's."""
    _version_1_file: ClassVar[str]
    _version_2_key: ClassVar[str]

    def capability(self, node: Node) -> Capability:
        reason, remedy = "", ""
        if not node.hierarchies.usable("io"):
            reason = node.hierarchies.problem("io")
            remedy = node.hierarchies.remedy("io")
        elif node.device is None:
            reason = node.device_problem
            remedy = "choose a run directory on a local disk with --out"
        mechanism = "" if reason else f"cgroup{node.hierarchies.version['io']}.io.throttle"
        capability = Capability(self.variable, self.unit, mechanism, *self._reach, reason=reason, remedy=remedy)
        return capability.capped(node)

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        if node.device is None:  # capability() has said so
            raise ValueError(node.device_problem)
        file, text = self._version_1_file, f"{node.device.number} {round(level)}"
        if node.hierarchies.version["io"] == 2:
            file, text = "io.max", f"{node.device.number} {self._version_2_key}={round(level)}"
        return Treatment((Setting("io", file, text),))

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        columns = {self._counter, f"device_{self._counter}", "io_stall_s"}
        if not columns <= samples.keys() or len(samples["time_s"]) < 2:
            return Achieved(None, 0.0, 0.0, note="not measured on this node")
        time_s, own, whole = samples["time_s"], samples[self._counter], samples[f"device_{self._counter}"]
        asked, moved = float(own[-1] - own[0]), float(whole[-1] - whole[0])
        added_here = added(samples, self._counter)
        others = moved - asked - added_here
        crowded = asked > 0 and others > _CROWDED_SHARE * asked + self._crowd + self._journal * flushes(samples)
        done = own - own[0]
        if not (crowded or added_here) and moved:  # no more is done than was asked for
            done = np.minimum(done, (whole - whole[0]) * min(1.0, asked / moved))
        note = f"others had {self._spelled(others)} meanwhile" if crowded else ""
        slope = None
        if math.isfinite(level) and asked:
            slope = waiting_rate(time_s, done, samples["io_stall_s"], waiting(samples, done))
        if slope is None:
            return Achieved(natural_rate(samples, asked), 0.0, 0.0, starved=crowded, note=note)
        uncertainty = level * SLICE_S / slope.longest_s
        slower = slope.rate < level * (1 - self.tolerance) - uncertainty and kept_busy(samples)
        if (slower or slope.rate < _NEARLY * level) and not crowded:
            why = "the disk itself is slower than the cap" if slower else "it waited for something else, too"
            taken = "what was added beside the subject took the rest"
            return Achieved(slope.rate, 0.0, 0.0, note=taken if added_here else why)
        bound_share = slope.time_s / float(time_s[-1] - time_s[0])
        if too_brief(bound_share, uncertainty, level) and not crowded:
            return Achieved(slope.rate, 0.0, 0.0, note=TOO_BRIEF)
        if unresolved(uncertainty, level) and not crowded:
            return untold(bound_share, uncertainty, slope.longest_s, SLICE_S / MOST_UNCERTAIN)
        return Achieved(
            level=slope.rate,
            bound_share=bound_share,
            uncertainty=uncertainty,
            starved=crowded,
            note=note,
        )

    @staticmethod
    def _spelled(count: float) -> str:
        raise NotImplementedError


_LEFT = {"dirty_bytes": "file_dirty", "writeback_bytes": "file_writeback"}
_LEFT_BYTES = 1e6


class _Writes(_DiskThrottle):
    """Version 1 holds a write where it is submitted, and the kernel's own threads submit buffered ones.

    There, the scratch folder is synchronous in every trial of a plan that has such a variable, the unlimited ones
    included, so that trials differ in the level alone. Version 2 knows whose data are written back, so that the
    subject's writes stay as they are: it may end before its data are on the disk, and waits for the cap only if it
    asks for them to be there (fsync) or fills the memory that may be dirty.
    """

    def capability(self, node: Node) -> Capability:
        capability = super().capability(node)
        if not capability.settable or not _needs_synchronous_scratch(node):
            return capability
        reason = "version 1 does not hold buffered writes"
        if node.synchronous_problem:
            return replace(
                capability,
                mechanism="",
                reason=f"{reason}, and {node.synchronous_problem}",
                remedy="choose a run directory on ext4, XFS or f2fs with --out, or boot with cgroup version 2",
            )
        return replace(
            capability,
            mechanism=f"{capability.mechanism}+synchronous-scratch",
            weaker=True,
            reason=f"{reason}: every write below the scratch folder goes to the disk before it returns",
            remedy="boot with cgroup version 2 to leave the subject's writes as they are",
        )

    def treatment(self, level: float, node: Node) -> Treatment:
        return replace(super().treatment(level, node), synchronous_scratch=_needs_synchronous_scratch(node))

    def probes(self, node: Node) -> tuple[Probe, ...]:
        if node.hierarchies.version.get("io") != 2 or not node.hierarchies.usable("memory"):
            return ()
        return tuple(Probe(column, "memory.stat", "memory", key=key) for column, key in _LEFT.items())

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """As for reads; what is still in memory at the end was never held, and is told."""
        achieved = super().achieved(level, samples, node)
        left = sum(float(samples[column][-1]) for column in _LEFT if column in samples and len(samples[column]))
        if left < _LEFT_BYTES or achieved.note:
            return achieved
        return replace(achieved, note=f"{left / 1e6:.1f} MB were still to be written when it ended")


def _needs_synchronous_scratch(node: Node) -> bool:
    return node.hierarchies.version.get("io") == 1 and node.hierarchies.usable("io")


class _DiskRate(_DiskThrottle):
    unit: ClassVar[str] = "B/s"
    _reach: ClassVar[tuple[float, float]] = (1e5, 1e11)
    _crowd: ClassVar[float] = 1e6

    @staticmethod
    def _spelled(count: float) -> str:
        return f"{count / 1e6:.1f} MB"


class _DiskOperations(_DiskThrottle):
    """Requests per second, as the throttle counts them: after splitting to the disk's size, before merging."""

    unit: ClassVar[str] = "1/s"
    _reach: ClassVar[tuple[float, float]] = (1.0, 1e6)
    _crowd: ClassVar[float] = 250.0

    @staticmethod
    def _spelled(count: float) -> str:
        return f"{count:.0f} requests"


class DiskReadRate(_DiskRate):
    """Bytes per second read from the disk under the scratch folder."""

    variable: ClassVar[str] = "disk.read_rate"
    _counter: ClassVar[str] = "read_bytes"
    _version_1_file: ClassVar[str] = "blkio.throttle.read_bps_device"
    _version_2_key: ClassVar[str] = "rbps"


class DiskReadOperations(_DiskOperations):
    """Requests per second to read from the disk under the scratch folder."""

    variable: ClassVar[str] = "disk.read_iops"
    _counter: ClassVar[str] = "read_ops"
    _version_1_file: ClassVar[str] = "blkio.throttle.read_iops_device"
    _version_2_key: ClassVar[str] = "riops"


class DiskWriteRate(_Writes, _DiskRate):
    """Bytes per second written to the disk under the scratch folder."""

    variable: ClassVar[str] = "disk.write_rate"
    _journal: ClassVar[float] = 32768.0
    _counter: ClassVar[str] = "write_bytes"
    _version_1_file: ClassVar[str] = "blkio.throttle.write_bps_device"
    _version_2_key: ClassVar[str] = "wbps"


class DiskWriteOperations(_Writes, _DiskOperations):
    """Requests per second to write to the disk under the scratch folder."""

    variable: ClassVar[str] = "disk.write_iops"
    _journal: ClassVar[float] = 8.0
    _counter: ClassVar[str] = "write_ops"
    _version_1_file: ClassVar[str] = "blkio.throttle.write_iops_device"
    _version_2_key: ClassVar[str] = "wiops"
