"""Capabilities, treatments and achieved levels of the built-in injectors, on made-up machines and samples."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.contract import Achieved, Injector, Node, Setting, StopAndGo
from insitu.injectors.cpu import CpuCores, quota_period_s
from insitu.injectors.disk import DiskReadOperations, DiskReadRate, DiskWriteOperations, DiskWriteRate
from insitu.injectors.lifecycle import Verdict, verdict
from tests.injectors.nodes import NO_PERMISSION, bare_node, node
from tests.injectors.simulated import Disk, Processors

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

CPU, READ, WRITE = CpuCores(), DiskReadRate(), DiskWriteRate()
READ_OPS, WRITE_OPS = DiskReadOperations(), DiskWriteOperations()
STEP_S = 0.025
UNLIMITED = math.inf


def judged(injector: Injector, level: float, samples: Samples, on: Node | None = None) -> Verdict:
    return verdict(level, injector.achieved(level, samples, on or node()), injector)


def cpu_samples(
    rate: float, *, throttled: float = 1.0, wall_s: float = 1.0, stalled: float = 0.0, period_s: float = 0.01
) -> dict[str, np.ndarray]:
    """Counters of a group that used `rate` cores; `throttled` is the share of its periods."""
    time_s = np.arange(0, wall_s + STEP_S / 2, STEP_S)
    periods = np.floor(time_s / period_s + 1e-9)
    return {
        "time_s": time_s,
        "cpu_s": rate * time_s,
        "periods": periods,
        "throttled_periods": periods * throttled,
        "cpu_stall_s": stalled * time_s,
        "io_stall_s": 0 * time_s,
    }


def disk_samples(
    rate: float,
    *,
    wall_s: float = 4.0,
    until_s: float = math.inf,
    waiting: float = 1.0,
    foreign: float = 0.0,
    direction: str = "read",
    busy: float = 0.3,
) -> dict[str, np.ndarray]:
    """Counters of a subject that read at `rate` until a time, waiting for the disk meanwhile."""
    time_s = np.arange(0, wall_s + STEP_S / 2, STEP_S)
    busy_s = np.minimum(time_s, until_s)
    return {
        "time_s": time_s,
        f"{direction}_bytes": rate * busy_s,
        f"device_{direction}_bytes": rate * busy_s + foreign * time_s,
        "io_stall_s": waiting * busy_s,
        "device_busy_s": busy * busy_s,
    }


# --- cpu.cores: achieved ---------------------------------------------------------------------------------


def test_cores_held() -> None:
    achieved = CPU.achieved(0.3, cpu_samples(0.3), node())
    assert achieved.level == pytest.approx(0.3)
    assert achieved.bound_share == pytest.approx(1.0)
    assert verdict(0.3, achieved, CPU) is Verdict.HELD


def test_cores_are_judged_over_the_time_in_which_the_cap_bound() -> None:
    reading = cpu_samples(0.01, throttled=0.0)
    computing = cpu_samples(0.3)
    both = {name: np.concatenate((reading[name], reading[name][-1] + computing[name][1:])) for name in reading}
    achieved = CPU.achieved(0.3, both, node())
    assert achieved.level == pytest.approx(0.3)
    assert achieved.bound_share == pytest.approx(0.5)


def test_cores_that_bound_for_a_moment_only_are_slack_and_not_held_at_whatever_that_moment_showed() -> None:
    samples = cpu_samples(0.99, throttled=0.0, wall_s=2.5, period_s=0.1)
    samples["cpu_s"][4:] += 0.005
    samples["throttled_periods"][4:] += 1  # one more process ran beside the others, in the first period
    achieved = CPU.achieved(1.0, samples, node())
    assert verdict(1.0, achieved, CPU) is Verdict.SLACK
    assert achieved.level == pytest.approx(0.99, rel=0.01)
    assert "too briefly" in achieved.note


@pytest.mark.parametrize("wall_s", [0.125, 0.15, 0.225, 0.25])
def test_a_trial_that_ended_before_its_quota_held_it_up_is_slack_at_what_it_used(wall_s: float) -> None:
    samples = Processors(quota_period_s(0.9), 0.9, threads=1).samples(wall_s)
    achieved = CPU.achieved(0.9, samples, node())
    assert samples["throttled_s"][-1] > 0
    assert verdict(0.9, achieved, CPU) is Verdict.SLACK
    assert achieved.level == pytest.approx(samples["cpu_s"][-1] / samples["time_s"][-1])
    assert achieved.uncertainty == 0
    assert "too briefly" in achieved.note


@pytest.mark.parametrize(("level", "wall_s", "enough"), [(0.4, 0.05, "0.07 s"), (0.8, 0.1, "0.11 s")])
def test_a_quota_that_stopped_a_subject_for_too_short_to_tell_is_not_held(
    level: float, wall_s: float, enough: str
) -> None:
    samples = Processors(quota_period_s(level), level, threads=1).samples(wall_s)
    achieved = CPU.achieved(level, samples, node())
    assert verdict(level, achieved, CPU) is Verdict.MISSED
    assert achieved.level is None
    assert f"it takes {enough} to tell" in achieved.note
    enough_s = float(enough.split()[0])
    longer = Processors(quota_period_s(level), level, threads=1).samples(
        enough_s + quota_period_s(level) + 2 * STEP_S
    )
    assert judged(CPU, level, longer) is Verdict.HELD


def test_a_subject_that_was_stopped_little_but_used_less_than_its_quota_is_not_told_by_what_it_used() -> None:
    bursts = Processors(quota_period_s(0.9), 0.9, threads=1).samples(0.15)
    idle = {name: np.concatenate((column, np.full(2, column[-1]))) for name, column in bursts.items()}
    idle["time_s"] = np.arange(len(idle["cpu_s"])) * STEP_S
    assert judged(CPU, 0.9, bursts) is Verdict.SLACK
    assert judged(CPU, 0.9, idle) is Verdict.MISSED


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_cores_missed(rate: float) -> None:
    assert judged(CPU, 0.3, cpu_samples(rate)) is Verdict.MISSED


def test_cores_slack_when_the_subject_wanted_less() -> None:
    samples = cpu_samples(0.1, throttled=0.0)
    assert judged(CPU, 0.3, samples) is Verdict.SLACK
    assert CPU.achieved(0.3, samples, node()).level == pytest.approx(0.1)


def test_cores_disturbed_when_others_had_the_processor() -> None:
    assert judged(CPU, 0.8, cpu_samples(0.4, throttled=0.0, stalled=0.5)) is Verdict.DISTURBED


def test_a_cap_that_bound_for_a_moment_does_not_hide_that_others_had_the_processor() -> None:
    samples = cpu_samples(0.4, throttled=0.0, stalled=0.5, period_s=0.05)
    samples["throttled_periods"][20:] += 1
    achieved = CPU.achieved(0.8, samples, node())
    assert verdict(0.8, achieved, CPU) is Verdict.DISTURBED
    assert achieved.note == ""


def test_cores_unset_even_when_others_had_the_processor() -> None:
    samples = cpu_samples(0.4, throttled=0.0, stalled=0.5)
    assert judged(CPU, UNLIMITED, samples) is Verdict.UNSET
    assert CPU.achieved(UNLIMITED, samples, node()).bound_share == 0


def test_pressure_in_throttled_time_is_the_cap_s_own() -> None:
    assert judged(CPU, 0.3, cpu_samples(0.3, stalled=0.9)) is Verdict.HELD


def test_more_threads_than_processors_are_not_starved_by_others() -> None:
    assert not CPU.achieved(2.0, cpu_samples(1.95, throttled=0.0, stalled=0.9), node()).starved


@given(st.floats(0.05, 2.0), st.floats(0.2, 2.0))
def test_a_quota_is_held_exactly_when_the_rate_is_within_tolerance(level: float, factor: float) -> None:
    samples = cpu_samples(level * factor, wall_s=5.0)
    achieved = CPU.achieved(level, samples, node())
    allowed = CPU.tolerance * level + achieved.uncertainty
    off = abs(level * factor - level)
    if not math.isclose(off, allowed, rel_tol=1e-6):
        expected = Verdict.HELD if off < allowed else Verdict.MISSED
        assert verdict(level, achieved, CPU) is expected


def test_what_cannot_be_resolved_is_added_to_the_tolerance() -> None:
    short = CPU.achieved(0.3, cpu_samples(0.3, wall_s=0.1), node())
    long = CPU.achieved(0.3, cpu_samples(0.3, wall_s=2.0), node())
    assert short.uncertainty > 10 * long.uncertainty > 0


def duty_samples(share: float, wall_s: float = 2.0) -> dict[str, np.ndarray]:
    """A duty cycle of 20 ms, seen by a process tree only."""
    time_s = np.arange(0, wall_s + STEP_S / 2, STEP_S)
    whole, part = np.divmod(time_s, 0.02)
    return {"time_s": time_s, "cpu_s": share * 0.02 * whole + np.minimum(part, share * 0.02)}


def test_a_duty_cycle_is_held() -> None:
    achieved = CPU.achieved(0.3, duty_samples(0.3), bare_node())
    assert achieved.level == pytest.approx(0.3, rel=0.03)
    assert verdict(0.3, achieved, CPU) is Verdict.HELD


def test_a_duty_cycle_is_missed_and_slack() -> None:
    assert judged(CPU, 0.3, duty_samples(0.5), bare_node()) is Verdict.MISSED
    assert judged(CPU, 0.5, duty_samples(0.1), bare_node()) is Verdict.SLACK


# --- disk rates: achieved --------------------------------------------------------------------------------

DIRECTIONS = pytest.mark.parametrize(("injector", "direction"), [(READ, "read"), (WRITE, "write")])


@DIRECTIONS
def test_disk_rate_held(injector: Injector, direction: str) -> None:
    achieved = injector.achieved(10e6, disk_samples(10e6, direction=direction), node())
    assert achieved.level == pytest.approx(10e6, rel=0.03)
    assert achieved.bound_share == pytest.approx(1.0)
    assert verdict(10e6, achieved, injector) is Verdict.HELD


@DIRECTIONS
def test_the_other_direction_s_bytes_do_not_count(injector: Injector, direction: str) -> None:
    other = "write" if direction == "read" else "read"
    samples = disk_samples(10e6, direction=other) | {
        f"{direction}_bytes": np.zeros(161),
        f"device_{direction}_bytes": np.zeros(161),
    }
    achieved = injector.achieved(10e6, samples, node())
    assert achieved.level is None or achieved.level == 0
    assert judged(injector, 10e6, samples) is Verdict.SLACK


def test_a_read_phase_is_judged_by_itself() -> None:
    achieved = READ.achieved(10e6, disk_samples(10e6, until_s=1.0), node())
    assert achieved.level == pytest.approx(10e6, rel=0.1)
    assert achieved.bound_share == pytest.approx(0.25, abs=0.05)
    assert verdict(10e6, achieved, READ) is Verdict.HELD


@pytest.mark.parametrize(("wall_s", "expected"), [(0.3, Verdict.MISSED), (4.0, Verdict.SLACK)])
def test_a_rate_that_bound_for_less_than_two_slices_is_not_held(wall_s: float, expected: Verdict) -> None:
    achieved = READ.achieved(10e6, disk_samples(10e6, wall_s=wall_s, until_s=0.15), node())
    assert verdict(10e6, achieved, READ) is expected
    assert "too briefly" in achieved.note if expected is Verdict.SLACK else "it takes 0.20 s" in achieved.note
    assert judged(READ, 10e6, disk_samples(10e6, until_s=0.25, wall_s=1.0)) is Verdict.HELD


def test_disk_rate_missed_when_more_came_through() -> None:
    assert judged(READ, 10e6, disk_samples(13e6)) is Verdict.MISSED


def test_disk_rate_slack_when_the_subject_never_waited() -> None:
    assert judged(READ, 10e6, disk_samples(1e6, waiting=0.01)) is Verdict.SLACK


@pytest.mark.parametrize(
    ("busy", "why"), [(0.95, "the disk itself is slower"), (0.2, "waited for something else")]
)
def test_disk_rate_slack_when_the_disk_is_slower_than_the_cap(busy: float, why: str) -> None:
    achieved = READ.achieved(100e6, disk_samples(20e6, busy=busy), node())
    assert why in achieved.note
    assert achieved.level == pytest.approx(20e6, rel=0.05)
    assert verdict(100e6, achieved, READ) is Verdict.SLACK


def test_a_little_below_the_cap_the_disk_s_own_time_tells_a_slow_disk_from_a_cap_that_is_too_tight() -> None:
    assert judged(READ, 10e6, disk_samples(9.2e6, busy=0.95)) is Verdict.SLACK
    assert judged(READ, 10e6, disk_samples(9.2e6, busy=0.3)) is Verdict.MISSED
    assert judged(READ, 10e6, disk_samples(9.9e6, busy=0.95)) is Verdict.HELD


def journalled(flushes: float) -> dict[str, np.ndarray]:
    """Synchronous writes at 2 MB/s, of which the file system's thread makes 3 MB/s."""
    samples = disk_samples(2e6, direction="write", foreign=1e6)
    time_s = samples["time_s"]
    return samples | {"write_ops": 500 * time_s, "device_flushes": flushes * time_s}


