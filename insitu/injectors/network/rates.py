"""``net.rate_out`` and ``net.rate_in``: bits per second that the subject may send and receive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.binding import Floats, Mask, pooled_slope, runs, starved_s
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Treatment
from insitu.injectors.network.link import Link
from insitu.injectors.network.rtnetlink import ETHERNET_BYTES, MTU_BYTES

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_PACKET_BYTES = MTU_BYTES + ETHERNET_BYTES
_CONTINUOUS = 0.9
_LONG_S = 0.2
_STARVED_SHARE = 0.05


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
        binding = _binding(level, time_s, sent, held, waiting)
        slope = pooled_slope(time_s, sent, binding)
        if slope is None:
            starved = math.isfinite(level) and starved_s(samples, node.cpus) > _STARVED_SHARE * float(
                time_s[-1] - time_s[0]
            )
            note = "the subject waited for a processor meanwhile" if starved else ""
            return Achieved(_natural_rate(time_s, sent), 0.0, 0.0, starved=starved, note=note)
        return Achieved(
            level=slope.rate,
            bound_share=slope.time_s / float(time_s[-1] - time_s[0]),
            uncertainty=max(_PACKET_BYTES, 0.001 * level) / slope.longest_s,
        )


def _binding(level: float, time_s: Floats, sent: Floats, held: Floats, waiting: Floats) -> Mask:
    """Intervals in which there was more to send than the cap let through, from their begin to their end.

    Packets waited at every sample, and in each interval the bucket ran empty. A subject that sends in bursts may
    look so by chance, although the line was idle between the samples: such a run is slower than the cap, and
    does not count unless it is long, and so no chance.
    """
    found: Mask = (np.diff(held) > 0) & (waiting[:-1] > 0) & (waiting[1:] > 0)
    if math.isinf(level):
        return np.zeros_like(found)
    continuous, long = np.zeros_like(found), np.zeros_like(found)
    for first, last in runs(found):
        length_s = float(time_s[last] - time_s[first])
        moved = float(sent[last] - sent[first])
        continuous[first:last] = moved + _PACKET_BYTES >= _CONTINUOUS * level * length_s
        long[first:last] = length_s >= _LONG_S
    return continuous if continuous.any() else long


def _natural_rate(time_s: Floats, sent: Floats) -> float | None:
    """Bytes per second while any were sent."""
    moved = np.diff(sent)
    busy_s = float(np.diff(time_s)[moved > 0].sum())
    return float(moved.sum()) / busy_s if busy_s > 0 else None


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
