"""``cpu.frequency``: the frequency of the processors that the subject may use. It is that of the whole host."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.contract import Achieved, Capability, HostValue, Injector, Node, Probe, Treatment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from insitu.injectors.contract import Samples
    from insitu.injectors.cpufreq import FrequencyPolicy

_COLUMN = "frequency_hz_"


class CpuFrequency(Injector):
    """Both bounds of every cpufreq policy, so that its governor has nothing to choose.

    Notes
    -----
    What is achieved is ``scaling_cur_freq``: where the hardware counts cycles (APERF and MPERF on x86), what the
    processors really did, else what the driver has asked for.
    """

    variable: ClassVar[str] = "cpu.frequency"
    unit: ClassVar[str] = "Hz"
    tolerance: ClassVar[float] = 0.03

    def capability(self, node: Node) -> Capability:
        reason, remedy = "", ""
        if not node.frequencies:
            reason = "this machine shows no cpufreq policy in /sys/devices/system/cpu/cpufreq"
            remedy = "run on a machine whose kernel sets frequencies; most virtual ones cannot"
        elif not node.privileged:
            reason, remedy = "only root may set frequencies", "run as root"
        if reason:
            return Capability(self.variable, self.unit, "", 0.0, 0.0, reason=reason, remedy=remedy)
        low = max(policy.low_hz for policy in node.frequencies)
        high = min(policy.high_hz for policy in node.frequencies)
        steps = set.intersection(*(set(policy.steps_hz) for policy in node.frequencies))
        levels = tuple(sorted(step for step in steps if low <= step <= high))
        return Capability(self.variable, self.unit, "cpufreq", low, high, levels=levels)

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        return Treatment(host_values=tuple(value for one in node.frequencies for value in _bounds(one, level)))

    def probes(self, node: Node) -> tuple[Probe, ...]:
        return tuple(
            Probe(f"{_COLUMN}{number}", f"{policy.path}/scaling_cur_freq", scale=1e3)
            for number, policy in enumerate(node.frequencies)
        )

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """Median over time of the mean over policies, the sample before the subject's start left out."""
        columns = [samples[name][1:] for name in sorted(samples) if name.startswith(_COLUMN)]
        if not columns or not len(columns[0]):
            return Achieved(None, 0.0, 0.0, note="not measured on this node")
        return Achieved(float(np.median(np.mean(columns, axis=0))), 0.0 if level == self.rest else 1.0, 0.0)


def _bounds(policy: FrequencyPolicy, level: float) -> Iterator[HostValue]:
    """Both, in an order in which the lower is never above the upper; undone the other way round."""
    text = str(round(level / 1e3))
    least = HostValue(f"{policy.path}/scaling_min_freq", text)
    most = HostValue(f"{policy.path}/scaling_max_freq", text)
    yield from (least, most) if level < policy.least_hz else (most, least)