def test_the_journal_of_the_file_system_is_not_others() -> None:
    assert judged(WRITE, 2e6, journalled(flushes=200.0)) is Verdict.HELD
    assert WRITE.achieved(2e6, journalled(flushes=200.0), node()).level == pytest.approx(2e6, rel=0.03)
    assert judged(WRITE, 2e6, journalled(flushes=5.0)) is Verdict.DISTURBED


def test_what_is_left_in_memory_at_the_end_is_told() -> None:
    samples = disk_samples(0.0, direction="write", waiting=0.0) | {"dirty_bytes": np.full(161, 24e6)}
    achieved = WRITE.achieved(10e6, samples, node(2))
    assert achieved.note == "24.0 MB were still to be written when it ended"
    assert verdict(10e6, achieved, WRITE) is Verdict.SLACK
    assert {probe.key for probe in WRITE.probes(node(2))} == {"file_dirty", "file_writeback"}
    assert WRITE.probes(node(1)) == READ.probes(node(2)) == ()


@pytest.mark.parametrize(("injector", "way"), [(READ_OPS, "read"), (WRITE_OPS, "write")])
def test_requests_are_judged_as_bytes_are(injector: Injector, way: str) -> None:
    def operations(rate: float) -> dict[str, np.ndarray]:
        bytes_ = disk_samples(rate, direction=way)
        return {name.replace("bytes", "ops"): column for name, column in bytes_.items()}

    assert injector.achieved(300, operations(300), node()).level == pytest.approx(300, rel=0.03)
    assert judged(injector, 300, operations(300)) is Verdict.HELD
    assert judged(injector, 300, operations(400)) is Verdict.MISSED
    assert judged(injector, 300, operations(100)) is Verdict.SLACK
    assert judged(injector, 300, disk_samples(300, direction=way)) is Verdict.SLACK


