"""What the rest of the machine did during a trial: the subject's node is not always its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CROWDED_CORES = 0.25
_SHORT_OF_IDLE = 0.1
_LEAST_LEFT = 0.4
"""Share of the crowd's limit that remains beside an added load: the agent itself uses a few percent of a core."""
_STEAL_CORES = 0.05


@dataclass(frozen=True, slots=True)
class HostTimes:
    """Processor time of the whole machine since boot, in core seconds."""

    busy_s: float
    idle_s: float
    steal_s: float


def read_times() -> HostTimes:
    """From the first line of /proc/stat; guest time is part of user time there."""
    with open("/proc/stat", "rb") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq
    return HostTimes(busy / _TICKS_PER_S, (idle + iowait) / _TICKS_PER_S, steal / _TICKS_PER_S)


def load_between(
    before: HostTimes, after: HostTimes, subject_cpu_s: float, wall_s: float, added_cpu_s: float = 0.0
) -> dict[str, float]:
    """Load of others over a trial.

    Parameters
    ----------
    added_cpu_s
        What was added beside the subject on purpose, and took.

    Returns
    -------
    dict
        ``other_cores``: processor time per second that was neither the subject's nor added; ``idle_cores``;
        ``steal_cores``: taken by the hypervisor; ``added_cores``, if something was added.
    """
    if wall_s <= 0:
        return {}
    other_s = max(0.0, after.busy_s - before.busy_s - subject_cpu_s - added_cpu_s)
    load = {
        "other_cores": other_s / wall_s,
        "idle_cores": (after.idle_s - before.idle_s) / wall_s,
        "steal_cores": (after.steal_s - before.steal_s) / wall_s,
    }
    return load | ({"added_cores": added_cpu_s / wall_s} if added_cpu_s else {})


def disturbance(load: dict[str, float], wall_s: float) -> str:
    """Why a trial's host counts as disturbed, or nothing.

    Others may run beside the subject as long as a processor was idle now and then: what they took, the
    subject did not want. Beside an added load nobody gets what they want, and others have less of what is
    left, so less of it counts. Trials shorter than ten clock ticks cannot be judged this way.
    """
    if wall_s < 10 / _TICKS_PER_S or not load:
        return ""
    if load["steal_cores"] > _STEAL_CORES:
        return f"the hypervisor took {load['steal_cores']:.2f} cores"
    cores = os.cpu_count() or 1
    left = max(_LEAST_LEFT, 1 - load.get("added_cores", 0.0) / cores)
    if load["other_cores"] > _CROWDED_CORES * left and load["idle_cores"] < _SHORT_OF_IDLE:
        return f"other processes used {load['other_cores']:.2f} cores and left none idle"
    return ""
