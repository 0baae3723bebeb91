"""The node's quantities: all of them on this machine, and exact figures from files made for the purpose."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.execution.conditions.host_state import HostState, why_unwatchable
from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES

MEMINFO = "MemTotal:        4000000 kB\nMemFree:          100000 kB\nMemAvailable:    1000000 kB\n"


def pressure(total_us: int, avg10: float = 12.34) -> str:
    line = f"avg10={avg10:.2f} avg60=5.00 avg300=0.50 total={total_us}"
    return f"some {line}\nfull avg10=1.00 avg60=0.00 avg300=0.00 total={total_us // 2}\n"


class Proc:
    """A proc folder, and a clock, under the test's control."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 100.0
        (folder / "pressure").mkdir(parents=True)
        (folder / "meminfo").write_text(MEMINFO)
        (folder / "loadavg").write_text("1.50 0.75 0.25 1/234 5678\n")
        for resource in ("cpu", "io", "memory"):
            self.stalled(resource, 0)

    def stalled(self, resource: str, total_us: int) -> None:
        (self.folder / "pressure" / resource).write_text(pressure(total_us))

    def state(self) -> HostState:
        return HostState(self.folder, self.folder, lambda: self.now)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.mark.parametrize("name", HOST_QUANTITIES)
def test_every_quantity_can_be_read_here(name: str, tmp_path: Path) -> None:
    state, quantity = HostState(tmp_path), HOST_QUANTITIES[name]
    assert why_unwatchable(state, name) == ("", "")
    value = state.read(name)
    if name.endswith("pressure"):
        assert value is None
        time.sleep(1.05)
        value = state.read(name)
    assert value is not None
    assert 0 <= value <= quantity.highest


def test_figures(proc: Proc) -> None:
    state = proc.state()
    expected = {
        "host.memory.available": 1_024_000_000,
        "host.memory.available_share": 0.25,
        "host.load1": 1.5,
        "host.load5": 0.75,
        "host.load15": 0.25,
        "host.cpu.pressure_avg10": 0.1234,
        "host.cpu.pressure_avg60": 0.05,
        "host.io.pressure_avg300": 0.005,
        "host.io.full_pressure_avg10": 0.01,
        "host.memory.full_pressure_avg60": 0.0,
    }
    assert {name: state.read(name) for name in expected} == pytest.approx(expected)
    disk = os.statvfs(proc.folder)
    free = state.read("host.disk.free")
    assert free == pytest.approx(disk.f_bavail * disk.f_frsize, abs=2e9)
    share = state.read("host.disk.free_share")
    assert share is not None
    assert share == pytest.approx(disk.f_bavail / disk.f_blocks, abs=0.05)


def test_the_last_second(proc: Proc) -> None:
    state = proc.state()
    for resource, line, expected in (("cpu", "pressure", 0.5), ("io", "full_pressure", 0.25)):
        name = f"host.{resource}.{line}"
        assert state.read(name) is None
        proc.now += 0.5
        proc.stalled(resource, 100_000)
        assert state.read(name) is None
        proc.now += 0.5
        proc.stalled(resource, 500_000)
        assert state.read(name) == pytest.approx(expected)


def test_what_is_long_ago_does_not_count(proc: Proc) -> None:
    state = proc.state()
    assert state.read("host.cpu.pressure") is None
    proc.now += 3.0
    proc.stalled("cpu", 3_000_000)
    assert state.read("host.cpu.pressure") is None
    proc.now += 1.0
    assert state.read("host.cpu.pressure") == 0.0


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.floats(0.0, 1.0)), min_size=1, max_size=40))
def test_a_pressure_is_a_share_of_one_to_two_seconds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, float]]
) -> None:
    proc = Proc(tmp_path_factory.mktemp("proc") / "proc")
    state = proc.state()
    readings = [(proc.now, 0.0)]
    state.read("host.io.pressure")
    for step_s, share in steps:
        stalled_s = readings[-1][1] + step_s * share
        proc.now += step_s
        proc.stalled("io", round(stalled_s * 1e6))
        readings.append((proc.now, stalled_s))
        value = state.read("host.io.pressure")
        known = [(at, stalled) for at, stalled in readings if 1 <= proc.now - at <= 2]
        if known:
            begin, before_s = known[-1]
            assert value == pytest.approx((stalled_s - before_s) / (proc.now - begin), abs=1e-5)
        else:
            assert value is None
        assert value is None or 0 <= value <= 1


def test_a_kernel_without_pressure_information(proc: Proc) -> None:
    (proc.folder / "pressure" / "io").unlink()
    state = proc.state()
    reason, remedy = why_unwatchable(state, "host.io.pressure_avg10")
    assert reason == "this kernel gives no pressure information (PSI)"
    assert "psi=1" in remedy
    assert why_unwatchable(state, "host.cpu.pressure") == ("", "")


def test_other_files_that_are_not_there(proc: Proc) -> None:
    (proc.folder / "loadavg").unlink()
    (proc.folder / "meminfo").write_text("MemTotal: 1 kB\n")
    for name in ("host.load5", "host.memory.available"):
        reason, remedy = why_unwatchable(proc.state(), name)
        assert reason.startswith("it cannot be read")
        assert remedy == "leave the condition out"


def test_a_name_that_does_not_exist(proc: Proc) -> None:
    assert why_unwatchable(proc.state(), "host.cpu.temperature")[0]
    assert math.isfinite(proc.state().total_memory_bytes)
