"""The guest is the machine that it is there for: all that the tests rely on and others may lack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from insitu.injectors.block_device import device_under
from insitu.injectors.cgroups import PRESSURE, GroupPlan, create, discover, plan_group, remove

CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
DELEGATED = Path("/sys/fs/cgroup/system.slice/tests.service")

pytestmark = pytest.mark.root


def test_there_is_no_control_group_of_version_1() -> None:
    kinds = {line.split()[2] for line in Path("/proc/self/mounts").read_text().splitlines()}
    assert "cgroup2" in kinds
    assert "cgroup" not in kinds
    assert "cgroup.clone_children" not in {path.name for path in Path("/sys/fs/cgroup").iterdir()}


def test_every_controller_can_be_used_from_the_leaf_that_we_are_in() -> None:
    found = discover()
    assert Path("/proc/self/cgroup").read_text() == "0::/system.slice/tests.service/main\n"
    assert {found.version[name] for name in (*CONTROLLERS, PRESSURE)} == {2}
    assert {found.parents[name] for name in (*CONTROLLERS, PRESSURE)} == {DELEGATED}


def test_a_new_group_has_the_files_of_every_controller_and_of_pressure() -> None:
    plan = GroupPlan(dict.fromkeys(CONTROLLERS, DELEGATED / "insitu-machinetest"))
    assert plan_group(discover(), "insitu-machinetest", CONTROLLERS) == plan
    create(plan)
    try:
        (group,) = plan.paths
        files = {path.name for path in group.iterdir()}
        assert {"cpu.max", "cpuset.cpus", "io.max", "memory.high", "memory.max", "pids.max"} <= files
        assert {"cgroup.kill", "cgroup.freeze"} <= files
        for resource in ("cpu", "io", "memory"):
            assert "total=" in (group / f"{resource}.pressure").read_text()
    finally:
        remove(DELEGATED / "insitu-machinetest")


def test_temporary_files_are_on_a_disk_that_can_be_throttled(tmp_path: Path) -> None:
    device, problem = device_under(tmp_path)
    assert device is not None, problem
    assert device.name.startswith("vd")
    assert device != device_under(Path("/"))[0]


@pytest.mark.parametrize(
    "discipline",
    [
        *("netem delay 50ms 5ms loss 1%", "tbf rate 10mbit burst 16kb latency 50ms", "htb default 1"),
        *("ingress", "fq_codel", "prio"),
    ],
)
def test_queueing_disciplines_can_be_set_on_a_link(discipline: str) -> None:
    subprocess.run(["ip", "link", "add", "insitu-a", "type", "veth", "peer", "name", "insitu-b"], check=True)
    try:
        where = [] if discipline == "ingress" else ["root"]
        subprocess.run(["tc", "qdisc", "add", "dev", "insitu-a", *where, *discipline.split()], check=True)
        shown = subprocess.run(["tc", "qdisc", "show", "dev", "insitu-a"], check=True, stdout=subprocess.PIPE)
        assert f"qdisc {discipline.split()[0]} " in shown.stdout.decode()
    finally:
        subprocess.run(["ip", "link", "delete", "insitu-a"], check=True)


@pytest.mark.parametrize("kind", ["ifb", "dummy", "bridge"])
def test_links_of_every_kind_can_be_made(kind: str) -> None:
    subprocess.run(["ip", "link", "add", "insitu-a", "type", kind], check=True)
    subprocess.run(["ip", "link", "delete", "insitu-a"], check=True)


def test_there_are_tunnels_and_rules() -> None:
    assert Path("/dev/net/tun").is_char_device()
    table = "add table inet insitu-test; add chain inet insitu-test c { type nat hook postrouting priority 0; }"
    subprocess.run(["nft", table.replace("insitu-", "insitu_")], check=True)
    subprocess.run(["nft", "delete table inet insitu_test"], check=True)
