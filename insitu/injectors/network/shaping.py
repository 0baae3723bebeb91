"""Rates, delay and loss of a link: queueing disciplines at both of its ends."""

from __future__ import annotations

import math

from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.network import addresses
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Netlink, exists

_QUEUE_S, _LEAST_PACKETS, _MOST_PACKETS = 0.1, 200, 100_000
"""What a queue that nobody is held back by may hold: 100 ms at its rate, within bounds."""
_FASTEST_BYTES_PER_S = 1.25e9
_RESOLUTION_S = 1e-6
LEAVE_ALONE = "have whatever sets up new network interfaces on this node leave those named insitu-* alone"

_BUNDLE_S, _LARGEST_BUNDLE_PACKETS = 0.001, 44


def bundle_packets(link: Link, rate: float | None) -> int:
    """How many packets may pass as one: no more than the link sends in a millisecond, and 64 KiB.

    Handling each by itself would cost more than one processor at 1 Gbit/s; the kernel bundles what it sends by the
    same rule. Packets that are lost one by one travel one by one. Rates count what the packets take on the
    wire, bundled or not.
    """
    if link.loss is not None:
        return 1
    if rate is None or math.isinf(rate):
        return _LARGEST_BUNDLE_PACKETS
    return min(max(1, int(rate * _BUNDLE_S / rt.MTU_BYTES)), _LARGEST_BUNDLE_PACKETS)


def queue_packets(link: Link, rate: float | None, longest_s: float) -> int:
    """How many packets netem may hold: those under way for `longest_s`, and a queue in front of the rate.

    What finds no room there is dropped, and netem counts that with the packets that it loses by chance. So where
    losses are a variable, there is room for whatever the senders' own buffers let them send.
    """
    if link.loss is not None:
        return _MOST_PACKETS
    speed = _FASTEST_BYTES_PER_S if rate is None else min(rate, _FASTEST_BYTES_PER_S)
    packets = speed * (longest_s + _QUEUE_S) / rt.MTU_BYTES
    return round(min(max(packets, _LEAST_PACKETS), _MOST_PACKETS))


def shape(in_subject: Netlink, in_gateway: Netlink, link: Link) -> None:
    """Set both ends, and read back what they are set to.

    Raises
    ------
    ForeignState
        If an end has a queueing discipline that somebody else set.
    InjectorError
        If a rate or a delay does not read back.
    """
    if link.rate_out is not None or link.alters_packets:
        _shape_end(in_subject, link, link.rate_out, 0.0)
    if link.rate_in is not None or link.alters_packets:
        _shape_end(in_gateway, link, link.rate_in, link.jitter or 0.0)


def _shape_end(netlink: Netlink, link: Link, rate: float | None, jitter_s: float) -> None:
    """Shape what one end sends."""
    index = addresses.LINK_INDEX
    try:
        netlink.request(rt.shaper(index))  # by itself: in a batch, what follows would change what is there
    except OSError as exc:
        if exists(exc):
            message = f"the subject's link has a queueing discipline that is not ours; left alone ({exc.strerror})"
            raise ForeignState(message, LEAVE_ALONE) from exc
        raise
    speed, overhead = math.inf if rate is None else rate, rt.ETHERNET_BYTES if link.by_line else 0
    classes = ((rt.SHAPED, speed), (rt.PROBES, math.inf))
    netlink.request(*(rt.rate_class(index, handle, rate, overhead) for handle, rate in classes))
    _read_back_rate(netlink, speed)
    if link.alters_packets and not link.by_line:
        delay_s = (link.delay or 0.0) / 2
        limit = queue_packets(link, rate, delay_s + jitter_s)
        loss = link.loss or 0.0
        netlink.request(*(rt.netem(index, handle, delay_s, jitter_s, loss, limit) for handle, _ in classes))
        _read_back_delay(netlink, delay_s + jitter_s / 2)


def _read_back_rate(netlink: Netlink, speed: float) -> None:
    state = rt.classes(netlink, addresses.LINK_INDEX).get(rt.SHAPED)
    if state is None:
        raise InjectorError("the link's queueing discipline is not there after it was set")
    if math.isfinite(speed) and state.rate_bytes_per_s != round(speed):
        raise InjectorError(f"the link reads back {state.rate_bytes_per_s} B/s after {round(speed)} B/s was set")


def _read_back_delay(netlink: Netlink, mean_s: float) -> None:
    state = rt.delays(netlink, addresses.LINK_INDEX).get(rt.SHAPED)
    if state is None or abs(state.mean_s - mean_s) > _RESOLUTION_S:
        there = "nothing" if state is None else f"{state.mean_s:g} s"
        raise InjectorError(f"the link reads back {there} after a delay of {mean_s:g} s was set")