def test_disk_rate_disturbed_when_others_moved_much() -> None:
    samples = disk_samples(4e6, foreign=20e6)
    assert judged(READ, 10e6, samples) is Verdict.DISTURBED
    assert "80.0 MB" in READ.achieved(10e6, samples, node()).note


@DIRECTIONS
def test_a_subject_that_asked_for_nothing_is_slack_whatever_others_move(
    injector: Injector, direction: str
) -> None:
    samples = disk_samples(0.0, waiting=0.0, foreign=50e6, direction=direction)
    achieved = injector.achieved(10e6, samples, node())
    assert not achieved.starved
    assert verdict(10e6, achieved, injector) is Verdict.SLACK


@given(st.floats(0.0, 4.0))
def test_the_little_that_others_move_leaves_the_rate_as_it_is_whenever_they_do(when_s: float) -> None:
    plain = Disk(5e6, 1e9, 1048576.0, begin_s=0.2).samples(4.0)
    theirs = np.where(plain["time_s"] >= when_s, 1e6, 0.0)
    samples = plain | {"device_read_bytes": plain["device_read_bytes"] + theirs}
    assert READ.achieved(5e6, samples, node()).level == pytest.approx(5e6, rel=0.02)  # a piece is 5 %


def test_the_last_piece_counts_if_it_arrives_while_a_sample_is_taken() -> None:
    plain = Disk(5e6, 1e9, 1048576.0, begin_s=0.2).samples(4.0)
    after_s = plain["time_s"][-1] + 0.003
    samples = {name: np.append(column, column[-1]) for name, column in plain.items()} | {
        "time_s": np.append(plain["time_s"], after_s)
    }
    samples["device_read_bytes"][-2] -= 1048576.0  # this counter was read before, and the waiting after it
    assert READ.achieved(5e6, samples, node()).level == pytest.approx(5e6, rel=0.02)


