"""``net.delay``, ``net.jitter`` and ``net.loss``: what happens to the packets of the subject's link.

How long packets are under way is measured by probes while the subject runs, each way by itself; how many are lost
is counted where they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.binding import Floats
from insitu.injectors.contract import Achieved, Capability, Injector, Network, Node, Treatment
from insitu.injectors.network.line import CARRIES_BYTES_PER_S
from insitu.injectors.network.link import Link

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_NETEM_S, _LINE_S = 0.001, 0.002
"""How far off the delay may be, by the kernel's own means and by the delay line."""
_FEWEST_PROBES, _FEWEST_FOR_SPREAD = 3, 12
_LATE_S = 0.005


class _Alteration(Injector):
    """netem at both ends of the link; where the kernel has none, a process that delays packets: the delay line."""

    variable: ClassVar[str]
    unit: ClassVar[str]
    rest: ClassVar[float] = 0.0
    _most: ClassVar[float]

    def capability(self, node: Node) -> Capability:
        network = node.network
        if network.problem:
            return self._unable(network.problem, network.remedy)
        if not network.netem_problem:
            return Capability(self.variable, self.unit, "link.netem", 0.0, self._most)
        if network.line_problem:
            remedy = f"for the delay line: {network.line_remedy}; for netem: {_GET_NETEM}"
            return self._unable(f"{network.netem_problem}, and {network.line_problem}", remedy)
        carries = f"{CARRIES_BYTES_PER_S * 8e-6:g} Mbit/s"
        return Capability(
            self.variable,
            self.unit,
            "tun.delay-line",
            0.0,
            self._most,
            weaker=True,
            reason=f"{network.netem_problem}; a process delays the packets, which carries {carries}",
            remedy=_GET_NETEM,
        )

    def _unable(self, reason: str, remedy: str) -> Capability:
        return Capability(self.variable, self.unit, "", 0.0, 0.0, reason=reason, remedy=remedy)

    def treatment(self, level: float, node: Node) -> Treatment:
        if not self.capability(node).settable:
            return Treatment()
        return Treatment(parts=(self._link(level, by_line=_by_line(node.network)),))

    def _link(self, level: float, *, by_line: bool) -> Link:
        raise NotImplementedError


_GET_NETEM = "modprobe sch_netem, or a kernel that has it (CONFIG_NET_SCH_NETEM)"


def _by_line(network: Network) -> bool:
    return bool(network.netem_problem)


class NetDelay(_Alteration):
    """Seconds that the link adds to each round trip, half in each direction."""

    variable: ClassVar[str] = "net.delay"
    unit: ClassVar[str] = "s"
    tolerance: ClassVar[float] = 0.02
    least_tolerance: ClassVar[float] = _NETEM_S
    _most: ClassVar[float] = 10.0

    def _link(self, level: float, *, by_line: bool) -> Link:
        return Link(delay=level, by_line=by_line)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        transits = _transits(samples)
        if transits is None:
            return _unmeasured(level)
        out, back = transits["out"], transits["in"]
        jitter = _uniform(back)
        typical_s = float(np.median(out)) + max(jitter.least, 0.0)
        late = float((out > np.median(out) + _LATE_S).mean())
        starved = level > 0 and late > 0.2
        return Achieved(
            level=typical_s,
            bound_share=1.0,
            uncertainty=(_LINE_S - _NETEM_S if _by_line(node.network) else 0.0) + jitter.uncertainty,
            starved=starved,
            note=f"{late:.0%} of the probes were late: others took the processor" if starved else "",
        )


class NetJitter(_Alteration):
    """Width in seconds of what is added at random, uniformly from zero, to each packet's way to the subject."""

    variable: ClassVar[str] = "net.jitter"
    unit: ClassVar[str] = "s"
    tolerance: ClassVar[float] = 0.1
    least_tolerance: ClassVar[float] = _LINE_S
    _most: ClassVar[float] = 10.0

    def _link(self, level: float, *, by_line: bool) -> Link:
        return Link(jitter=level, by_line=by_line)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        transits = _transits(samples)
        if transits is None or len(transits["in"]) < _FEWEST_FOR_SPREAD:
            return _unmeasured(level)
        jitter = _uniform(transits["in"])
        return Achieved(jitter.width, 1.0, jitter.uncertainty)


class NetLoss(_Alteration):
    """Share of the packets that are lost, in each direction, independently of each other."""

    variable: ClassVar[str] = "net.loss"
    unit: ClassVar[str] = "fraction"
    tolerance: ClassVar[float] = 0.05
    _most: ClassVar[float] = 0.9

    def _link(self, level: float, *, by_line: bool) -> Link:
        return Link(loss=level, by_line=by_line)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        lost = _counted(samples, "lost")
        passed = _counted(samples, "passed")
        if lost is None or passed is None:
            return _unmeasured(level)
        packets = lost + passed
        if packets == 0:
            return Achieved(None, 0.0, 0.0, note="no packet crossed the link")
        expected = min(max(level, 1 / packets), 1.0)
        return Achieved(lost / packets, 1.0, 2.5 * math.sqrt(expected * (1 - expected) / packets))


def _unmeasured(level: float) -> Achieved:
    """Of a trial in which a level was in force without anything to tell what it came to."""
    note = "too few probes came back to measure it: let the subject run for longer" if level > 0 else ""
    return Achieved(None, 0.0, 0.0, starved=level > 0, note=note)


def _counted(samples: Samples, what: str) -> float | None:
    """Packets of both directions while the subject ran."""
    columns = [f"net_{direction}_{what}" for direction in ("out", "in")]
    if not set(columns) <= samples.keys() or len(samples["time_s"]) < 2:
        return None
    return float(sum(samples[column][-1] - samples[column][0] for column in columns))


def _transits(samples: Samples) -> Mapping[str, Floats] | None:
    """How long the probes of each direction were under way; ``None`` if too few arrived."""
    found: dict[str, Floats] = {}
    for direction in ("out", "in"):
        count, transit_s = (samples.get(f"net_{direction}_{what}") for what in ("probes", "transit_s"))
        if count is None or transit_s is None or len(count) == 0:
            return None
        arrived = np.concatenate(([count[0] > 0], np.diff(count) > 0))
        found[direction] = transit_s[arrived]
        if len(found[direction]) < _FEWEST_PROBES:
            return None
    return found


@dataclass(frozen=True, slots=True)
class _Uniform:
    """Where a uniform distribution begins, how wide it is, and how well a sample tells."""

    least: float
    width: float
    uncertainty: float


def _uniform(values: Floats) -> _Uniform:
    """From quantiles, which single late values do not move.

    The standard error of a quantile q of n uniform values of width w is w * sqrt(q (1 - q) / n). The k-th of them
    lies at k / (n + 1) on average, so that these estimates (numpy's "weibull") are without bias also of few.
    """
    low, high = np.quantile(values, (0.1, 0.9), method="weibull")
    width = float(high - low) / 0.8
    return _Uniform(float(low) - 0.1 * width, width, 2.0 * width * math.sqrt(0.09 / len(values)) / 0.8)
