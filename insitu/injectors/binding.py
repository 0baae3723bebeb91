"""Rates over the time in which a cap bound.

A cap says nothing about the time in which the subject did not want more than it, so the achieved level is
the rate of a counter over *binding* intervals only. A counter that moves in small quanta gets a least-squares
slope, in which the quanta at the edges weigh little; one that moves in large jumps is counted whole, over a
time whose ends the waiting itself dates exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from insitu.injectors.contract import Achieved

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slope:
    """A rate, the time that it was taken over, and the longest stretch of that without a break."""

    rate: float
    time_s: float
    longest_s: float


def pooled_slope(time_s: Floats, counter: Floats, binding: Mask) -> Slope | None:
    """Common slope of `counter` over all runs of binding intervals, with one intercept per run.

    Parameters
    ----------
    time_s, counter
        Shape ``(n,)``: sample times and cumulative counts.
    binding
        Shape ``(n - 1,)``: interval ``i`` lies between samples ``i`` and ``i + 1``.

    Returns
    -------
    Slope or None
        ``None`` where no interval binds.
    """
    above = below = total = longest = 0.0
    for first, last in runs(binding):
        length = float(time_s[last] - time_s[first])
        total, longest = total + length, max(longest, length)
        times, counts = time_s[first : last + 1], counter[first : last + 1] - counter[first]
        centred = times - times.mean()
        above += float(centred @ counts)
        below += float(centred @ centred)
    return Slope(above / below, total, longest) if below > 0 else None


def waiting_rate(time_s: Floats, counter: Floats, stall_s: Floats, binding: Mask) -> Slope | None:
    """Mean rate of `counter` from the begin of the waiting to its end, pooled over binding runs.

    Parameters
    ----------
    time_s, counter, binding
        As for `pooled_slope`.
    stall_s
        Shape ``(n,)``: cumulative time waited for the counter's resource. In the first interval of a run the
        waiting begins and lasts to the interval's end, in the last it ends with the last arrival, so its
        increments date both far better than the samples do.

    Returns
    -------
    Slope or None
        ``None`` where no interval binds. What the cap lets through at once at its start counts, too; a run in
        which nothing arrived was waiting for something else, and does not.
    """
    counted = total = longest = 0.0
    for first, last in runs(binding):
        if counter[last] == counter[first]:
            continue
        waited_s, step_s = np.diff(stall_s[first : last + 1]), np.diff(time_s[first : last + 1])
        edges_s = 0.0
        for edge in {0, len(step_s) - 1}:
            edges_s += max(0.0, float(step_s[edge] - waited_s[edge]))
        counted += float(counter[last] - counter[first])
        length = float(time_s[last] - time_s[first]) - edges_s
        total, longest = total + length, max(longest, length)
    return Slope(counted / total, total, longest) if total > 0 else None


TOO_BRIEF = "the cap bound too briefly to tell"
_BRIEF = 0.1
MOST_UNCERTAIN = 0.5
"""Part of the level. A quota or a throttle gives out its rate in portions, and this is where the samples see less
than about two of them in a row: what they show is then how the portions fell, and no rate."""


def too_brief(bound_share: float, uncertainty: float, level: float) -> bool:
    """Whether a cap bound for a moment only, and the samples cannot resolve it: it made no difference."""
    return is_brief(bound_share) and unresolved(uncertainty, level)


def is_brief(share: float) -> bool:
    """Whether a part of a trial is too small for what happened in it to matter."""
    return share < _BRIEF


def unresolved(uncertainty: float, level: float) -> bool:
    """Whether the samples tell so little that almost any rate would pass for the level."""
    return uncertainty > MOST_UNCERTAIN * level


def untold(bound_share: float, uncertainty: float, longest_s: float, enough_s: float) -> Achieved:
    """Say of a cap that it was in force, too briefly at a time for anybody to tell what it came to.

    Parameters
    ----------
    longest_s
        How long it bound without a break.
    enough_s
        How long it would have had to.
    """
    enough = f"{math.ceil(enough_s * 100) / 100:.2f} s"
    seen = f"the cap bound for {longest_s:.2f} s in a row, and it takes {enough} to tell"
    note = f"{seen}: let the subject work for longer"
    return Achieved(None, bound_share, uncertainty, note=note)


def runs(mask: Mask) -> Iterator[tuple[int, int]]:
    """First and last *sample* of each run of true intervals."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    for first, end in edges.reshape(-1, 2):
        yield int(first), int(end)


def starved_s(samples: Samples, wanted: float) -> float:
    """Time spent waiting for a processor that neither a quota nor the subject's own threads explain.

    Parameters
    ----------
    wanted
        Cores that the subject would have used.
    """
    return float(starved_intervals_s(samples, wanted).sum())


def starved_intervals_s(samples: Samples, wanted: float) -> Floats:
    """The same by interval between samples, shape ``(n - 1,)``."""
    step_s = np.diff(samples["time_s"])
    if "cpu_stall_s" not in samples or "throttled_periods" not in samples:
        return np.zeros_like(step_s)
    below = np.diff(samples["cpu_s"]) < 0.9 * wanted * step_s
    starved: Floats = np.diff(samples["cpu_stall_s"]) * (below & ~_maybe_throttled(samples))
    return starved


def _maybe_throttled(samples: Samples) -> Mask:
    """Intervals that belong to a period of the quota which ended throttled, or to one of which nobody knows.

    The kernel counts a period when it ends; it began where the one before had ended, some intervals earlier. The
    last one of a subject that has ended is never counted.
    """
    ended = np.flatnonzero(np.diff(samples["periods"]) > 0)
    maybe: Mask = np.diff(samples["throttled_periods"]) > 0
    for before, last in itertools.pairwise((0, *ended)):
        if maybe[last]:
            maybe[before : last + 1] = True
    if len(ended):
        maybe[ended[-1] + 1 :] = True
    return maybe