def test_disk_rate_unset() -> None:
    samples = disk_samples(50e6, foreign=50e6)
    assert judged(READ, UNLIMITED, samples) is Verdict.UNSET
    assert READ.achieved(UNLIMITED, samples, node()).bound_share == 0


def test_a_node_that_does_not_count_says_so() -> None:
    time_s = np.arange(4.0)
    achieved = READ.achieved(10e6, {"time_s": time_s, "cpu_s": time_s}, node())
    assert achieved == Achieved(None, 0.0, 0.0, note="not measured on this node")


@pytest.mark.parametrize("level", [10e6, 40e6])
@pytest.mark.parametrize("factor", [0.97, 1.0, 1.03])
def test_a_disk_rate_within_tolerance_is_held(level: float, factor: float) -> None:
    assert judged(READ, level, disk_samples(level * factor)) is Verdict.HELD


# --- capabilities ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_the_mechanism_names_the_version(version: int) -> None:
    on = node(version)
    assert CPU.capability(on).mechanism == f"cgroup{version}.cpu.cfs"
    for injector in (READ, READ_OPS):
        assert injector.capability(on).mechanism == f"cgroup{version}.io.throttle"
    everyone: tuple[Injector, ...] = (CPU, READ, READ_OPS)
    for each in everyone:
        capability = each.capability(on)
        assert capability.settable
        assert not capability.weaker
        assert not capability.reason


