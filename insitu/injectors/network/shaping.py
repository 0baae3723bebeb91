"""Rates, delay and loss of a link: queueing disciplines at both of its ends."""

from __future__ import annotations

import math
from collections.abc import Iterator

from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.network import addresses
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Message, Netlink, exists

_QUEUE_S, _LEAST_PACKETS, _MOST_PACKETS = 0.1, 200, 100_000
"""What a queue that nobody is held back by may hold: 100 ms at its rate."""


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


def shape(in_subject: Netlink, in_gateway: Netlink, link: Link) -> None:
    """Set both ends, and read back what they are set to.

    Raises
    ------
    ForeignState
        If an end has a queueing discipline that somebody else set.
    InjectorError
        If a rate does not read back.
    """
    ends = ((in_subject, link.rate_out, 0.0), (in_gateway, link.rate_in, link.jitter or 0.0))
    for netlink, rate, jitter in ends:
        messages = list(_end(link, rate, jitter))
        if not messages:
            continue
        try:
            netlink.request(*messages)
        except OSError as exc:
            if exists(exc):
                raise ForeignState(
                    f"the link has a queueing discipline that is not ours ({exc.strerror})"
                ) from exc
            raise
        _read_back(netlink, rate)


def _end(link: Link, rate: float | None, jitter_s: float) -> Iterator[Message]:
    """What the sending side of one direction takes."""
    if rate is None and not link.alters_packets:
        return
    netem = link.alters_packets and not link.by_line
    index, overhead = addresses.LINK_INDEX, rt.ETHERNET_BYTES if link.by_line else 0
    speed = rate if rate is not None else math.inf
    yield rt.shaper(index)
    yield rt.rate_class(index, rt.SHAPED, speed, overhead)
    yield rt.rate_class(index, rt.PROBES, math.inf, overhead)
    if netem:
        delay_s = (link.delay or 0.0) / 2
        packets = min(speed, 1.25e9) * (delay_s + jitter_s + _QUEUE_S) / rt.MTU_BYTES
        limit = round(min(max(packets, _LEAST_PACKETS), _MOST_PACKETS))
        for parent in (rt.SHAPED, rt.PROBES):
            yield rt.netem(index, parent, delay_s, jitter_s, link.loss or 0.0, limit)


def _read_back(netlink: Netlink, rate: float | None) -> None:
    state = rt.classes(netlink, addresses.LINK_INDEX).get(rt.SHAPED)
    if state is None:
        raise InjectorError("the link's queueing discipline is not there after it was set")
    if rate is not None and math.isfinite(rate) and state.rate_bytes_per_s != round(rate):
        raise InjectorError(f"the link reads back {state.rate_bytes_per_s} B/s after {round(rate)} B/s was set")
