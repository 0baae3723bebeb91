"""What was measured of one trial, beside what trials with such levels usually have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.suspects.likeness import Likeness, likeness
from insitu.orchestrator.plan.measurements import MEASUREMENTS
from insitu.orchestrator.store.records import StoredTrial, TrialRecord, TrialState

FEWEST = 4
"""Trials to compare with, below which nothing is said."""
_ENOUGH_ALIKE = 3
"""Trials of the same assignment that stand for what is usual by themselves."""
_MAD_TO_SD = 1.4826
"""Standard deviation of a normal variable, in median absolute deviations."""
_HOST_UNITS = {"cores": "core", "bytes": "B", "share": "fraction"}
_FLOORS = {"B": 1e6, "fraction": 0.02, "core": 0.05, "": 20.0}
"""Differences that mean nothing, whatever the spread: a megabyte, two percent of the time, some switches."""
_FLOOR_SHARE_OF_TIME = 0.01
_OWN_SHARE = 0.02
"""The same as a share of what is usual."""
_STOCKS = ("host.held_bytes",)
"""What is there, not what is done: it stays as it was until something else comes or goes."""
_NEAREST = 7
"""Trials next in time that show how a stock has changed since."""
_ROUNDS, _HUBER = 10, 1.345


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of a trial, beside its usual value.

    Attributes
    ----------
    name
        As in the record; what the host did is called ``host.`` and its name there.
    value, usual
        Base units.
    score
        Robust z: the difference in standard deviations of the other trials.
    trials
        How many others there are.
    """

    name: str
    unit: str
    value: float
    usual: float
    score: float
    trials: int

    @property
    def excess(self) -> float:
        """How much more it is than usual."""
        return self.value - self.usual


def measured(record: TrialRecord) -> dict[str, float]:
    """Everything that was measured of a trial, and what follows from it.

    These follow: ``cpu_stall``, ``io_stall`` and ``memory_stall``, the time for which it was stalled; and of all
    that was not the subject's, whether it was added on purpose or not, ``host.others_cores``, the part of it in
    the kernel ``host.others_kernel_cores``, and ``host.others_disk_bytes``.
    """
    found = dict(record.measurements)
    found.update({f"host.{name}": value for name, value in record.host.items()})
    wall_s = found.get("wall_time", math.nan)
    for name in ("cpu", "io", "memory"):
        if f"{name}_pressure" in found:
            found[f"{name}_stall"] = found[f"{name}_pressure"] * wall_s
    if "other_cores" in record.host:
        found["host.others_cores"] = record.host["other_cores"] + record.host.get("added_cores", 0.0)
    if "kernel_cores" in record.host and wall_s > 0:
        found["host.others_kernel_cores"] = record.host["kernel_cores"] - found.get("system_time", 0.0) / wall_s
    if "other_disk_bytes" in record.host:
        added = (
            amount for name, amount in found.items() if name.partition(":")[2] in ("read_bytes", "write_bytes")
        )
        found["host.others_disk_bytes"] = record.host["other_disk_bytes"] + sum(added)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def unit_of(name: str) -> str:
    """Base unit of a measurement, by its name."""
    if name.endswith("_stall"):
        return "s"
    if name.startswith("host."):
        return _HOST_UNITS.get(name.rpartition("_")[2], "")
    if ":" in name:  # what was added beside the subject: anomaly.cpu:cpu_s
        return {"s": "s", "bytes": "B"}.get(name.rpartition("_")[2], "")
    return MEASUREMENTS.get(name, "")


