"""What is sampled of a link while it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from insitu.injectors.actuator import Moment
from insitu.injectors.network import addresses
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.gauges import Gauge, Gauges
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Netlink

Columns = dict[str, Callable[[], float]]


class LinkInForce:
    """A link that holds.

    Parameters
    ----------
    subject, gateway
        Sockets that ask about the link's ends.
    """

    def __init__(self, link: Link, subject: Netlink, gateway: Netlink, gauges: Gauges | None) -> None:
        self._columns: Columns = {}
        for direction, netlink, rate in (("out", subject, link.rate_out), ("in", gateway, link.rate_in)):
            if rate is not None:
                self._columns |= _Rate(netlink, rt.ETHERNET_BYTES if link.by_line else 0).columns(direction)
            if gauges is None:
                continue
            out = direction == "out"
            self._columns |= {
                f"net_{direction}_probes": _reading(gauges, Gauge.PROBES_OUT if out else Gauge.PROBES_IN),
                f"net_{direction}_transit_s": _reading(gauges, Gauge.TRANSIT_OUT_S if out else Gauge.TRANSIT_IN_S),
            }
            if link.by_line:
                self._columns |= {
                    f"net_{direction}_passed": _reading(gauges, Gauge.PASSED_OUT if out else Gauge.PASSED_IN),
                    f"net_{direction}_lost": _reading(gauges, Gauge.LOST_OUT if out else Gauge.LOST_IN),
                }
            else:
                self._columns |= _Delay(netlink).columns(direction)

    def columns(self) -> Mapping[str, Callable[[], float]]:
        return self._columns

    def started(self, at: float) -> None:
        return

    def ended(self) -> tuple[Moment, ...]:
        return ()


def _reading(gauges: Gauges, gauge: Gauge) -> Callable[[], float]:
    return lambda: gauges[gauge]


class _Rate:
    """Counters of the sending side of one direction; its first column asks the kernel for all of them."""

    def __init__(self, netlink: Netlink, overhead_bytes: int) -> None:
        self._netlink = netlink
        self._overhead_bytes = overhead_bytes
        self._state = rt.classes(netlink, addresses.LINK_INDEX)[rt.SHAPED]

    def columns(self, direction: str) -> Columns:
        return {
            f"net_{direction}_bytes": self._read,
            f"net_{direction}_held": lambda: float(self._state.held),
            f"net_{direction}_waiting_bytes": lambda: float(self._state.waiting_bytes),
        }

    def _read(self) -> float:
        with contextlib.suppress(OSError, KeyError):  # the link is gone; whoever holds it will say so
            self._state = rt.classes(self._netlink, addresses.LINK_INDEX)[rt.SHAPED]
        return float(self._state.sent_bytes + self._overhead_bytes * self._state.sent_packets)


class _Delay:
    """What netem let through and lost in one direction."""

    def __init__(self, netlink: Netlink) -> None:
        self._netlink = netlink
        self._state = rt.delays(netlink, addresses.LINK_INDEX)[rt.SHAPED]

    def columns(self, direction: str) -> Columns:
        return {
            f"net_{direction}_passed": self._read,
            f"net_{direction}_lost": lambda: float(self._state.lost_packets),
        }

    def _read(self) -> float:
        with contextlib.suppress(OSError, KeyError):
            self._state = rt.delays(self._netlink, addresses.LINK_INDEX)[rt.SHAPED]
        return float(self._state.passed_packets)
