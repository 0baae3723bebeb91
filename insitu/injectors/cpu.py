"""``cpu.cores``: how much processor time per second the subject may use."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.added import added
from insitu.injectors.binding import (
    MOST_UNCERTAIN,
    TOO_BRIEF,
    Floats,
    Mask,
    is_brief,
    pooled_slope,
    runs,
    starved_s,
    unresolved,
    untold,
)
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Setting, StopAndGo, Treatment
from insitu.injectors.demand import Demand

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_SHORTEST_PERIOD_S, _LONGEST_PERIOD_S = 0.02, 0.1
_LEAST_QUOTA_S = 0.001  # the kernel refuses less
_IDLE_PER_PERIOD_S = 0.01
"""Time per period in which the quota stops a busy processor: a subject that is held up for less, by an
interrupt or the hypervisor, still uses its quota."""
_STOP_PERIOD_S = 0.05
"""Longer than the quota's period: each cycle costs two signals per process and a wake-up."""


class CpuCores(Injector):
    """CFS bandwidth (quota over period); without cgroups a duty cycle of SIGSTOP and SIGCONT.

    Notes
    -----
    The quota caps the whole group, whatever the number of processes. The duty cycle caps each process, so
    it also restricts them to as many processors as make the product right.
    """

    variable: ClassVar[str] = "cpu.cores"
    unit: ClassVar[str] = "core"
    tolerance: ClassVar[float] = 0.03
    controllers: ClassVar[tuple[str, ...]] = ("cpu", "cpuacct")

    def capability(self, node: Node) -> Capability:
        low = 0.01
        if not node.hierarchies.usable("cpu"):
            return Capability(
                self.variable,
                self.unit,
                "duty-cycle",
                low=0.05,
                high=float(node.cpus),
                weaker=True,
                reason=node.hierarchies.problem("cpu"),
                remedy=f"to use the CFS quota: {node.hierarchies.remedy('cpu')}",
            ).capped(node)
        mechanism = f"cgroup{node.hierarchies.version['cpu']}.cpu.cfs"
        return Capability(self.variable, self.unit, mechanism, low=low, high=float(node.cpus)).capped(node)

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        if not node.hierarchies.usable("cpu"):
            cpus = max(1, math.ceil(level))
            return Treatment(stop_and_go=StopAndGo(_STOP_PERIOD_S, level / cpus, cpus))
        period_s = quota_period_s(level)
        quota_us, period_us = round(level * period_s * 1e6), round(period_s * 1e6)
        if node.hierarchies.version["cpu"] == 2:
            return Treatment((Setting("cpu", "cpu.max", f"{quota_us} {period_us}"),))
        return Treatment(
            (
                Setting("cpu", "cpu.cfs_period_us", str(period_us)),
                Setting("cpu", "cpu.cfs_quota_us", str(quota_us)),
            )
        )

    def demand(self, level: float) -> Demand:
        """What the subject may take, as the level says."""
        return Demand() if level == self.rest else Demand(cores=level)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        time_s, cpu_s = samples["time_s"], samples["cpu_s"]
        if len(time_s) < 2:
            return Achieved(None, 0.0, 0.0, note="too short to sample")
        wall_s = float(time_s[-1] - time_s[0])
        wanted = min(level, node.cpus)
        starved = max(starved_s(samples, wanted), _unexplained_s(samples, level, wanted)) > 0.05 * wall_s
        note = ""
        if starved and added(samples, "cpu_s") > 0:  # contention is what was asked for; the host is judged apart
            starved, note = False, "what was added beside the subject took the rest"
        binding, period_s = _binding(level, samples)
        slope = pooled_slope(time_s, cpu_s, binding)
        if slope is None:
            return Achieved(natural_rate(samples), 0.0, 0.0, starved=starved, note=note)
        bound_share = slope.time_s / wall_s
        blur_s = period_s + _step_s(samples)
        uncertainty = level * (blur_s / slope.longest_s) ** 2
        if not unresolved(uncertainty, level):
            return Achieved(slope.rate, bound_share, uncertainty, starved, note)
        used = natural_rate(samples)
        if starved or note or is_brief(bound_share) or _let_through(samples, used, level * (1 - self.tolerance)):
            return Achieved(used, 0.0, 0.0, starved=starved, note=note or ("" if starved else TOO_BRIEF))
        return untold(bound_share, uncertainty, slope.longest_s, blur_s / math.sqrt(MOST_UNCERTAIN))


