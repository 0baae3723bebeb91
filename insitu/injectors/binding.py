"""Rates over the time in which a cap bound.

A cap says nothing about the time in which the subject did not want more than it, so the achieved level is
the slope of a counter over *binding* intervals only. The slope is fitted by least squares with one intercept
per run of such intervals: quanta at the edges (a CFS period, a throttle slice) then weigh little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slope:
    """A rate and the time that it was taken over."""

    rate: float
    time_s: float


def pooled_slope(time_s: Floats, counter: Floats, binding: Mask, skip: int = 0) -> Slope | None:
    """Common slope of `counter` over all runs of binding intervals.

    Parameters
    ----------
    time_s, counter
        Shape ``(n,)``: sample times and cumulative counts.
    binding
        Shape ``(n - 1,)``: interval ``i`` lies between samples ``i`` and ``i + 1``.
    skip
        Intervals to leave out at the start of each run (a throttle's first burst), where enough remain.

    Returns
    -------
    Slope or None
        ``None`` where no interval binds. ``time_s`` counts the skipped intervals, too: the cap bound there.
    """
    above = below = total = 0.0
    for first, last in runs(binding):
        total += float(time_s[last] - time_s[first])
        start = first + skip if last - first > 2 * skip else first
        times, counts = time_s[start : last + 1], counter[start : last + 1]
        centred = times - times.mean()
        above += float(centred @ counts)
        below += float(centred @ centred)
    return Slope(above / below, total) if below > 0 else None


def runs(mask: Mask) -> Iterator[tuple[int, int]]:
    """First and last *sample* of each run of true intervals."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    for first, end in edges.reshape(-1, 2):
        yield int(first), int(end)
