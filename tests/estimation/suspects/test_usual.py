"""What is usual for a measurement is told by trials that are like it, and never extrapolated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.estimation.suspects.usual import compare
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial
from tests.estimation.chains import throttle, trial_of

USED = 0.98
"""Cores that the subject uses where no cap binds."""
CELLS = [(8e6, 0.4), (2e6, 0.4), (8e6, 0.65)]
"""Three places that a design for the effect of cores comes back to."""
Cell = tuple[float, float]


def work_s(size: float) -> float:
    return 0.01 + 0.05e-6 * size


def trial(number: int, cell: Cell, rng: np.random.Generator) -> StoredTrial:
    """One trial of a subject with one thread; the cap binds below what it uses."""
    size, cores = cell
    used = min(cores, USED * rng.normal(1, 0.005))
    work = work_s(size) * rng.normal(1, 0.05)
    record = throttle("cores", cores, used, "core")
    if USED <= cores < math.inf:
        record = replace(record, verdict=LevelVerdict.SLACK)
    levels = (record, LevelRecord("size", size, size, 1.0, 0.0, LevelVerdict.EXACT, "argument", "B"))
    measured = {"wall_time": 0.05 + work / used, "cpu_time": work}
    return trial_of(number, levels, measured, baseline=math.isinf(cores))


def trials(cells: Sequence[Cell], seed: int = 4) -> list[StoredTrial]:
    rng = np.random.default_rng(seed)
    return [trial(number, cell, rng) for number, cell in enumerate(cells, start=1)]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_usual_where_no_other_trial_was(seed: int) -> None:
    """Neither the reciprocal of infinity nor what the only unlimited trial used lies among the others."""
    found = trials([(2e6, math.inf), *CELLS * 4, (8e6, 0.9), (2e6, 0.9)], seed)
    assert compare(found[0], found) == {}
    beyond = trials([(16e6, 0.4), *CELLS * 4], seed)
    assert compare(beyond[0], beyond) == {}
    assert compare(beyond[1], beyond)["cpu_time"].usual == pytest.approx(work_s(8e6), rel=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_one_other_trial_at_an_end_does_not_say_what_is_usual_there(seed: int) -> None:
    found = trials([(2e6, math.inf), (2e6, math.inf), *CELLS * 4], seed)
    assert compare(found[0], found) == {}


@pytest.mark.parametrize("seed", range(4))
def test_a_cap_that_did_not_bind_is_as_none(seed: int) -> None:
    """Slack and unlimited trials of the same size are alike: they stood at what the subject uses."""
    found = trials([(2e6, math.inf), (2e6, 1.0), (2e6, 1.5), (2e6, math.inf), *CELLS * 4], seed)
    for one in found[:4]:
        readings = compare(one, found)
        assert readings["cpu_time"].usual == pytest.approx(work_s(2e6), rel=0.1)
        assert readings["wall_time"].usual == pytest.approx(0.05 + work_s(2e6) / USED, rel=0.1)
        assert max(abs(reading.score) for reading in readings.values()) < 4


def test_a_trial_that_others_slowed_is_not_excused_by_what_it_achieved() -> None:
    found = trials([(8e6, math.inf)] * 4 + CELLS * 4)
    slow = found[0]
    assert slow.record is not None
    record = replace(slow.record, levels=(throttle("cores", math.inf, 0.5, "core"), *slow.record.levels[1:]))
    measured = dict(record.measurements, wall_time=0.05 + work_s(8e6) / 0.5)
    reading = compare(replace(slow, record=replace(record, measurements=measured)), found)["wall_time"]
    assert reading.usual == pytest.approx(0.05 + work_s(8e6) / USED, rel=0.1)
    assert reading.score > 5


def test_levels_that_rows_cannot_tell_apart_say_nothing() -> None:
    """Six trials are too few for a column of size and one of cores."""
    found = trials([(4e6, 0.5), (2e6, 0.4), (8e6, 0.9), (2e6, 0.9), (8e6, 0.4), (4e6, 0.7)])
    assert compare(found[0], found) == {}
    more = trials([(4e6, 0.5), *[(2e6, 0.4), (8e6, 0.9), (2e6, 0.9), (8e6, 0.4), (4e6, 0.7)] * 3])
    assert compare(more[0], more)["cpu_time"].usual == pytest.approx(work_s(4e6), rel=0.1)