@pytest.mark.parametrize("injector", [WRITE, WRITE_OPS])
def test_version_1_holds_writes_by_a_synchronous_scratch_folder_and_says_so(injector: Injector) -> None:
    old, new = injector.capability(node(1)), injector.capability(node(2))
    assert (old.mechanism, old.weaker) == ("cgroup1.io.throttle+synchronous-scratch", True)
    assert "buffered writes" in old.reason
    assert "version 2" in old.remedy
    assert (new.mechanism, new.weaker, new.reason) == ("cgroup2.io.throttle", False, "")
    for level in (10e6, UNLIMITED):
        assert injector.treatment(level, node(1)).synchronous_scratch
        assert not injector.treatment(level, node(2)).synchronous_scratch
        assert not READ.treatment(level, node(1)).synchronous_scratch


@pytest.mark.parametrize("injector", [WRITE, WRITE_OPS])
def test_version_1_cannot_hold_writes_on_a_file_system_without_the_attribute(injector: Injector) -> None:
    problem = "the file system at /run has no synchronous attribute: Operation not supported"
    capability = injector.capability(dataclasses.replace(node(1), synchronous_problem=problem))
    assert not capability.settable
    assert capability.reason == f"version 1 does not hold buffered writes, and {problem}"
    assert "--out" in capability.remedy
    assert injector.capability(dataclasses.replace(node(2), synchronous_problem=problem)).settable
    assert READ.capability(dataclasses.replace(node(1), synchronous_problem=problem)).settable


def test_without_permission_cores_are_set_by_a_weaker_mechanism_that_is_named() -> None:
    capability = CPU.capability(bare_node())
    assert capability.mechanism == "duty-cycle"
    assert capability.weaker
    assert capability.reason == NO_PERMISSION.reason
    assert "root" in capability.remedy


@pytest.mark.parametrize("injector", [READ, WRITE])
def test_without_permission_or_disk_a_rate_cannot_be_set_and_the_reason_is_given(injector: Injector) -> None:
    refused, diskless = injector.capability(bare_node()), injector.capability(node(device=None))
    assert not refused.settable
    assert refused.reason == NO_PERMISSION.reason
    assert "root" in refused.remedy
    assert not diskless.settable
    assert "tmpfs" in diskless.reason
    assert "--out" in diskless.remedy


