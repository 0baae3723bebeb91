"""What the counters of a disk and of a group say of a subject's waiting for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from insitu.injectors.binding import Floats, Mask, runs

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

SLICE_S = 0.1
"""Longest slice in which blk-throttle accounts (HZ/10; HZ/50 on disks that do not rotate).

A request may leave at the begin of the slice that its bytes fall into, so a transfer can end up to one slice
early: short transfers exceed the cap by that much, whatever it is.
"""
_KEPT_BUSY = 0.8


def waiting(samples: Samples, done: Floats) -> Mask:
    """Intervals that were spent waiting for the disk.

    The throttle lets a slice's worth through at once, and the subject works on it for a moment: gaps of a few
    slices belong to the waiting, as long as data arrive by the end of the next waiting, else the very intervals
    in which they did drop out.
    """
    step_s, waited_s = np.diff(samples["time_s"]), np.diff(samples["io_stall_s"])
    binding: Mask = waited_s >= 0.5 * step_s
    gap = max(1, round(3 * SLICE_S / float(np.median(step_s))))
    ends = list(runs(binding))
    for (_, end), (start, last) in itertools.pairwise(ends):
        arrived = done[min(last + 1, len(step_s))] > done[min(end + 1, len(step_s))]
        binding[end:start] |= start - end <= gap and arrived
    for first, last in ends:  # waiting that began or ended within an interval
        binding[max(0, first - 1)] |= waited_s[max(0, first - 1)] > 0.01 * step_s[max(0, first - 1)]
        if last < len(step_s):
            binding[last] |= waited_s[last] > 0.01 * step_s[last]
    if ends and (last := ends[-1][1]) < len(step_s):  # the last arrival, just when a sample was taken
        binding[last] |= done[-1] == done[last + 1] > done[last]
    return binding


def natural_rate(samples: Samples, asked: float) -> float | None:
    """Rate over the time of waiting: what the disk gives when nothing holds it back."""
    waited_s = float(samples["io_stall_s"][-1] - samples["io_stall_s"][0])
    return asked / waited_s if waited_s > 0 else None


def flushes(samples: Samples) -> float:
    """Flushes of the disk, by whomever, but at most as many as the subject's writes."""
    if not {"device_flushes", "write_ops"} <= samples.keys():
        return 0.0
    return min(float(samples[name][-1] - samples[name][0]) for name in ("device_flushes", "write_ops"))


def kept_busy(samples: Samples) -> bool:
    """Whether the disk was at work most of the time in which the subject waited; a cap leaves it idle."""
    if "device_busy_s" not in samples:
        return False
    busy_s, waited_s = (float(samples[name][-1] - samples[name][0]) for name in ("device_busy_s", "io_stall_s"))
    return busy_s >= _KEPT_BUSY * waited_s
