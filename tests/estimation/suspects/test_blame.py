"""Signs of a disturbance in one trial, and the table that says whose they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.estimation.suspects.blame import Cause, Suspect, cause_of, suspects_of
from insitu.orchestrator.estimation.suspects.symptoms import Sign, Symptom, signs_of
from insitu.orchestrator.estimation.suspects.usual import FEWEST, compare, measured, unit_of
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    StoredTrial,
    TrialState,
)
from tests.estimation.chains import trial_of
from tests.statistics.crowded_node import Crowd, crowd_of, run


@pytest.fixture
def quiet() -> list[StoredTrial]:
    rng = np.random.default_rng(3)
    return [run(number, rng, Crowd()) for number in range(1, 13)]


def suspects(trial: StoredTrial, others: list[StoredTrial]) -> tuple[Suspect, ...]:
    return suspects_of(others, compare(trial, others), {})


def sign(trial: StoredTrial, others: list[StoredTrial], symptom: Symptom) -> Sign:
    return next(one for one in signs_of(compare(trial, others)) if one.symptom is symptom)


def test_a_suspect_says_what_speaks_for_it_and_how_long_it_took(quiet: list[StoredTrial]) -> None:
    trial = run(99, np.random.default_rng(5), Crowd(busy=4))
    first = suspects(trial, quiet)[0]
    assert first.cause is Cause.CPU
    assert first.probability > 0.9
    assert {one.symptom for one in first.signs} == {Symptom.WAITED_FOR_PROCESSOR, Symptom.OTHERS_COMPUTED}
    readings = compare(trial, quiet)
    assert first.seconds == pytest.approx(readings["cpu_stall"].excess)
    assert first.seconds == pytest.approx(readings["wall_time"].excess, rel=0.15)
    assert any("waited" in one.text and "for a processor" in one.text for one in first.signs)


def test_a_trial_that_took_no_longer_has_no_suspects(quiet: list[StoredTrial]) -> None:
    trial = run(99, np.random.default_rng(5), Crowd(busy=4))
    assert trial.record is not None
    fast = dict(trial.record.measurements, wall_time=0.5)
    assert suspects(replace(trial, record=replace(trial.record, measurements=fast)), quiet) == ()


def test_a_trial_that_is_hardly_slower_than_others_may_be_has_suspects(quiet: list[StoredTrial]) -> None:
    """What others did is plain; a time within what trials differ by is no reason to say nothing."""
    others = [timed(one, (0.8, 1.0, 1.2)[number % 3]) for number, one in enumerate(quiet)]
    loud = run(99, np.random.default_rng(5), Crowd(busy=0.6, disk_bytes_per_s=3e8, kernel_share=0.7))
    assert loud.record is not None
    usual_s = compare(loud, others)["wall_time"].usual
    for share, blamed in ((1.06, True), (1.02, False)):
        trial = timed(loud, share * usual_s / loud.record.measurements["wall_time"])
        assert compare(trial, others)["wall_time"].score < 1
        assert [one.cause for one in suspects(trial, others)[:1]] == ([Cause.DISK] if blamed else [])


def timed(trial: StoredTrial, factor: float) -> StoredTrial:
    """The same trial, with another wall time."""
    assert trial.record is not None
    measured = dict(trial.record.measurements)
    measured["wall_time"] *= factor
    return replace(trial, record=replace(trial.record, measurements=measured))


def test_what_the_host_holds_is_usual_for_its_time(quiet: list[StoredTrial]) -> None:
    """A program of 200 MB began before the last four trials: it is no sign in the next one, and hides none."""

    def at(trial: StoredTrial, time_s: float) -> StoredTrial:
        assert trial.record is not None
        host = dict(trial.record.host)
        host["held_bytes"] += 2e8 if time_s > 7 else 0.0
        return replace(trial, record=replace(trial.record, host=host, started_at=time_s))

    others = [at(one, float(number)) for number, one in enumerate(quiet)]
    calm = at(run(99, np.random.default_rng(5), Crowd(busy=3)), 20.0)
    assert sign(calm, others, Symptom.MEMORY_HELD).strength < 0.5
    assert suspects(calm, others)[0].cause is Cause.CPU
    trial = at(run(99, np.random.default_rng(5), crowd_of("anomaly.cache", np.random.default_rng(5))), 20.0)
    assert suspects(trial, others)[0].cause is Cause.CACHE


def test_neighbours_that_the_subject_did_not_feel_are_not_blamed_for_the_disk(quiet: list[StoredTrial]) -> None:
    """Others write a lot; the subject waited for a processor, not for the disk."""
    trial = run(99, np.random.default_rng(5), Crowd(busy=4, disk_bytes_per_s=1e8))
    assert suspects(trial, quiet)[0].cause is Cause.CPU


def test_without_figures_of_the_host_the_waiting_alone_tells(quiet: list[StoredTrial]) -> None:
    def bare(trial: StoredTrial) -> StoredTrial:
        assert trial.record is not None
        return replace(trial, record=replace(trial.record, host={}))

    others = [bare(one) for one in quiet]
    rng = np.random.default_rng(5)
    assert suspects(bare(run(99, rng, Crowd(busy=4))), others)[0].cause is Cause.CPU
    assert suspects(bare(run(99, rng, Crowd(disk_factor=12))), others)[0].cause is Cause.DISK
    stalled = Crowd(memory_stall_s=1.0)
    assert suspects(bare(run(99, rng, stalled)), others)[0].cause is Cause.MEMORY


def test_the_hypervisor_is_a_suspect_too(quiet: list[StoredTrial]) -> None:
    trial = run(99, np.random.default_rng(5), Crowd(slower=1.6))
    assert trial.record is not None
    host = dict(trial.record.host, steal_cores=0.4)
    first = suspects(replace(trial, record=replace(trial.record, host=host)), quiet)[0]
    assert first.cause is Cause.HYPERVISOR


def test_a_run_with_anomalies_of_its_own_corrects_the_table() -> None:
    """Where disk anomalies were seen to bring nothing but work in the kernel, that speaks for them."""
    variables = {"writers": Variable("writers", "", Role.SET, "anomaly.disk")}
    rng = np.random.default_rng(8)

    def with_writers(trial: StoredTrial, level: float) -> StoredTrial:
        levels = (*trial.planned.assignment.levels, ("writers", level))
        return replace(trial, planned=replace(trial.planned, assignment=Assignment(levels)))

    kernel = Crowd(busy=0.9, slower=1.4, kernel_share=0.9)
    quiet = [with_writers(run(number, rng, Crowd()), 0.0) for number in range(1, 13)]
    known = [
        with_writers(replace(run(number, rng, kernel), state=TrialState.VALID), 4.0) for number in range(13, 33)
    ]
    secret = with_writers(run(99, rng, kernel), 0.0)
    readings = compare(secret, quiet)
    before = {one.cause: one.probability for one in suspects_of(quiet, readings, variables)}
    after = {one.cause: one.probability for one in suspects_of([*quiet, *known], readings, variables)}
    assert before.get(Cause.DISK, 0.0) < 0.5
    assert after[Cause.DISK] > 0.9


def test_kinds_of_anomalies_are_known_by_their_injectors() -> None:
    def of(source: str | None) -> Cause | None:
        return cause_of(Variable("x", "", Role.SET, source))

    assert of("anomaly.cpu") is of("anomaly.cpu.duty") is of("anomaly.cpu.cores") is Cause.CPU
    assert of("anomaly.memory_bandwidth.rate") is Cause.MEMORY_BANDWIDTH
    assert of("cpu.cores") is of("anomaly.of.somebody") is of(None) is None


def test_measurements_are_compared_with_trials_of_the_same_assignment(quiet: list[StoredTrial]) -> None:
    rng = np.random.default_rng(6)
    larger = [run(number, rng, Crowd(), size=256e6) for number in range(20, 26)]
    readings = compare(run(99, rng, Crowd(), size=256e6), [*quiet, *larger])
    walls = [one.record.measurements["wall_time"] for one in larger if one.record is not None]
    assert readings["wall_time"].usual == pytest.approx(float(np.median(walls)))
    assert abs(readings["wall_time"].score) < 3


def test_levels_that_no_trial_had_are_interpolated() -> None:
    rng = np.random.default_rng(6)
    sizes = (16e6, 32e6, 128e6, 256e6)
    others = [run(number, rng, Crowd(), size=sizes[number % 4]) for number in range(1, 25)]
    trial = run(99, rng, Crowd(), size=64e6)
    readings = compare(trial, others)
    assert readings["wall_time"].usual == pytest.approx(1.1e-8 * 64e6 + 0.1 + 0.064 + 0.02, rel=0.1)
    assert abs(readings["wall_time"].score) < 3
    slow = compare(run(99, rng, Crowd(busy=4), size=64e6), others)
    assert slow["wall_time"].score > 6


def test_too_few_trials_say_nothing(quiet: list[StoredTrial]) -> None:
    trial = run(99, np.random.default_rng(5), Crowd(busy=4))
    assert compare(trial, quiet[: FEWEST - 1]) == {}
    assert suspects(trial, quiet[: FEWEST - 1]) == ()
    spoilt = [replace(one, state=TrialState.INVALID) for one in quiet]
    assert compare(trial, spoilt) == {}


def test_what_follows_from_the_measurements() -> None:
    level = LevelRecord("size", 1.0, 1.0, 1.0, 0.0, LevelVerdict.EXACT, "argument", "")
    trial = trial_of(
        1,
        (level,),
        {
            "wall_time": 2.0,
            "system_time": 0.4,
            "cpu_pressure": 0.25,
            "anomaly.disk:write_bytes": 5e6,
            "peak_memory": float("nan"),
        },
        host={"other_cores": 0.1, "added_cores": 0.5, "kernel_cores": 0.6, "other_disk_bytes": 1e6},
    )
    assert trial.record is not None
    found = measured(trial.record)
    assert found["cpu_stall"] == 0.5
    assert found["host.others_cores"] == pytest.approx(0.6)
    assert found["host.others_kernel_cores"] == pytest.approx(0.4)
    assert found["host.others_disk_bytes"] == 6e6
    assert "peak_memory" not in found
    units = {name: unit_of(name) for name in (*found, "major_faults")}
    assert units["host.others_disk_bytes"] == "B"
    assert units["cpu_stall"] == units["wall_time"] == "s"
    assert units["host.kernel_cores"] == "core"
    assert units["cpu_pressure"] == "fraction"
    assert units["anomaly.disk:write_bytes"] == "B"
    assert units["major_faults"] == ""
