"""What the groups above allow: on made-up trees of both versions, and in a real group with limits."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import ceilings
from insitu.injectors.cgroups import GroupPlan, Hierarchies, create, discover, plan_group, remove
from insitu.injectors.contract import Ceiling, Device
from insitu.injectors.cpu import CpuCores
from insitu.injectors.disk import DiskReadRate
from insitu.injectors.errors import NotSettable
from insitu.injectors.lifecycle import check
from insitu.injectors.memory import MemoryHigh, MemoryLimit
from insitu.injectors.treatment import Intervention
from tests.injectors.nodes import DISK, node

GROUPS = ("", "outer", "outer/inner")


def tree(folder: Path, files: dict[str, dict[str, str]]) -> Path:
    """Groups in each other, with what is in their files; gives the innermost."""
    for group in GROUPS:
        (folder / group).mkdir(parents=True, exist_ok=True)
        (folder / group / "cgroup.procs").touch()
        for name, text in files.get(group, {}).items():
            (folder / group / name).write_text(text + "\n")
    return folder / GROUPS[-1]


def found(folder: Path, controller: str, version: int, files: dict[str, dict[str, str]]) -> dict[str, Ceiling]:
    own = tree(folder / "top", files)
    return ceilings.of(Hierarchies({controller: version}, {controller: own}, {}, {controller: own}), DISK)


FREE = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}


def test_the_least_quota_of_version_1_on_the_way_up(tmp_path: Path) -> None:
    files = {
        "": FREE,
        "outer": {"cpu.cfs_quota_us": "30000", "cpu.cfs_period_us": "20000"},
        "outer/inner": {"cpu.cfs_quota_us": "160000", "cpu.cfs_period_us": "100000"},
    }
    ceiling = found(tmp_path, "cpu", 1, files)["cpu.cores"]
    assert ceiling == Ceiling(1.5, f"{tmp_path}/top/outer/cpu.cfs_quota_us", "30000 per 20000 us")


def test_the_least_quota_of_version_2_on_the_way_up(tmp_path: Path) -> None:
    files = {"outer": {"cpu.max": "max 100000"}, "outer/inner": {"cpu.max": "50000 100000"}}
    ceiling = found(tmp_path, "cpu", 2, files)["cpu.cores"]
    assert ceiling == Ceiling(0.5, f"{tmp_path}/top/outer/inner/cpu.max", "50000 100000")


@pytest.mark.parametrize(
    ("controller", "version", "files"),
    [
        ("cpu", 1, {"": FREE, "outer": FREE, "outer/inner": FREE}),
        ("cpu", 2, {"outer": {"cpu.max": "max 100000"}}),
        ("memory", 1, {"outer": {"memory.limit_in_bytes": "9223372036854771712"}}),
        ("memory", 2, {"outer": {"memory.max": "max", "memory.high": "max"}}),
        ("io", 1, {"outer/inner": {"blkio.throttle.read_bps_device": ""}}),
        ("io", 1, {"outer/inner": {"blkio.throttle.read_bps_device": "8:0 1000000"}}),
        ("io", 2, {"outer": {"io.max": "254:0 rbps=max wbps=max riops=max wiops=max"}}),
        ("io", 2, {"outer": {"io.max": "8:0 rbps=1000 wbps=max riops=max wiops=max"}}),
        ("cpuset", 2, {"outer": {"cpuset.cpus.effective": f"0-{(os.cpu_count() or 1) - 1}"}}),
        ("pids", 1, {"outer": {"pids.max": "3"}}),
    ],
)
def test_where_nothing_is_limited_there_is_no_ceiling(
    tmp_path: Path, controller: str, version: int, files: dict[str, dict[str, str]]
) -> None:
    assert found(tmp_path, controller, version, files) == {}


def test_memory(tmp_path: Path) -> None:
    old = found(tmp_path / "1", "memory", 1, {"outer": {"memory.limit_in_bytes": "64000000"}})
    assert {name: one.level for name, one in old.items()} == {"memory.limit": 64e6}
    new = found(
        tmp_path / "2", "memory", 2, {"outer": {"memory.max": "64000000"}, "": {"memory.high": "32000000"}}
    )
    assert {name: one.level for name, one in new.items()} == {"memory.limit": 32e6, "memory.high": 32e6}


def test_disks(tmp_path: Path) -> None:
    line = "254:0 rbps=5000000 wbps=max riops=100 wiops=max"
    new = found(tmp_path / "2", "io", 2, {"outer": {"io.max": f"8:0 rbps=1\n{line}"}})
    assert {name: one.level for name, one in new.items()} == {"disk.read_rate": 5e6, "disk.read_iops": 100}
    assert new["disk.read_rate"].text == "rbps=5000000"


def test_throttles_of_version_1_hold_the_very_group_only(tmp_path: Path) -> None:
    above = {"outer": {"blkio.throttle.write_bps_device": "254:0 1000000"}}
    assert found(tmp_path / "above", "io", 1, above) == {}
    own = {"outer/inner": {"blkio.throttle.write_bps_device": "254:0 1000000"}}
    assert found(tmp_path / "own", "io", 1, own)["disk.write_rate"].level == 1e6


def test_fewer_processors_than_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    old = found(tmp_path / "1", "cpuset", 1, {"outer": {"cpuset.effective_cpus": "0-1,4"}})
    assert (old["cpu.set"].level, old["cpu.set"].text) == (3.0, "0-1,4")


@pytest.mark.parametrize("injector", [CpuCores(), DiskReadRate(), MemoryLimit(), MemoryHigh()])
def test_a_ceiling_is_the_highest_level_and_the_message_names_its_file(
    injector: CpuCores | DiskReadRate | MemoryLimit | MemoryHigh,
) -> None:
    plain = injector.capability(node(2))
    level = 2 * plain.low
    ceiling = Ceiling(level, "/groups/box/some.max", "as it stands")
    boxed = dataclasses.replace(node(2), ceilings={injector.variable: ceiling})
    assert injector.capability(boxed).high == level
    assert check(Intervention(injector, level), boxed).ceiling == ceiling
    with pytest.raises(NotSettable) as caught:
        check(Intervention(injector, 1.1 * level), boxed)
    assert "/groups/box/some.max says as it stands" in caught.value.message
    assert "raise that limit" in caught.value.remedy
    roomy = dataclasses.replace(node(2), ceilings={injector.variable: Ceiling(1e18, "/x", "y")})
    assert injector.capability(roomy) == plain


# --- a real group ----------------------------------------------------------------------------------------

SURVEY = """
import json, sys
for path in sys.argv[1].split(","):
    open(path + "/cgroup.procs", "w").write("0")
