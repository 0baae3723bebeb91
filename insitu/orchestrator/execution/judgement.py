"""The manipulation check: from what was observed of a trial to its record."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.injectors import lifecycle
from insitu.injectors.actuator import Moment
from insitu.injectors.added import totals
from insitu.injectors.contract import Achieved, Node
from insitu.orchestrator.execution import host
from insitu.orchestrator.execution.orders import SetLevel, TrialOrder
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, TrialEvent, TrialRecord, TrialState
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.execution.supervision import Watched

_STILL_CACHED = 0.02
"""Share of a cold input's pages that may be in memory: a page or two of metadata and readahead."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was seen of one trial.

    Attributes
    ----------
    failure
        Why the subject did not do its work; empty if it did.
    held_back
        Limits of the blast radius that bound while the program ran.
    moments
        When what was added beside the subject was there.
    epoch_s
        Zero of the monotonic clock, in seconds since the epoch.
    resident_share
        Share of the input in memory when the program started, ``None`` without an input or where a variable says
        what it should be.
    slower_share
        How much slower than at their best the processors were while the program ran; not a number where that is
        not known.
    """

    watched: Watched
    failure: str
    samples: dict[str, np.ndarray]
    peak_memory_bytes: float | None
    readings: tuple[host.Reading, ...]
    stderr_tail: str
    resident_share: float | None
    held_back: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    epoch_s: float = 0.0
    slower_share: float = math.nan


def judge(
    order: TrialOrder, seen: Observation, node: Node, name: str, began: float, duration_s: float
) -> TrialRecord:
    """Compare achieved with requested levels, and say whether the trial counts and why not.

    Parameters
    ----------
    began
        Seconds since the epoch.
    duration_s
        Of the whole trial, set-up and undo included.
    """
    measurements = _measurements(seen)
    used = _use_of_the_machine(order, seen, measurements.get("wall_time", 0.0))
    load = host.load_of(seen.readings, used)
    levels: list[LevelRecord] = []
    reasons: list[str] = []
    state = TrialState.VALID
    if seen.failure:
        state = TrialState.ABORTED if seen.watched.aborted else TrialState.FAILED
        reasons.append(seen.failure)
    else:
        levels.extend(_level(level, seen, node) for level in order.levels)
        reasons.extend(_missed(level) for level in levels if level.verdict in _BAD)
        if disturbed := host.disturbance(load, used):
            reasons.append(disturbed)
        reasons.extend(f"held back by the blast radius: {cap}" for cap in seen.held_back)
        if order.page_cache == "cold" and (seen.resident_share or 0.0) > _STILL_CACHED:
            reasons.append(f"{seen.resident_share:.0%} of the input was still in memory")
        if reasons:
            state = TrialState.INVALID
    levels.extend(
        LevelRecord(variable, value, value, 0.0, 0.0, LevelVerdict.EXACT, "argument", unit)
        for variable, value, unit in order.parameters
    )
    return TrialRecord(
        trial=order.planned.trial,
        state=state,
        node=name,
        started_at=began,
        duration_s=duration_s,
        exit_status=seen.watched.exited.status if seen.watched.exited else None,
        measurements=measurements,
        levels=tuple(levels),
        reasons=tuple(reasons),
        stderr_tail=seen.stderr_tail if seen.failure else "",
        sandbox="namespaces+overlay" if node.privileged else "user namespace+overlay",
        host=load,
        events=_events(seen),
    )


def _use_of_the_machine(order: TrialOrder, seen: Observation, wall_s: float) -> host.Trial:
    exited, started = seen.watched.exited, seen.watched.started
    set_here = (level.injector for level in order.levels if not level.intervention.at_rest)
    return host.Trial(
        samples=seen.samples,
        started=started.at if started else 0.0,
        wall_s=wall_s,
        dirtied_bytes=exited.usage["oublock"] * 512 if exited else 0.0,
        slower_share=seen.slower_share,
        tolerated_slowdown=order.tolerated_slowdown,
        memory_is_limited=any(name.startswith("memory.") or name == "anomaly.memory" for name in set_here),
    )


def _events(seen: Observation) -> tuple[TrialEvent, ...]:
    if seen.watched.started is None:
        return ()
    start = seen.epoch_s + seen.watched.started.at
    return tuple(
        TrialEvent(start + moment.actual_s, moment.kind.value, moment.variable, moment.planned_s, moment.actual_s)
        for moment in sorted(seen.moments, key=lambda moment: moment.actual_s)
    )


_BAD = (LevelVerdict.MISSED, LevelVerdict.DISTURBED)


def _level(level: SetLevel, seen: Observation, node: Node) -> LevelRecord:
    injector = level.intervention.injector
    capability = injector.capability(node)
    achieved = injector.achieved(level.level, seen.samples, node)
    if seen.watched.exited is None:
        achieved = Achieved(None, 0.0, 0.0)
    if achieved.level is None and level.level == injector.rest == 0:
        achieved = replace(achieved, level=0.0)  # nothing was added, and nobody measured that
    outcome = LevelVerdict(lifecycle.verdict(level.level, achieved, injector).value)
    return LevelRecord(
        variable=level.variable,
        requested=level.level,
        achieved=achieved.level,
        bound_share=achieved.bound_share,
        uncertainty=achieved.uncertainty,
        verdict=outcome,
        mechanism="none" if level.level == injector.rest else capability.mechanism,
        unit=level.unit,
        note=achieved.note,
    )


def _missed(level: LevelRecord) -> str:
    wanted = format_quantity(level.requested, level.unit)
    if level.verdict is LevelVerdict.MISSED and level.achieved is None:
        why = level.note or "nothing measured it"
        return f"{level.variable}: whether it came to {wanted} cannot be told: {why}"
    got = "nothing" if level.achieved is None else format_quantity(level.achieved, level.unit)
    if level.verdict is LevelVerdict.DISTURBED:
        why = level.note or "while others took the resource for a part of the trial"
        return f"{level.variable}: {got} of {wanted}, {why}"
    return f"{level.variable}: {got} instead of {wanted}"


def _measurements(seen: Observation) -> dict[str, float]:
    exited = seen.watched.exited
    if exited is None:
        return {}
    usage = exited.usage
    measured = {
        "wall_time": exited.wall_s,
        "user_time": usage["utime"],
        "system_time": usage["stime"],
        "cpu_time": usage["utime"] + usage["stime"],
        "voluntary_switches": usage["nvcsw"],
        "involuntary_switches": usage["nivcsw"],
        "minor_faults": usage["minflt"],
        "major_faults": usage["majflt"],
        "read_bytes": usage["inblock"] * 512,
        "write_bytes": usage["oublock"] * 512,
        "peak_memory": usage["maxrss"] * 1024,
    }
    for name, column in _FROM_SAMPLES.items():
        if column in seen.samples:
            measured[name] = float(seen.samples[column][-1] - seen.samples[column][0])
    for name, column in _SHARES.items():
        if column in seen.samples:
            stalled_s = float(seen.samples[column][-1] - seen.samples[column][0])
            measured[name] = stalled_s / exited.wall_s
    measured.update(totals(seen.samples))
    if seen.peak_memory_bytes is not None:
        measured["peak_memory"] = seen.peak_memory_bytes
    return measured


_FROM_SAMPLES = {
    "cpu_time": "cpu_s",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
    "throttled_time": "throttled_s",
}
"""Where the node counts for the whole group, that counts: resource usage misses children not waited for."""

_SHARES = {"cpu_pressure": "cpu_stall_s", "io_pressure": "io_stall_s", "memory_pressure": "memory_stall_s"}
"""Pressure is the share of the trial in which some process was stalled."""