def compare(trial: StoredTrial, others: Sequence[StoredTrial]) -> dict[str, Reading]:
    """Compare every measurement of a trial with those of the others.

    Parameters
    ----------
    others
        Trials to compare with; the trial itself is left out, and those that are not valid.

    Returns
    -------
    dict
        By name; without those of which it is not known what is usual, as there are too few trials like it.

    Notes
    -----
    Usual is the median of the trials at the same levels, if there are three of them. Else it is a linear function
    of the levels that were asked for, of their reciprocals (by which a cap acts) and of the products of both,
    fitted to all trials so that those far off count less (Huber); but only between levels of other trials, and
    where these are worth two at the trial's own levels: what is usual is never extrapolated. Spread is the median
    absolute deviation from it, relative to its size. What the whole host holds changes as other programs come and
    go: there the median of what is left by the seven trials nearest in time is taken off, too.
    """
    kept = [
        one
        for one in others
        if one.state is TrialState.VALID and one.record is not None and one.planned.trial != trial.planned.trial
    ]
    if trial.record is None or len(kept) < FEWEST:
        return {}
    tables = [measured(one.record) for one in kept if one.record is not None]
    here = measured(trial.record)
    like = likeness(trial, kept)
    readings: dict[str, Reading] = {}
    for name in sorted(here, key=lambda name: name != "wall_time"):  # times are compared with it
        column = np.array([table.get(name, math.nan) for table in tables])
        if np.isfinite(column).sum() >= FEWEST:
            unit = unit_of(name)
            time_s = readings["wall_time"].usual if "wall_time" in readings else here.get("wall_time", 0.0)
            floor = _FLOORS[unit] if unit in _FLOORS else _FLOOR_SHARE_OF_TIME * time_s
            expected = _expect(column, like)
            if expected is None:
                continue
            if name in _STOCKS:
                expected = _lately(expected, column, [*kept, trial])
            readings[name] = _reading(name, unit, here[name], column, expected, floor)
    return readings


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """What is usual: in the trial itself, and in each of the others, shape (n,); worth so many trials like it."""

    here: float
    others: Array
    trials: float


def _reading(name: str, unit: str, value: float, column: Array, expected: _Expected, floor: float) -> Reading:
    known = np.isfinite(column)
    off = np.abs(column - expected.others)[known] / (np.abs(expected.others[known]) + floor)
    spread = _MAD_TO_SD * float(np.median(off)) * math.sqrt(1 + 1 / expected.trials)
    size = abs(expected.here)
    sd = math.sqrt((spread * (size + floor)) ** 2 + (_OWN_SHARE * size) ** 2 + floor**2)
    score = (value - expected.here) / sd if sd > 0 else 0.0
    return Reading(name, unit, value, expected.here, score, int(known.sum()))


def _expect(column: Array, like: Likeness) -> _Expected | None:
    known = np.isfinite(column)
    same = like.alike & known
    values = _robust_fit(like.rows, column, known)
    others = like.rows @ values
    if same.sum() >= _ENOUGH_ALIKE:
        middle = float(np.median(column[same]))
        return _Expected(middle, np.where(same, middle, others), float(same.sum()))
    worth = like.worth(known)
    return _Expected(float(like.row @ values), others, worth) if worth else None


def _lately(expected: _Expected, column: Array, trials: Sequence[StoredTrial]) -> _Expected:
    """What is usual at the time of each trial; the trial itself is the last one."""
    off = column - expected.others
    times = np.array([math.nan if one.record is None else one.record.started_at for one in trials])
    changed = []
    for place in range(len(trials)):
        away = np.where(np.isfinite(off), np.abs(times[:-1] - times[place]), math.inf)
        if place < len(away):
            away[place] = math.inf
        nearest = np.argsort(away, kind="stable")[:_NEAREST]
        changed.append(float(np.median(off[nearest[np.isfinite(away[nearest])]])))
    return replace(expected, here=expected.here + changed[-1], others=expected.others + np.array(changed[:-1]))


def _robust_fit(rows: Array, column: Array, known: npt.NDArray[np.bool_]) -> Array:
    """Huber's M-estimate by reweighted least squares, from the median."""
    values: Array = np.zeros(rows.shape[1])
    values[0] = float(np.median(column[known]))
    for _ in range(_ROUNDS):
        off = np.abs(column[known] - rows[known] @ values)
        scale = max(_MAD_TO_SD * float(np.median(off)), 1e-12 * (1 + float(np.abs(column[known]).max())))
        weights = np.sqrt(_HUBER * scale / np.maximum(off, _HUBER * scale))
        found = np.linalg.lstsq(rows[known] * weights[:, None], column[known] * weights, rcond=1e-9)[0]
        values = np.asarray(found, dtype=np.float64)
    return values