from pathlib import Path
from insitu.injectors.node import survey
here = survey(Path.cwd())
print(json.dumps({name: (one.level, one.file, one.text) for name, one in here.ceilings.items()}))
"""


@pytest.fixture
def outer() -> Iterator[GroupPlan]:
    """A group for a process that is itself limited, as a container is."""
    plan = plan_group(discover(), f"insitu-ceilings{os.getpid()}", ("cpu", "memory", "io"))
    create(plan)
    yield plan
    for path in plan.paths:
        remove(path)


@pytest.mark.root
def test_a_process_in_a_limited_group_finds_its_limits(outer: GroupPlan, tmp_path: Path) -> None:
    hierarchies = discover()
    if hierarchies.version["cpu"] == 1:
        (outer.directories["cpu"] / "cpu.cfs_quota_us").write_text("50000")
        cpu = outer.directories["cpu"] / "cpu.cfs_quota_us"
    else:
        cpu = outer.directories["cpu"] / "cpu.max"
        cpu.write_text("50000 100000")
    limit = "memory.limit_in_bytes" if hierarchies.version["memory"] == 1 else "memory.max"
    memory = outer.directories["memory"] / limit
    memory.write_text("409600000")
    (outer.directories["cpu"] / "inner").mkdir()
    places = {**outer.directories, "cpu": outer.directories["cpu"] / "inner"}
    if hierarchies.version["cpu"] == 2:  # all controllers are in one group there
        places = {"cpu": outer.directories["cpu"] / "inner"}
    answer = subprocess.run(
        [sys.executable, "-c", SURVEY, ",".join(map(str, dict.fromkeys(places.values())))],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(answer.stdout)
    assert seen["cpu.cores"][:2] == [0.5, str(cpu)]
    assert seen["memory.limit"] == [409600000.0, str(memory), "409600000"]


@pytest.mark.root
def test_what_version_1_does_not_hand_down_is_copied(outer: GroupPlan) -> None:
    hierarchies = discover()
    if hierarchies.version["io"] != 1:
        pytest.skip("version 2 hands its limits down")
    number = next(path.read_text().strip() for path in Path("/sys/block").glob("*/dev"))
    throttle = outer.directories["io"] / "blkio.throttle.read_bps_device"
    throttle.write_text(f"{number} 5000000")
    child = outer.directories["io"] / "child"
    create(GroupPlan({"io": child}))
    assert (child / throttle.name).read_text() == throttle.read_text() == f"{number} 5000000\n"


@pytest.mark.root
def test_a_group_of_processors_can_be_joined_as_soon_as_it_is_made() -> None:
    hierarchies = discover()
    if not hierarchies.usable("cpuset"):
        pytest.skip(hierarchies.problem("cpuset"))
    plan = plan_group(hierarchies, f"insitu-cpuset{os.getpid()}", ("cpuset",))
    create(plan)
    try:
        group = plan.directories["cpuset"]
        script = f"echo 0 > {group}/cgroup.procs && exec cat /proc/self/status"
        answer = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        here = Path("/proc/self/status").read_text()
        line = next(line for line in here.splitlines() if line.startswith("Cpus_allowed_list"))
        assert line in answer.stdout
    finally:
        for path in plan.paths:
            remove(path)


def test_a_device_that_is_not_there_limits_nothing(tmp_path: Path) -> None:
    own = tree(tmp_path, {"outer/inner": {"blkio.throttle.read_bps_device": "254:0 5"}})
    hierarchies = Hierarchies({"io": 1}, {"io": own}, {}, {"io": own})
    assert ceilings.of(hierarchies, None) == {}
    assert ceilings.of(hierarchies, Device("8:16", "sdb")) == {}
