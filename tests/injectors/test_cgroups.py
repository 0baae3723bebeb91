"""Finding, making and removing control groups: on made-up trees of every layout, and on the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.block_device import device_under
from insitu.injectors.cgroup_problems import absent
from insitu.injectors.cgroups import PRESSURE, GroupPlan, Hierarchies, create, discover, plan_group, remove
from insitu.injectors.errors import ForeignState, NotSettable

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


class Machine:
    """A made-up /proc and the trees that it mounts."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self._mounts: list[str] = []
        self._own: list[str] = []

    def mount_1(self, names: str, own: str, *, root: str = "/") -> Path:
        top = self.groups / names
        top.mkdir(parents=True, exist_ok=True)
        self._mounts.append(f"33 31 0:30 {root} {top} rw,relatime shared:9 - cgroup cgroup rw,{names}")
        self._own.append(f"{len(self._own) + 1}:{names}:{own}")
        return top

    def mount_2(self, own: str, handed: dict[str, str], *, offered: str, root: str = "/") -> Path:
        """`handed`: group to what it hands to its children."""
        top = self.groups / "unified"
        for path, text in {"/": "", **handed}.items():
            group = top / path.lstrip("/")
            group.mkdir(parents=True, exist_ok=True)
            (group / "cgroup.subtree_control").write_text(text + "\n")
            (group / "cgroup.controllers").write_text(offered + "\n")
        self._mounts.append(f"41 31 0:38 {root} {top} rw,relatime - cgroup2 cgroup2 rw,nsdelegate")
        self._own.append(f"0::{own}")
        return top

    def discover(self) -> Hierarchies:
        other = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,cpu"
        (self.proc / "self/mountinfo").write_text("\n".join([other, *self._mounts]) + "\n")
        (self.proc / "self/cgroup").write_text("\n".join(self._own) + "\n")
        return discover(self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_version_1_groups_are_made_below_the_own_ones(machine: Machine) -> None:
    cpu = machine.mount_1("cpu,cpuacct", "/")
    memory = machine.mount_1("memory", "/service/a")
    blkio = machine.mount_1("blkio", "/")
    (memory / "service/a").mkdir(parents=True)
    found = machine.discover()
    assert found.parents == {"cpu": cpu, "cpuacct": cpu, "memory": memory / "service/a", "io": blkio}
    assert set(found.version.values()) == {1}
    assert plan_group(found, "g", ("cpu", "cpuacct", "io", "pids")).paths == (cpu / "g", blkio / "g")


def test_a_group_that_is_not_visible_is_a_problem_and_not_the_root(machine: Machine) -> None:
    machine.mount_1("cpu", "/somewhere/else")
    found = machine.discover()
    assert not found.usable("cpu")
    assert "not visible" in found.problem("cpu")


def test_an_unmounted_controller_is_named(machine: Machine) -> None:
    machine.mount_1("cpu", "/")
    assert machine.discover().problem("io") == "this kernel offers no io controller"


def test_a_container_sees_its_own_group_as_the_root(machine: Machine) -> None:
    cpu = machine.mount_1("cpu", "/docker/abc/own", root="/docker/abc")
    (cpu / "own").mkdir()
    assert machine.discover().parents["cpu"] == cpu / "own"


def test_a_container_s_neighbour_with_a_longer_name_is_not_taken_for_its_own_group(machine: Machine) -> None:
    cpu = machine.mount_1("cpu", "/docker/abcdef", root="/docker/abc")
    (cpu / "def").mkdir()
    assert not machine.discover().usable("cpu")


def test_version_2_groups_are_made_below_the_nearest_that_delegates(machine: Machine) -> None:
    handed = {"/": "cpu io memory pids", "/user": "cpu io memory pids", "/user/app": ""}
    top = machine.mount_2("/user/app", handed, offered="cpu io memory pids")
    found = machine.discover()
    assert found.version == dict.fromkeys(("cpu", "io", "memory", "pids", PRESSURE), 2)
    assert set(found.parents.values()) == {top / "user"}
    assert plan_group(found, "g", ("cpu", "io", PRESSURE)).paths == (top / "user/g",)


def test_version_2_without_delegation_gives_the_reason(machine: Machine) -> None:
    machine.mount_2("/user", {"/": "", "/user": ""}, offered="cpu io")
    found = machine.discover()
    assert not found.usable("cpu")
    assert "hands the cpu controller" in found.problem("cpu")
    assert "systemd-run --scope --property=Delegate=yes" in found.remedy("cpu")


@pytest.mark.parametrize(
    ("handed", "settable"),
    [
        ({"/": "cpu io", "/user": "cpu", "/user/app": ""}, {"cpu", "io"}),
        ({"/": "cpu memory pids", "/user": "memory", "/user/app": ""}, {"cpu", "memory", "pids"}),
        ({"/": "memory", "/user": "cpu", "/user/app": ""}, {"cpu"}),
    ],
)
def test_all_of_a_version_2_group_is_one_directory(
    machine: Machine, handed: dict[str, str], settable: set[str]
) -> None:
    # a process is in one version-2 group only: joining a second would leave the first, and its limits
    machine.mount_2("/user/app", handed, offered="cpu io memory pids")
    found = machine.discover()
    plan = plan_group(found, "g", ("cpu", "io", "memory", "pids", PRESSURE))
    assert len(plan.paths) == 1
    assert set(found.parents) == settable | {PRESSURE}


def test_hybrid_takes_controllers_from_version_1_and_pressure_from_version_2(machine: Machine) -> None:
    cpu = machine.mount_1("cpu", "/")
    unified = machine.mount_2("/", {}, offered="")
    found = machine.discover()
    assert found.parents == {"cpu": cpu, PRESSURE: unified}
    assert found.version == {"cpu": 1, PRESSURE: 2}


def test_a_controller_that_both_versions_could_offer_is_the_one_that_is_bound(machine: Machine) -> None:
    cpu = machine.mount_1("cpu", "/")
    unified = machine.mount_2("/", {"/": "io"}, offered="io")
    found = machine.discover()
    assert found.parents == {"cpu": cpu, "io": unified, PRESSURE: unified}
    assert found.version["io"] == 2


def test_a_read_only_tree_is_the_reason(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    top = machine.mount_1("cpu", "/")
    read_only = os.statvfs_result((4096,) * 8 + (os.ST_RDONLY, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    found = machine.discover()
    assert found.problem("cpu") == f"the cpu hierarchy is mounted read-only at {top}"
    assert found.remedy("cpu").startswith("as root: mount -o remount,rw /")


def test_missing_permission_for_a_user(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    top = machine.mount_1("cpu", "/")
    found = machine.discover()
    assert (found.problem("cpu"), found.remedy("cpu")) == (f"no permission to make groups in {top}", "run as root")


def test_a_user_of_version_2_may_have_a_group_delegated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    machine.mount_2("/user", {"/": "cpu", "/user": ""}, offered="cpu")
    found = machine.discover()
    assert "no permission to make groups in" in found.problem("cpu")
    assert "systemd-run --user --scope --property=Delegate=yes" in found.remedy("cpu")


@pytest.mark.parametrize(
    ("table", "reason", "remedy"),
    [
        (
            "memory\t0\t1\t0",
            "this kernel was booted without the memory controller",
            "cgroup_disable=memory",
        ),
        ("cpu\t1\t1\t1", "this kernel offers no memory controller", "boot a kernel that has the memory (memory)"),
    ],
)
def test_a_controller_that_the_kernel_lacks(tmp_path: Path, table: str, reason: str, remedy: str) -> None:
    path = tmp_path / "cgroups"
    path.write_text(f"#subsys_name\thierarchy\tnum_cgroups\tenabled\n{table}\n")
    problem = absent("memory", "memory", path)
    assert problem.reason == reason
    assert remedy in problem.remedy


def test_discovering_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    machine.mount_2("/user", {"/": "cpu", "/user": ""}, offered="cpu")
    machine.discover()
    before = sorted(tmp_path.rglob("*"))
    machine.discover()
    assert sorted(tmp_path.rglob("*")) == before


# --- real groups -----------------------------------------------------------------------------------------


@pytest.fixture
def real() -> Iterator[GroupPlan]:
    plan = plan_group(
        discover(), f"insitu-grouptest{os.getpid()}", ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)
    )
    yield plan
    for path in plan.paths:
        remove(path)


@pytest.mark.root
def test_a_group_is_made_in_every_tree_and_removed(real: GroupPlan) -> None:
    create(real)
    assert {"cpu", "memory", "pids"} <= real.directories.keys()
    assert all((path / "cgroup.procs").read_text() == "" for path in real.paths)
    for path in real.paths:
        remove(path)
        remove(path)
        assert not path.exists()


@pytest.mark.root
def test_an_existing_group_is_refused_and_nothing_is_left_of_the_attempt(real: GroupPlan) -> None:
    foreign = real.paths[-1]
    foreign.mkdir()
    with pytest.raises(ForeignState) as caught:
        create(real)
    assert str(foreign) in caught.value.message
    assert caught.value.remedy
    assert [path for path in real.paths if path.exists()] == [foreign]


@pytest.mark.root
def test_a_kernel_that_refuses_is_not_settable(real: GroupPlan) -> None:
    (file, *_) = (path.parent / "cgroup.procs" for path in real.paths)
    with pytest.raises(NotSettable):
        create(GroupPlan({"cpu": file / "g"}))


@pytest.mark.root
def test_removing_kills_members_and_nested_groups(real: GroupPlan) -> None:
    create(real)
    nested = [path / "deep/deeper" for path in real.paths]
    members: list[subprocess.Popen[bytes]] = []
    try:
        for folders in (real.paths, nested):
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            member = subprocess.Popen(SLEEP, stdout=subprocess.PIPE)
            members.append(member)
            for folder in folders:
                (folder / "cgroup.procs").write_text(str(member.pid))
        for path in real.paths:
            remove(path)
        assert [member.wait(timeout=10) for member in members] == [-9, -9]
        assert not any(path.exists() for path in real.paths)
    finally:
        for member in members:
            member.kill()
            member.communicate()


@pytest.mark.root
def test_removing_ends_a_writer_that_waits_for_a_throttle(real: GroupPlan, tmp_path: Path) -> None:
    device, problem = device_under(tmp_path)
    if "io" not in real.directories or device is None:
        pytest.skip(problem or "no throttle of disks here")
    create(real)
    group = real.directories["io"]
    if discover().version["io"] == 1:
        (group / "blkio.throttle.write_bps_device").write_text(f"{device.number} 100000")
    else:
        (group / "io.max").write_text(f"{device.number} wbps=100000")
    write = f"dd if=/dev/zero of={tmp_path}/big bs=16M count=1 oflag=direct"
    with subprocess.Popen(["sh", "-c", f"echo 0 > {group}/cgroup.procs; exec {write}"]) as writer:
        while not ((tmp_path / "big").exists() and _waits_for_the_disk(writer.pid)):
            assert writer.poll() is None
        remove(group)
        assert writer.wait() == -9


def _waits_for_the_disk(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"


def test_what_a_group_inherits_is_not_lifted(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    name = "blkio.throttle.write_bps_device"
    (tmp_path / name).write_text("8:0 5000\n")
    (tmp_path / "group" / name).write_text("8:0 100\n")
    cgroups.lift_caps(tmp_path / "group")
    assert (tmp_path / "group" / name).read_text() == "8:0 5000"


@pytest.mark.root
def test_a_version_1_group_without_cgroup_kill_is_emptied_by_pid(real: GroupPlan) -> None:
    create(real)
    path = real.directories["pids"]
    if (path / "cgroup.kill").exists():
        pytest.skip("this kernel has no version-1 pids controller")
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as member:
        try:
            (path / "cgroup.procs").write_text(str(member.pid))
            cgroups.kill_members(path)
            assert member.wait(timeout=10) == -9
        finally:
            member.kill()
