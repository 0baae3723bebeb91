"""From what was seen of a trial to its record, on made-up observations."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from insitu.injectors.actuator import Moment, MomentKind
from insitu.orchestrator.execution.host import Reading
from insitu.orchestrator.execution.judgement import Observation, judge
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.execution.sandbox import protocol
from insitu.orchestrator.execution.supervision import Watched
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.ledger import was_disturbed
from insitu.orchestrator.store.records import (
    Assignment,
    LevelVerdict,
    PlannedTrial,
    TrialEvent,
    TrialRecord,
    TrialState,
)
from tests.injectors.nodes import node
from tests.injectors.test_levels import cpu_samples, disk_samples

USAGE = dict.fromkeys(("maxrss", "minflt", "majflt", "nvcsw", "nivcsw", "inblock", "oublock"), 2.0)
WATCHED = Watched(
    started=protocol.Started(0.0),
    exited=protocol.Exited(0, 1.0, {"utime": 0.2, "stime": 0.1, **USAGE}, 1.0),
)
QUIET = Observation(
    watched=WATCHED,
    failure="",
    samples=cpu_samples(0.3),
    peak_memory_bytes=None,
    readings=(Reading(0.0, 10.0, 100.0, 0.0), Reading(1.0, 10.3, 101.7, 0.0)),
    stderr_tail="said on the way",
    resident_share=0.0,
)
CORES = SetLevel("cores", "cpu.cores", "core", 0.3)
RATE = SetLevel("rate", "disk.read_rate", "B/s", 10e6)


def judged(
    seen: Observation, *levels: SetLevel, page_cache: str = "cold", tolerated_slowdown: float = math.inf
) -> TrialRecord:
    order = TrialOrder(
        planned=PlannedTrial(4, 1, Assignment(())),
        command=Program(("true",)),
        prepare=None,
        environment=(),
        page_cache=page_cache,
        levels=levels,
        parameters=(("size", 8e6, "B"),),
        guards=Guards(),
        tolerated_slowdown=tolerated_slowdown,
    )
    return judge(order, seen, node(), "here", began=5.0, duration_s=1.5)


def test_a_held_level_makes_a_valid_trial() -> None:
    record = judged(QUIET, CORES)
    assert (record.state, record.reasons) == (TrialState.VALID, ())
    cores, size = record.levels
    assert (cores.verdict, cores.mechanism, cores.requested) == (LevelVerdict.HELD, "cgroup1.cpu.cfs", 0.3)
    assert cores.achieved == pytest.approx(0.3)
    assert (size.verdict, size.achieved, size.mechanism) == (LevelVerdict.EXACT, 8e6, "argument")
    assert (record.trial, record.node, record.exit_status) == (4, "here", 0)
    assert (record.started_at, record.duration_s) == (5.0, 1.5)
    assert record.stderr_tail == ""


def test_the_group_s_counters_go_before_resource_usage() -> None:
    measured = judged(QUIET).measurements
    assert measured["cpu_time"] == pytest.approx(0.3)
    assert measured["user_time"] == 0.2
    assert measured["wall_time"] == 1.0
    assert measured["read_bytes"] == 2 * 512
    assert measured["peak_memory"] == 2 * 1024
    assert judged(dataclasses.replace(QUIET, peak_memory_bytes=77.0)).measurements["peak_memory"] == 77.0
    reading = dataclasses.replace(QUIET, samples=disk_samples(5e6, wall_s=1.0) | {"cpu_s": np.zeros(41)})
    assert judged(reading).measurements["read_bytes"] == pytest.approx(5e6)
    assert judged(reading).measurements["io_pressure"] == pytest.approx(1.0)


def test_a_missed_level_makes_an_invalid_trial_that_says_which() -> None:
    record = judged(dataclasses.replace(QUIET, samples=cpu_samples(0.5)), CORES)
    assert record.state is TrialState.INVALID
    assert record.reasons == ("cores: 0.5 core instead of 0.3 core",)
    assert record.levels[0].verdict is LevelVerdict.MISSED


def test_a_level_that_cannot_be_told_makes_an_invalid_trial_that_says_what_it_takes() -> None:
    record = judged(dataclasses.replace(QUIET, samples=cpu_samples(0.3, wall_s=0.05)), CORES)
    (cores, _) = record.levels
    assert (cores.verdict, cores.achieved) == (LevelVerdict.MISSED, None)
    assert record.state is TrialState.INVALID
    assert record.reasons == (f"cores: whether it came to 0.3 core cannot be told: {cores.note}",)
    assert "the cap bound for 0.05 s in a row, and it takes 0.07 s to tell" in cores.note
    assert not was_disturbed(record)


def test_a_disturbed_level_says_what_others_did() -> None:
    crowd = disk_samples(4e6, foreign=20e6) | {"cpu_s": np.zeros(161)}
    record = judged(dataclasses.replace(QUIET, samples=crowd), RATE)
    assert record.state is TrialState.INVALID
    assert record.levels[0].verdict is LevelVerdict.DISTURBED
    assert "others had 80.0 MB" in record.reasons[0]


def test_a_trial_on_processors_that_were_slower_than_the_plan_tolerates_is_disturbed() -> None:
    slow = dataclasses.replace(QUIET, slower_share=0.4)
    assert judged(slow, CORES).state is TrialState.VALID
    assert judged(slow, CORES).host["slower_share"] == 0.4
    record = judged(slow, CORES, tolerated_slowdown=0.15)
    assert record.state is TrialState.INVALID
    assert was_disturbed(record)
    (reason,) = record.reasons
    assert reason.startswith("the processors were 40 % slower")
    assert "slower_share" not in judged(QUIET, CORES, tolerated_slowdown=0.15).host


@pytest.mark.parametrize(
    ("level", "samples", "verdict"),
    [
        (CORES, cpu_samples(0.1, throttled=0.0), LevelVerdict.SLACK),
        (dataclasses.replace(CORES, level=math.inf), cpu_samples(0.9), LevelVerdict.UNSET),
    ],
)
def test_slack_and_unset_levels_are_valid(
    level: SetLevel, samples: dict[str, np.ndarray], verdict: LevelVerdict
) -> None:
    record = judged(dataclasses.replace(QUIET, samples=samples), level)
    assert record.state is TrialState.VALID
    assert record.levels[0].verdict is verdict
    assert (record.levels[0].mechanism == "none") == (verdict is LevelVerdict.UNSET)


def test_a_failure_goes_before_everything_and_nothing_is_judged() -> None:
    seen = dataclasses.replace(QUIET, failure="exit status 2: no", samples=cpu_samples(0.9), resident_share=1.0)
    record = judged(seen, CORES)
    assert (record.state, record.reasons) == (TrialState.FAILED, ("exit status 2: no",))
    assert [level.variable for level in record.levels] == ["size"]
    assert record.stderr_tail == "said on the way"


def test_a_program_that_never_ended_has_no_measurements() -> None:
    record = judged(dataclasses.replace(QUIET, watched=Watched(), failure="killed"))
    assert (record.exit_status, record.measurements, record.host) == (None, {}, {})


@pytest.mark.parametrize(
    ("page_cache", "share", "expected"),
    [
        ("cold", 0.5, TrialState.INVALID),
        ("cold", 0.01, TrialState.VALID),
        ("cold", None, TrialState.VALID),
        ("warm", 1.0, TrialState.VALID),
    ],
)
def test_an_input_that_is_still_in_memory_is_not_cold(
    page_cache: str, share: float | None, expected: TrialState
) -> None:
    record = judged(dataclasses.replace(QUIET, resident_share=share), CORES, page_cache=page_cache)
    assert record.state is expected
    assert record.reasons == (("50% of the input was still in memory",) if share == 0.5 else ())


def test_a_crowded_host_makes_an_invalid_trial() -> None:
    crowded = (Reading(0.0, 10.0, 100.0, 0.0), Reading(1.0, 12.0, 100.0, 0.0))
    record = judged(dataclasses.replace(QUIET, readings=crowded), CORES)
    assert record.state is TrialState.INVALID
    assert record.reasons == ("other processes used 1.70 cores",)
    assert record.host["other_cores"] == pytest.approx(1.7)


CROWD = SetLevel("crowd", "anomaly.cpu", "", 8.0)


def crowded(cpu_s: float) -> dict[str, np.ndarray]:
    """Samples of a subject beside eight processes that took so much processor time."""
    samples = cpu_samples(0.2, throttled=0.0, stalled=0.8)
    added = {"open_s": 1.0, "demand": 8.0, "cpu_s": cpu_s}
    return samples | {f"anomaly.cpu:{name}": value * samples["time_s"] for name, value in added.items()}


@pytest.mark.parametrize(("foreign_s", "disturbed"), [(0.05, False), (0.3, True), (1.0, True)])
def test_what_was_added_is_no_disturbance_but_others_beside_it_are(foreign_s: float, disturbed: bool) -> None:
    taken_s = 1.8 - foreign_s
    readings = (Reading(0.0, 10.0, 100.0, 0.0), Reading(1.0, 12.0, 100.0, 0.0))
    record = judged(dataclasses.replace(QUIET, samples=crowded(taken_s), readings=readings), CORES, CROWD)
    assert record.host["other_cores"] == pytest.approx(foreign_s)
    assert record.host["added_cores"] == pytest.approx(taken_s)
    assert record.measurements["anomaly.cpu:cpu_s"] == pytest.approx(taken_s)
    assert (record.state is TrialState.INVALID) == disturbed
    cores, crowd = record.levels[:2]
    assert (cores.verdict, cores.note) == (LevelVerdict.SLACK, "what was added beside the subject took the rest")
    assert crowd.verdict is LevelVerdict.HELD
    assert crowd.achieved == pytest.approx(8.0)


def test_memory_that_was_taken_on_purpose_may_be_short() -> None:
    stalled = cpu_samples(0.2) | {"memory_stall_s": cpu_samples(1.0)["time_s"] * 0.5}
    assert judged(dataclasses.replace(QUIET, samples=stalled)).reasons == ("the machine was short of memory",)
    held = {
        f"anomaly.memory:{name}": rate * stalled["time_s"] for name, rate in (("open_s", 1.0), ("demand", 1e9))
    }
    beside = dataclasses.replace(QUIET, samples=stalled | held)
    assert judged(beside, SetLevel("room", "anomaly.memory", "B", 1e9)).reasons == ()


def test_moments_of_a_trial_are_told_in_order_and_by_the_clock_on_the_wall() -> None:
    onset = Moment(MomentKind.ONSET, "anomaly.cpu", 2.0, 2.001)
    offset = Moment(MomentKind.OFFSET, "anomaly.cpu", 3.0, 3.002)
    started = dataclasses.replace(WATCHED, started=protocol.Started(100.0))
    seen = dataclasses.replace(QUIET, watched=started, moments=(offset, onset), epoch_s=5000.0)
    assert judged(seen).events == (
        TrialEvent(5102.001, "onset", "anomaly.cpu", 2.0, 2.001),
        TrialEvent(5103.002, "offset", "anomaly.cpu", 3.0, 3.002),
    )
    assert judged(dataclasses.replace(seen, watched=Watched(), failure="not started")).events == ()
