"""When a trial's machine counts as disturbed, on made-up readings and samples."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.execution.host import HostTimes, Reading, Trial, disturbance, load_of, read_times, windows

CORES = os.cpu_count() or 1
STEP_S = 0.025
START = 1000.0


def samples(wall_s: float, used: float = 0.5, **per_s: float) -> dict[str, np.ndarray]:
    """Counters that grow evenly: `used` cores, and others by their rate per second."""
    time_s = np.arange(0, wall_s + STEP_S / 2, STEP_S)
    quiet = {"periods": 0.0, "throttled_periods": 0.0, "cpu_stall_s": 0.0}
    return {"time_s": time_s} | {name: rate * time_s for name, rate in ({"cpu_s": used} | quiet | per_s).items()}


def readings(*windows: tuple[float, float, float], steal: float = 0.0) -> tuple[Reading, ...]:
    """From windows of a length, in which so many cores were busy and so many idle."""
    found = [Reading(START, 50.0, 90.0, 7.0)]
    for span_s, busy, idle in windows:
        last = found[-1]
        at, stolen = last.at + span_s, last.steal_s + steal * span_s
        found.append(Reading(at, last.busy_s + busy * span_s, last.idle_s + idle * span_s, stolen))
    return tuple(found)


def judged(host: tuple[Reading, ...], seen: dict[str, np.ndarray], **known: float) -> str:
    wall_s = float(seen["time_s"][-1])
    trial = Trial(seen, START, wall_s, **known)  # type: ignore[arg-type]
    return disturbance(load_of(host, trial), trial)


def test_a_quiet_machine() -> None:
    assert judged(readings((1.0, 0.52, 1.48)), samples(1.0)) == ""


def test_one_of_two_processors_taken_does_not_disturb_a_subject_that_is_content_with_half_of_the_other() -> None:
    assert judged(readings((1.0, 1.5, 0.5)), samples(1.0)) == ""


@pytest.mark.parametrize("used", [0.1, 0.5, 1.0])
def test_all_processors_taken_disturb(used: float) -> None:
    assert judged(readings((1.0, 2.0, 0.0)), samples(1.0, used)).startswith("other processes used 1.")


def test_a_subject_that_uses_all_processors_itself_is_not_disturbed() -> None:
    assert judged(readings((1.0, 2.0, 0.0)), samples(1.0, used=1.98)) == ""


def test_a_load_for_a_part_of_the_trial_is_not_averaged_away() -> None:
    quiet, busy = (0.25, 0.5, 1.5), (0.25, 2.0, 0.0)
    found = judged(readings(*[quiet] * 6, busy, busy), samples(2.0))
    assert found == "other processes used 0.38 cores, in 25% of the time too many"
    assert judged(readings(*[quiet] * 19, busy), samples(5.0)) == ""


def test_a_subject_that_waits_for_a_processor_while_others_run_is_disturbed_though_one_is_idle() -> None:
    waiting = samples(1.0, used=0.5, cpu_stall_s=0.4)
    assert judged(readings((1.0, 1.0, 1.0)), waiting).startswith("other processes used 0.50 cores")
    assert judged(readings((1.0, 0.52, 1.48)), waiting) == ""
    throttled = samples(1.0, used=0.5, cpu_stall_s=0.4, periods=50.0, throttled_periods=50.0)
    assert judged(readings((1.0, 1.0, 1.0)), throttled) == ""


def test_what_was_added_on_purpose_is_not_others() -> None:
    beside = samples(1.0) | {"anomaly.cpu:cpu_s": 1.45 * samples(1.0)["time_s"]}
    assert judged(readings((1.0, 2.0, 0.0)), beside) == ""
    less = samples(1.0) | {"anomaly.cpu:cpu_s": 1.0 * samples(1.0)["time_s"]}
    assert judged(readings((1.0, 2.0, 0.0)), less).startswith("other processes used 0.50 cores")


def test_short_trials_are_judged_as_far_as_the_kernel_s_ticks_allow() -> None:
    assert judged(readings((0.05, 2.0, 0.0)), samples(0.05)).startswith("other processes")
    assert judged(readings((0.05, 0.9, 1.1)), samples(0.05)) == ""  # two ticks may be in the wrong window
    assert judged(readings((0.01, 2.0, 0.0)), samples(0.025)) == ""
    assert judged(readings((1.0, 2.0, 0.0))[:1], samples(1.0)) == ""


def test_the_hypervisor() -> None:
    assert judged(readings((1.0, 0.5, 1.4), steal=0.1), samples(1.0)) == "the hypervisor took 0.09 cores"
    assert judged(readings((1.0, 0.5, 1.48), steal=0.02), samples(1.0)) == ""


DISK = {"read_bytes": 5e6, "write_bytes": 0.0, "io_stall_s": 0.9}
QUIET = (1.0, 0.5, 1.5)


def disk(**per_s: float) -> str:
    plain = {"device_read_bytes": 5e6, "device_write_bytes": 0.0, **DISK}
    return judged(readings(QUIET), samples(1.0, **(plain | per_s)))


def test_others_on_the_disk_that_the_subject_waits_for() -> None:
    assert disk() == ""
    found = "others moved 40.0 MB to or from the disk, and the subject waited"
    assert disk(device_read_bytes=45e6) == disk(device_write_bytes=40e6) == found


def test_a_little_traffic_of_others_is_no_harm() -> None:
    assert disk(device_read_bytes=6e6, device_write_bytes=1e6) == ""
    assert disk(read_bytes=1e9, device_read_bytes=1.05e9) == ""


def test_a_subject_that_does_not_wait_for_the_disk_does_not_mind() -> None:
    assert disk(device_read_bytes=45e6, io_stall_s=0.01) == ""


def test_what_the_subject_wrote_into_memory_is_its_own_when_it_reaches_the_disk() -> None:
    writing = samples(1.0, **{**DISK, "device_read_bytes": 5e6, "device_write_bytes": 60e6})
    assert judged(readings(QUIET), writing).startswith("others moved 60.0 MB")
    assert judged(readings(QUIET), writing, dirtied_bytes=60e6) == ""


def test_the_journal_is_written_for_the_subject() -> None:
    kind = {"write_ops": 1000.0, "device_flushes": 400.0, "write_bytes": 4e6}
    assert disk(**kind, device_write_bytes=16e6) == ""
    assert disk(**kind, device_write_bytes=30e6).startswith("others moved 12.9 MB")
    assert disk(**{**kind, "write_ops": 0.0}, device_write_bytes=16e6).startswith("others moved 12.0 MB")


def test_a_machine_that_is_short_of_memory() -> None:
    short = samples(1.0, memory_stall_s=0.2)
    assert judged(readings(QUIET), short) == "the machine was short of memory"
    assert judged(readings(QUIET), short, memory_is_limited=True) == ""


def test_processors_that_were_slower_than_the_plan_tolerates() -> None:
    said = "the processors were 31 % slower than at their best, of which 15 % are tolerated"
    assert judged(readings(QUIET), samples(1.0), slower_share=0.31, tolerated_slowdown=0.15) == said
    assert judged(readings(QUIET), samples(1.0), slower_share=0.14, tolerated_slowdown=0.15) == ""
    assert judged(readings(QUIET), samples(1.0), slower_share=0.9) == ""


def test_a_cause_that_can_be_seen_is_named_before_slow_processors() -> None:
    crowded = readings((1.0, 2.0, 0.0))
    found = judged(crowded, samples(1.0), slower_share=0.31, tolerated_slowdown=0.15)
    assert found.startswith("other processes used 1.")
    assert judged(readings(QUIET), samples(1.0), tolerated_slowdown=0.15) == ""


def test_the_record_says_what_others_did() -> None:
    seen = samples(1.0, **{**DISK, "device_read_bytes": 8e6, "device_write_bytes": 0.0})
    load = load_of(readings((0.5, 0.5, 1.5), (0.5, 2.0, 0.0)), Trial(seen, START, 1.0))
    load.pop("cache_bytes", None)
    assert load == pytest.approx(
        {
            "other_cores": 0.75,
            "idle_cores": 0.75,
            "steal_cores": 0.0,
            "other_disk_bytes": 3e6,
            "crowded_share": 0.5,
        }
    )
    assert load_of(readings(QUIET), Trial({"time_s": np.zeros(0)}, START, 0.0)) == {}


def test_the_record_says_what_else_the_machine_was_busy_with() -> None:
    first, last = readings(QUIET)
    before = replace(first, kernel_s=20.0, received_bytes=1e6, held_bytes=1e9)
    after = replace(last, kernel_s=20.3, received_bytes=5e6, held_bytes=2e9)
    load = load_of((before, after), Trial(samples(1.0), START, 1.0))
    assert load["kernel_cores"] == pytest.approx(0.3 / (last.at - first.at))
    assert load["network_bytes"] == 4e6
    assert load["held_bytes"] == 2e9


def test_a_machine_that_does_not_say_has_no_such_figures() -> None:
    assert not {"kernel_cores", "network_bytes", "held_bytes"} & set(
        load_of(readings(QUIET), Trial(samples(1.0), START, 1.0))
    )


def test_what_the_machine_is_busy_with_is_read_off_the_kernel() -> None:
    before = read_times()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as there:
        here, _ = server.accept()
        with here:
            there.sendall(bytes(50_000))
            here.recv(50_000, socket.MSG_WAITALL)
    after = read_times()
    assert after.received_bytes - before.received_bytes >= 50_000
    assert 0 < after.kernel_s < after.busy_s
    assert 1e6 < after.held_bytes < 1e15


def test_windows_are_read_off_the_kernel() -> None:
    times = HostTimes()
    time.sleep(0.26)
    times.take()
    times.take()
    first, second = times.end()
    assert second.at - first.at >= 0.25
    assert second.busy_s + second.idle_s + second.steal_s > first.busy_s + first.idle_s + first.steal_s
    now = read_times()
    assert now.at >= second.at
    (window,) = windows((first, second), Trial(samples(1.0, used=0.0), first.at, 1.0))
    assert window.span_s == pytest.approx(second.at - first.at)
    assert window.idle_cores + window.other_cores <= CORES + 0.1
