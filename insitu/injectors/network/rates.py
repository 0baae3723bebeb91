"""``net.rate_out`` and ``net.rate_in``: bits per second that the subject may send and receive."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.binding import (
    TOO_BRIEF,
    Floats,
    Mask,
    pooled_slope,
    runs,
    starved_s,
    too_brief,
    unresolved,
)
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Treatment
from insitu.injectors.network.link import Link
from insitu.injectors.network.rtnetlink import ETHERNET_BYTES, MTU_BYTES

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_PACKET_BYTES = MTU_BYTES + ETHERNET_BYTES
_CONTINUOUS = 0.9
_LONG_S = 0.2
_STARVED_SHARE = 0.05
_TOO_FEW = "too few packets waited in a row to measure it: let the subject move more at a time, or raise the rate"


class _Rate(Injector):
    """A token bucket (HTB) at the sending end of a direction.

    Notes
    -----
    What counts is what the packets take on the wire, Ethernet header included (14 bytes; neither preamble nor
    checksum), and what passed the bucket, also if it was lost behind it.
    """

    variable: ClassVar[str]
    unit: ClassVar[str] = "bit/s"
    tolerance: ClassVar[float] = 0.03
    _direction: ClassVar[str]

    def capability(self, node: Node) -> Capability:
        network = node.network
        mechanism = "" if network.problem else "link.htb"
        return Capability(
            self.variable, self.unit, mechanism, 12_500.0, 1.25e9, reason=network.problem, remedy=network.remedy
        )

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment() if node.network.problem else Treatment(parts=(self._link(level),))

    def _link(self, level: float) -> Link:
        raise NotImplementedError

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        columns = [f"net_{self._direction}_{what}" for what in ("bytes", "held", "waiting_bytes")]
        if not set(columns) <= samples.keys() or len(samples["time_s"]) < 2:
            return Achieved(None, 0.0, 0.0, note="not measured")
        time_s = samples["time_s"]
        sent, held, waiting = (samples[column] for column in columns)
        wall_s = float(time_s[-1] - time_s[0])
        delayed = f"net_{self._direction}_passed" in samples and not node.network.netem_problem
        slope = pooled_slope(time_s, sent, _binding(level, time_s, sent, held, waiting, delayed=delayed))
        natural_rate = _natural_rate(level, time_s, sent)
        if slope is None:
            starved = math.isfinite(level) and starved_s(samples, node.cpus) > _STARVED_SHARE * wall_s
            note = "the subject waited for a processor meanwhile" if starved else ""
            return Achieved(natural_rate, 0.0, 0.0, starved=starved, note=note)
        bound_share = slope.time_s / wall_s
        uncertainty = max(_PACKET_BYTES, 0.001 * level) / slope.longest_s
        if too_brief(bound_share, uncertainty, level):
            return Achieved(natural_rate, 0.0, 0.0, note=TOO_BRIEF)
        if unresolved(uncertainty, level):
            return Achieved(None, bound_share, uncertainty, note=_TOO_FEW)
        return Achieved(slope.rate, bound_share, uncertainty)


def _binding(level: float, time_s: Floats, sent: Floats, held: Floats, waiting: Floats, *, delayed: bool) -> Mask:
    """Intervals in which there was more to send than the cap let through, from their begin to their end.

    Packets waited at every sample, and in each interval the bucket ran empty. A subject that sends in bursts may
    look so by chance, although the line was idle between the samples: such a run is slower than the cap, and
    does not count unless it is long, and so no chance.

    Parameters
    ----------
    delayed
        Whether the kernel delays packets in the bucket's own queue (netem): they then wait there, too, on a link
        with time to spare. What tells is that as much was sent as the cap lets through, and not by a packet alone.
    """
    if math.isinf(level):
        return np.zeros(len(time_s) - 1, dtype=np.bool_)
    found = _held_back(_PACKET_BYTES / level, time_s, held, waiting)
    edge_bytes = -_PACKET_BYTES if delayed else _PACKET_BYTES
    continuous, long = np.zeros_like(found), np.zeros_like(found)
    for first, last in runs(found):
        length_s = float(time_s[last] - time_s[first])
        moved = float(sent[last] - sent[first])
        continuous[first:last] = moved + edge_bytes >= _CONTINUOUS * level * length_s
        long[first:last] = length_s >= _LONG_S and not delayed
    return continuous if continuous.any() else long


def _held_back(packet_s: float, time_s: Floats, held: Floats, waiting: Floats) -> Mask:
    """Intervals in which packets waited and the bucket ran empty, which it does once per packet at low rates.

    A packet may take longer than an interval, `packet_s`: those in which none left, although some waited, count
    with the neighbours in which one did. At twice that time the link is no longer at its rate.
    """
    waited = (waiting[:-1] > 0) & (waiting[1:] > 0)
    found: Mask = (np.diff(held) > 0) & waited
    for (_, end), (start, _) in itertools.pairwise(list(runs(found))):
        found[end:start] |= bool(waited[end:start].all()) and time_s[start] - time_s[end] <= 2 * packet_s
    return found


def _natural_rate(level: float, time_s: Floats, sent: Floats) -> float | None:
    """Bytes per second while any were sent; single packets in an interval look faster than the link is."""
    moved = np.diff(sent)
    busy_s = float(np.diff(time_s)[moved > 0].sum())
    return min(float(moved.sum()) / busy_s, level) if busy_s > 0 else None


class NetRateOut(_Rate):
    """What the subject may send, in bits per second on the wire."""

    variable: ClassVar[str] = "net.rate_out"
    _direction: ClassVar[str] = "out"

    def _link(self, level: float) -> Link:
        return Link(rate_out=level)


class NetRateIn(_Rate):
    """What the subject may receive, in bits per second on the wire."""

    variable: ClassVar[str] = "net.rate_in"
    _direction: ClassVar[str] = "in"

    def _link(self, level: float) -> Link:
        return Link(rate_in=level)