def _let_through(samples: Samples, used: float | None, least: float) -> bool:
    """Whether a subject used no less than its level, and the quota hardly ever stopped it.

    What is left of a period at the end of a trial has a whole period's quota: in a trial of little more than one,
    the cap may bind in a good part of the samples, and hold up the subject for a moment only.
    """
    if "throttled_s" not in samples or used is None or used < least:
        return False
    stopped_s, wall_s = (float(samples[name][-1] - samples[name][0]) for name in ("throttled_s", "time_s"))
    return is_brief(stopped_s / wall_s)


def quota_period_s(level: float) -> float:
    """Period of the quota in seconds, for a level in cores.

    Short, so that a level holds over short phases, too; longer towards whole cores, where little idle time
    is left in a period; and never so short that the quota falls below the kernel's least.
    """
    share = level / math.ceil(level)
    roomy = _IDLE_PER_PERIOD_S / (1 - share) if share < 1 else _LONGEST_PERIOD_S
    return max(min(max(roomy, _SHORTEST_PERIOD_S), _LONGEST_PERIOD_S), _LEAST_QUOTA_S / level)


def _binding(level: float, samples: Samples) -> tuple[Mask, float]:
    """Which intervals the cap bound in, and the period of the mechanism in seconds."""
    intervals = len(samples["time_s"]) - 1
    if math.isinf(level):
        return np.zeros(intervals, dtype=np.bool_), 0.0
    if "throttled_periods" in samples:
        period_s = quota_period_s(level)
        return _throttled(samples, period_s), period_s
    rate = _smooth(np.diff(samples["cpu_s"])) / _smooth(np.diff(samples["time_s"]))
    return rate >= 0.5 * level, _STOP_PERIOD_S


def _throttled(samples: Samples, period_s: float) -> Mask:
    """Intervals in which every period ended throttled; those shorter than a period count with their neighbours."""
    throttled, periods = np.diff(samples["throttled_periods"]), np.diff(samples["periods"])
    binding: Mask = (throttled > 0) & (throttled >= periods)
    gap = math.ceil(period_s / _step_s(samples)) + 1
    for (_, end), (start, _) in itertools.pairwise(list(runs(binding))):
        binding[end:start] |= start - end <= gap and not periods[end:start].any()
    return binding


def _unexplained_s(samples: Samples, level: float, wanted: float) -> float:
    """Least time of waiting for a processor that the periods which ended throttled cannot have caused.

    A subject that others let run for a moment only uses its quota up in that moment: periods of which the samples
    cannot resolve which was which then end throttled by turns, though it waited in all of them.
    """
    if "cpu_stall_s" not in samples or "throttled_periods" not in samples or math.isinf(level):
        return 0.0
    grown = {name: float(samples[name][-1] - samples[name][0]) for name in _EXPLAINING}
    if grown["cpu_s"] >= 0.9 * wanted * grown["time_s"]:
        return 0.0
    return grown["cpu_stall_s"] - (grown["throttled_periods"] + 1) * quota_period_s(level)


_EXPLAINING = ("time_s", "cpu_s", "cpu_stall_s", "throttled_periods")


def _step_s(samples: Samples) -> float:
    return float(np.median(np.diff(samples["time_s"])))


def _smooth(steps: Floats) -> Floats:
    """Moving sums over four intervals: one may hold no running part of a duty cycle at all."""
    width = min(4, len(steps))
    return np.convolve(steps, np.ones(width), mode="same")


def natural_rate(samples: Samples) -> float | None:
    """Cores used while the subject did not wait for a disk."""
    wanted_s = float(samples["time_s"][-1] - samples["time_s"][0])
    if "io_stall_s" in samples:
        wanted_s -= float(samples["io_stall_s"][-1] - samples["io_stall_s"][0])
    used_s = float(samples["cpu_s"][-1] - samples["cpu_s"][0])
    return used_s / wanted_s if wanted_s > 0 and used_s > 0 else None