# --- treatments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "period_us", "quota_us"),
    [
        (0.1, 20_000, 2_000),
        (0.5, 20_000, 10_000),
        (0.8, 50_000, 40_000),  # short of a whole core, a period needs room for what holds the subject up
        (2.0, 100_000, 200_000),
        (0.01, 100_000, 1_000),  # the least quota that the kernel takes
    ],
)
def test_the_period_leaves_idle_time_and_a_quota_that_the_kernel_takes(
    level: float, period_us: int, quota_us: int
) -> None:
    assert CPU.treatment(level, node(1)).settings == (
        Setting("cpu", "cpu.cfs_period_us", str(period_us)),
        Setting("cpu", "cpu.cfs_quota_us", str(quota_us)),
    )
    assert CPU.treatment(level, node(2)).settings == (Setting("cpu", "cpu.max", f"{quota_us} {period_us}"),)


@given(st.floats(0.01, 64.0))
def test_a_quota_is_one_that_the_kernel_takes_and_close_to_the_level(level: float) -> None:
    (setting,) = CPU.treatment(level, node(2, cpus=64)).settings
    quota_us, period_us = map(int, setting.text.split())
    assert quota_us >= 1000
    assert 1000 <= period_us <= 1_000_000
    assert quota_us / period_us == pytest.approx(level, rel=CPU.tolerance / 10)


@given(st.floats(0.05, 64.0))
def test_a_duty_cycle_never_lets_more_run_than_the_level(level: float) -> None:
    treatment = CPU.treatment(level, bare_node())
    assert not treatment.settings
    assert isinstance(treatment.stop_and_go, StopAndGo)
    assert 0 < treatment.stop_and_go.share <= 1
    assert treatment.stop_and_go.share * treatment.stop_and_go.cpus == pytest.approx(level)


def test_a_disk_throttle_names_the_disk_and_whole_bytes() -> None:
    assert READ.treatment(10e6 + 0.4, node(1)).settings == (
        Setting("io", "blkio.throttle.read_bps_device", "254:0 10000000"),
    )
    assert WRITE.treatment(2e6, node(1)).settings == (
        Setting("io", "blkio.throttle.write_bps_device", "254:0 2000000"),
    )
    assert WRITE.treatment(2e6, node(2)).settings == (Setting("io", "io.max", "254:0 wbps=2000000"),)
    assert READ_OPS.treatment(300, node(1)).settings == (
        Setting("io", "blkio.throttle.read_iops_device", "254:0 300"),
    )
    assert WRITE_OPS.treatment(300, node(2)).settings == (Setting("io", "io.max", "254:0 wiops=300"),)
    with pytest.raises(ValueError, match="tmpfs"):
        READ.treatment(10e6, node(device=None))


# --- beside an added load --------------------------------------------------------------------------------


def beside(samples: dict[str, np.ndarray], **taken: float) -> dict[str, np.ndarray]:
    """The samples, with what a load of ours took per second."""
    return samples | {f"anomaly.x:{counter}": rate * samples["time_s"] for counter, rate in taken.items()}


def test_cores_that_a_load_of_ours_took_are_slack_and_not_starved() -> None:
    starving = cpu_samples(0.3, throttled=0.0, stalled=0.6)
    assert CPU.achieved(1.0, starving, node()).starved
    achieved = CPU.achieved(1.0, beside(starving, cpu_s=1.5), node())
    assert not achieved.starved
    assert achieved.bound_share == 0
    assert achieved.note == "what was added beside the subject took the rest"


def test_bytes_that_a_load_of_ours_wrote_are_not_others() -> None:
    crowd = disk_samples(10e6, foreign=30e6, direction="write")
    writes = DiskWriteRate()
    assert writes.achieved(10e6, crowd, node()).starved
    held = writes.achieved(10e6, beside(crowd, write_bytes=30e6), node())
    assert not held.starved
    assert held.level == pytest.approx(10e6, rel=0.03)
    assert writes.achieved(10e6, beside(crowd, write_bytes=10e6), node()).starved  # 20 MB/s are somebody else's
    slower = writes.achieved(50e6, beside(crowd, write_bytes=30e6), node())
    assert (slower.bound_share, slower.note) == (0.0, "what was added beside the subject took the rest")
