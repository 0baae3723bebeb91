"""``disk.read_rate`` and ``disk.write_rate``: bytes per second that the subject may move to or from a disk."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.added import added
from insitu.injectors.binding import Mask, runs, waiting_rate
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Setting, Treatment

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_CROWDED_SHARE, _CROWDED_BYTES = 0.1, 1e6
"""What others may move over the same disk before a trial counts as disturbed."""
_SLICE_S = 0.1
"""Longest slice in which blk-throttle accounts (HZ/10; HZ/50 on disks that do not rotate).

A request may leave at the begin of the slice that its bytes fall into, so a transfer can end up to one slice
early: short transfers exceed the cap by that much, whatever it is.
"""


class _DiskRate(Injector):
    """blk-throttle: ``blkio.throttle`` on version 1, ``io.max`` on version 2.

    Notes
    -----
    Version 1 counts a request when it is queued, not when it is done, so the rate is read off the disk's own
    completions, and what others moved meanwhile is compared with what the subject asked for.
    """

    variable: ClassVar[str]
    unit: ClassVar[str] = "B/s"
    tolerance: ClassVar[float] = 0.03
    controllers: ClassVar[tuple[str, ...]] = ("io",)
    _direction: ClassVar[str]
    _version_1_file: ClassVar[str]
    _version_2_key: ClassVar[str]

    def capability(self, node: Node) -> Capability:
        reason, remedy = "", ""
        if not node.hierarchies.usable("io"):
            reason = node.hierarchies.problem("io")
            remedy = "run as root, with the io (blkio) controller mounted"
        elif node.device is None:
            reason = node.device_problem
            remedy = "choose a run directory on a local disk with --out"
        mechanism = "" if reason else f"cgroup{node.hierarchies.version['io']}.io.throttle"
        return Capability(self.variable, self.unit, mechanism, 1e5, 1e11, reason=reason, remedy=remedy)

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        if node.device is None:  # capability() has said so
            raise ValueError(node.device_problem)
        rate, disk = round(level), node.device.number
        if node.hierarchies.version["io"] == 2:
            text = f"{disk} {self._version_2_key}={rate}"
            others = [k for k in ("rbps", "wbps", "riops", "wiops") if k != self._version_2_key]
            whole = {self._version_2_key: str(rate)} | dict.fromkeys(others, "max")
            line = " ".join(f"{key}={whole[key]}" for key in ("rbps", "wbps", "riops", "wiops"))
            return Treatment((Setting("io", "io.max", text, reads_back=f"{disk} {line}"),))
        return Treatment((Setting("io", self._version_1_file, f"{disk} {rate}"),))

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        done_column, asked_column = f"device_{self._direction}_bytes", f"{self._direction}_bytes"
        columns = {done_column, asked_column, "io_stall_s"}
        if not columns <= samples.keys() or len(samples["time_s"]) < 2:
            return Achieved(None, 0.0, 0.0, note="not measured on this node")
        time_s, done = samples["time_s"], samples[done_column]
        wall_s = float(time_s[-1] - time_s[0])
        asked_bytes = float(samples[asked_column][-1] - samples[asked_column][0])
        added_bytes = added(samples, asked_column)
        foreign_bytes = float(done[-1] - done[0]) - asked_bytes - added_bytes
        crowded = asked_bytes > 0 and foreign_bytes > _CROWDED_SHARE * asked_bytes + _CROWDED_BYTES
        note = f"others moved {foreign_bytes / 1e6:.1f} MB meanwhile" if crowded else ""
        slope = None
        if math.isfinite(level) and asked_bytes:
            binding = _binding(samples, done)
            slope = waiting_rate(time_s, done, samples["io_stall_s"], binding)
        if slope is None:
            return Achieved(_natural_rate(samples, asked_bytes), 0.0, 0.0, starved=crowded, note=note)
        if slope.rate < 0.9 * level and not crowded:
            slower = "the disk itself is slower than the cap"
            taken = "what was added beside the subject took the rest"
            return Achieved(slope.rate, 0.0, 0.0, note=taken if added_bytes else slower)
        return Achieved(
            level=slope.rate,
            bound_share=slope.time_s / wall_s,
            uncertainty=level * _SLICE_S / slope.longest_s,
            starved=crowded,
            note=note,
        )


def _binding(samples: Samples, done: np.ndarray) -> Mask:
    """Intervals that were spent waiting for the disk.

    The throttle lets a slice's worth through at once, and the subject works on it for a moment: gaps of a few
    slices belong to the waiting, as long as data arrive, else the very intervals in which they did drop out.
    """
    step_s, waited_s = np.diff(samples["time_s"]), np.diff(samples["io_stall_s"])
    binding: Mask = waited_s >= 0.5 * step_s
    gap = max(1, round(3 * _SLICE_S / float(np.median(step_s))))
    ends = list(runs(binding))
    for (_, end), (start, last) in itertools.pairwise(ends):
        binding[end:start] |= start - end <= gap and done[last] > done[end]
    for first, last in ends:  # waiting that began or ended within an interval
        binding[max(0, first - 1)] |= waited_s[max(0, first - 1)] > 0.01 * step_s[max(0, first - 1)]
        if last < len(step_s):
            binding[last] |= waited_s[last] > 0.01 * step_s[last]
    return binding


def _natural_rate(samples: Samples, asked_bytes: float) -> float | None:
    """Bytes per second of waiting: what the disk gives when nothing holds it back."""
    waited_s = float(samples["io_stall_s"][-1] - samples["io_stall_s"][0])
    return asked_bytes / waited_s if waited_s > 0 else None


class DiskReadRate(_DiskRate):
    """Bytes per second read from the disk under the scratch folder."""

    variable: ClassVar[str] = "disk.read_rate"
    _direction: ClassVar[str] = "read"
    _version_1_file: ClassVar[str] = "blkio.throttle.read_bps_device"
    _version_2_key: ClassVar[str] = "rbps"


class DiskWriteRate(_DiskRate):
    """Bytes per second written to the disk under the scratch folder.

    Version 1 holds direct and synchronous writes only; buffered ones are written back by the kernel's own
    threads, outside the subject's group.
    """

    variable: ClassVar[str] = "disk.write_rate"
    _direction: ClassVar[str] = "write"
    _version_1_file: ClassVar[str] = "blkio.throttle.write_bps_device"
    _version_2_key: ClassVar[str] = "wbps"
