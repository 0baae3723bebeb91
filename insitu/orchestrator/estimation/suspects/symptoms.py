"""What a trial shows of a disturbance that its record does not name: the subject's waiting, and the host's doings.

A trial's time is a budget: the subject computes, waits for a processor, for a disk or for memory, or waits
otherwise. What of it is more than usual tells which resource was short; what the rest of the host did tells who
had it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from insitu.orchestrator.estimation.suspects.usual import Reading
from insitu.orchestrator.units import format_quantity


class Symptom(StrEnum):
    """One thing that can be more than usual."""

    WAITED_FOR_PROCESSOR = "waited_for_processor"
    WAITED_FOR_DISK = "waited_for_disk"
    WAITED_FOR_MEMORY = "waited_for_memory"
    WAITED_OTHERWISE = "waited_otherwise"
    WORKED_LONGER = "worked_longer"
    """More processor time for the same work: caches and memory were slower."""
    OTHERS_COMPUTED = "others_computed"
    KERNEL_WORKED = "kernel_worked"
    OTHERS_USED_DISK = "others_used_disk"
    NETWORK_WORKED = "network_worked"
    MEMORY_HELD = "memory_held"
    """Of each process that competes, as much as the last-level cache has, or half of it."""
    MUCH_MEMORY_HELD = "much_memory_held"
    """Several times as much as the last-level cache has."""
    PROCESSORS_STOLEN = "processors_stolen"
    """The hypervisor gave them to other machines."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A symptom in one trial.

    Attributes
    ----------
    strength
        How surely it is there, 0 to 1.
    text
        What was measured, in words.
    seconds
        How much of the trial's time it takes; 0 of what the host did.
    """

    symptom: Symptom
    strength: float
    text: str
    seconds: float = 0.0


Readings = Mapping[str, Reading]

_SURE_FROM, _SURE_TO = 2.5, 4.5
"""Robust z between which a difference becomes one that is surely not chance."""
_USUAL_CACHE_BYTES = 32e6
"""Of a machine that does not tell the size of its last-level cache."""


def slowdown_s(readings: Readings) -> float:
    """How much longer than usual the trial took; not a number where that is not known."""
    return readings["wall_time"].excess if "wall_time" in readings else math.nan


def signs_of(readings: Readings) -> tuple[Sign, ...]:
    """Every symptom that the measurements of a trial can tell, there or not."""
    found = [look(readings) for look in _LOOKS]
    return tuple(one for one in found if one is not None)


def _ramp(value: float, begin: float, end: float) -> float:
    """0 up to one value, 1 from another, and straight in between."""
    return min(1.0, max(0.0, (value - begin) / (end - begin)))


def _sure(reading: Reading) -> float:
    return _ramp(reading.score, _SURE_FROM, _SURE_TO)


def _waited(symptom: Symptom, name: str, what: str) -> Callable[[Readings], Sign | None]:
    """Of the seconds that the trial took more, at least a tenth was this waiting."""

    def look(readings: Readings) -> Sign | None:
        reading, slower = readings.get(name), slowdown_s(readings)
        if reading is None or not slower > 0:
            return None
        strength = _sure(reading) * _ramp(reading.excess / slower, 0.05, 0.15)
        waited, usual = (format_quantity(max(0.0, one), "s") for one in (reading.value, reading.usual))
        text = f"the subject waited {waited} for {what}, usually {usual}"
        return Sign(symptom, strength, text, max(0.0, reading.excess))

    return look


def _worked_longer(readings: Readings) -> Sign | None:
    reading, slower = readings.get("cpu_time"), slowdown_s(readings)
    if reading is None or not slower > 0 or reading.usual <= 0:
        return None
    more = reading.excess / reading.usual
    strength = _sure(reading) * _ramp(more, 0.1, 0.3)
    text = f"the same work took {format_quantity(reading.value, 's')} of a processor's time, {more:+.0%}"
    return Sign(Symptom.WORKED_LONGER, strength, text, max(0.0, reading.excess))


def _waited_otherwise(readings: Readings) -> Sign | None:
    """What is left of the budget, where the waiting for processor and disk is known at all."""
    slower = slowdown_s(readings)
    names = ("cpu_time", "cpu_stall", "io_stall", "memory_stall")
    if not slower > 0 or not {"cpu_time", "cpu_stall", "io_stall"} <= set(readings):
        return None
    told = sum(max(0.0, readings[name].excess) for name in names if name in readings)
    left = max(0.0, slower - told)
    strength = _sure(readings["wall_time"]) * _ramp(left / slower, 0.4, 0.7)
    text = (
        f"{format_quantity(left, 's')} more went by in which the subject neither computed nor waited for a device"
    )
    return Sign(Symptom.WAITED_OTHERWISE, strength, text, left)


def _others(
    symptom: Symptom, name: str, begin: float, end: float, tell: str, *, per_second: bool = False
) -> Callable[[Readings], Sign | None]:
    """Something that the host did more than usual, by an amount (or rate) that can matter."""

    def look(readings: Readings) -> Sign | None:
        reading, wall = readings.get(name), readings.get("wall_time")
        if reading is None or (per_second and (wall is None or wall.value <= 0)):
            return None
        amount = reading.excess / wall.value if per_second and wall is not None else reading.excess
        shown, usual = (format_quantity(max(0.0, one), reading.unit) for one in (reading.value, reading.usual))
        return Sign(symptom, _sure(reading) * _ramp(amount, begin, end), f"{tell} {shown}, usually {usual}")

    return look


def _held(symptom: Symptom, begin: float, end: float) -> Callable[[Readings], Sign | None]:
    """Memory that is held more than usual, by each process that competes, in sizes of the last-level cache."""

    def look(readings: Readings) -> Sign | None:
        reading = readings.get("host.held_bytes")
        if reading is None:
            return None
        cache = readings["host.cache_bytes"].value if "host.cache_bytes" in readings else _USUAL_CACHE_BYTES
        each = reading.excess / _competitors(readings)
        value, usual = (format_quantity(one, "B") for one in (reading.value, reading.usual))
        text = f"all processes of the host held {value}, usually {usual}"
        return Sign(symptom, _sure(reading) * _ramp(each / cache, begin, end), text)

    return look


def _competitors(readings: Readings) -> float:
    """Processes that competed: a scheduler that is fair gives each of them what the subject had."""
    others, used, wall = (readings.get(name) for name in ("host.others_cores", "cpu_time", "wall_time"))
    if others is None or used is None or wall is None or used.value <= 0:
        return 1.0
    return max(1.0, others.value * wall.value / used.value)


_LOOKS: tuple[Callable[[Readings], Sign | None], ...] = (
    _waited(Symptom.WAITED_FOR_PROCESSOR, "cpu_stall", "a processor"),
    _waited(Symptom.WAITED_FOR_DISK, "io_stall", "the disk"),
    _waited(Symptom.WAITED_FOR_MEMORY, "memory_stall", "memory"),
    _waited_otherwise,
    _worked_longer,
    _others(Symptom.OTHERS_COMPUTED, "host.others_cores", 0.2, 0.5, "other processes used"),
    _others(Symptom.KERNEL_WORKED, "host.others_kernel_cores", 0.15, 0.4, "the kernel used for others"),
    _others(
        Symptom.OTHERS_USED_DISK,
        "host.others_disk_bytes",
        2e6,
        10e6,
        "others moved over the disk",
        per_second=True,
    ),
    _others(Symptom.NETWORK_WORKED, "host.network_bytes", 1e6, 5e6, "the host's network carried", per_second=True),
    _held(Symptom.MEMORY_HELD, 0.35, 0.7),
    _held(Symptom.MUCH_MEMORY_HELD, 1.8, 3.0),
    _others(Symptom.PROCESSORS_STOLEN, "host.steal_cores", 0.05, 0.15, "the hypervisor took"),
)
