"""Counters of both versions, read from made-up files whose content is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.contract import Device, Probe
from insitu.orchestrator.execution.sampler import Sampler

DISK = Device("254:0", "no-such-disk")
PRESSURE_TEXT = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 total=7\n"


class Group:
    """A made-up group, one folder per controller."""

    def __init__(self, folder: Path, version: int) -> None:
        names = [name for name in ("cpu", "cpuacct", "io", "memory") if version == 1 or name != "cpuacct"]
        self.version = dict.fromkeys(names, version) | {PRESSURE: 2}
        self.directories = {name: folder / name for name in (*names, PRESSURE)}
        for path in self.directories.values():
            path.mkdir()

    def write(self, controller: str, file: str, text: str) -> None:
        path = self.directories[controller] / file
        with path.open("r+" if path.exists() else "w") as open_file:  # in place, as the sampler keeps it open
            open_file.write(text)
            open_file.truncate()

    def count(self, so_far: int) -> None:
        if self.version["cpu"] == 1:
            self.write("cpuacct", "cpuacct.usage", f"{so_far}000000000\n")
            self.write(
                "cpu",
                "cpu.stat",
                f"nr_periods {so_far}0\nnr_throttled {so_far}\nthrottled_time {so_far}000000000\n",
            )
            io = f"8:0 Read 999\n254:0 Read {so_far}00\n254:0 Write {so_far}\n254:0 Sync 5\nTotal 12345\n"
            self.write("io", "blkio.throttle.io_service_bytes", io if so_far else "")
            io = f"254:0 Read {so_far}\n254:0 Write 0\n254:0 Total 9\n"
            self.write("io", "blkio.throttle.io_serviced", io if so_far else "")
            self.write("memory", "memory.usage_in_bytes", f"{so_far}\n")
            self.write("memory", "memory.max_usage_in_bytes", "4096\n")
        else:
            self.write(
                "cpu",
                "cpu.stat",
                f"usage_usec {so_far}000000\nnr_periods {so_far}0\nnr_throttled {so_far}\n"
                f"throttled_usec {so_far}000000\n",
            )
            io = f"8:0 rbytes=999 wbytes=9\n254:0 rbytes={so_far}00 wbytes={so_far} rios={so_far} wios=0\n"
            self.write("io", "io.stat", io if so_far else "254:0\n")
            self.write("memory", "memory.current", f"{so_far}\n")
        for resource in ("cpu", "io", "memory"):
            self.write(PRESSURE, f"{resource}.pressure", PRESSURE_TEXT.format(so_far * 1_000_000))


@pytest.fixture(params=[1, 2])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    group = Group(tmp_path, request.param)
    group.count(0)
    return group


@pytest.fixture
def sampler(group: Group) -> Iterator[Sampler]:
    sampler = Sampler(group.directories, Hierarchies(group.version, group.directories, {}), DISK)
    yield sampler
    sampler.close()


def test_every_counter_is_read_in_base_units(group: Group, sampler: Sampler) -> None:
    assert sampler.measures_cpu
    sampler.take(0.0)
    group.count(3)
    sampler.take(1.5)
    columns = {name: column.tolist() for name, column in sampler.columns().items()}
    if group.version["memory"] == 1:
        assert columns.pop("memory_peak_bytes")[-1] == 4096
    assert columns == {
        "time_s": [0.0, 1.5],
        "cpu_s": [0.0, 3.0],
        "periods": [0, 30],
        "throttled_periods": [0, 3],
        "throttled_s": [0.0, 3.0],
        "read_bytes": [0, 300],
        "write_bytes": [0, 3],
        "read_ops": [0, 3],
        "write_ops": [0, 0],
        "memory_bytes": [0, 3],
        "cpu_stall_s": [0, 3],
        "io_stall_s": [0, 3],
        "memory_stall_s": [0, 3],
    }


def test_a_probe_reads_the_number_alone_or_after_its_word(group: Group, sampler: Sampler) -> None:
    group.write("memory", "memory.events", "low 0\nhigh 7\nmax 2\n")
    group.write("memory", "memory.failcnt", "5\n")
    events = Probe("hits", "memory.events", "memory", key="high")
    absent = Probe("absent", "memory.events", "memory", key="oom_group")
    nowhere = Probe("nowhere", "memory.none", "memory")
    sampler.probe(
        (events, absent, nowhere, Probe("fails", "memory.failcnt", "memory", scale=2.0)), group.directories
    )
    sampler.take(0.0)
    group.write("memory", "memory.events", "low 0\nhigh 19\nmax 2\n")
    sampler.take(1.0)
    columns = sampler.columns()
    assert columns["hits"].tolist() == [7.0, 19.0]
    assert columns["fails"].tolist() == [10.0, 10.0]
    assert np.isnan(columns["absent"]).all()
    assert "nowhere" not in columns


def test_the_end_stands_last_even_if_a_sample_was_taken_after_it(group: Group, sampler: Sampler) -> None:
    for time_s in (0.0, 0.025, 0.05):
        sampler.take(time_s)
    sampler.drop_from(0.04)
    sampler.take(0.04)
    assert sampler.columns()["time_s"].tolist() == [0.0, 0.025, 0.04]
    sampler.drop_from(0.0)
    assert sampler.columns()["time_s"].tolist() == [0.0]


def test_the_last_sample_can_be_corrected(sampler: Sampler) -> None:
    sampler.take(0.0)
    sampler.take(1.0)
    sampler.correct_last(cpu_s=0.75)
    assert sampler.columns()["cpu_s"].tolist() == [0.0, 0.75]


def test_no_samples_have_no_columns(sampler: Sampler) -> None:
    assert sampler.columns() == {}


def test_closing_closes_every_file(group: Group) -> None:
    before = set(os.listdir("/proc/self/fd"))
    sampler = Sampler(group.directories, Hierarchies(group.version, group.directories, {}), DISK)
    assert set(os.listdir("/proc/self/fd")) > before
    sampler.close()
    sampler.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_the_peak_of_memory_is_reset_and_read(tmp_path: Path) -> None:
    group = Group(tmp_path, 1)
    group.count(0)
    sampler = Sampler(group.directories, Hierarchies(group.version, group.directories, {}), None)
    try:
        group.write("memory", "memory.max_usage_in_bytes", "8192\n")
        assert sampler.peak_memory_bytes() == 8192.0
    finally:
        sampler.close()
    assert sampler.peak_memory_bytes() is None


def test_without_groups_the_processes_are_counted() -> None:
    burn = "import subprocess, sys\nsys.argv.pop(1) and [subprocess.run([sys.executable, '-c', sys.argv[1]])]"
    inner = "import time\nwhile time.process_time() < 0.2: pass"
    sampler = Sampler({}, Hierarchies({}, {}, {}), None)
    sampler.take(0.0)
    with subprocess.Popen([sys.executable, "-c", burn, "1", inner]) as process:
        sampler.follow(os.getpid())
        began = time.monotonic()
        while process.poll() is None:
            sampler.take(time.monotonic() - began)
            time.sleep(0.01)
    columns = sampler.columns()
    assert set(columns) == {"time_s", "cpu_s"}
    assert not sampler.measures_cpu
    assert columns["cpu_s"][0] == 0.0
    assert columns["cpu_s"][-1] > 0.15
    assert (np.diff(columns["cpu_s"]) >= 0).all()
