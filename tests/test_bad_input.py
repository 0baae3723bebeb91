"""What a plan may ask for and this machine cannot do: each has its message, by ``insitu check`` as a user runs it.

Machines that lack something are this one, seen from a mount namespace or a control group of the command's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.network import support
from tests import plans

MODEL = """\
variables:
  it: {unit: UNIT, set_by: VARIABLE}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a / it
"""
PLAN = """\
name: bad
subject: {command: ["true"]}
model: model.yaml
factors: {it: {levels: [LEVELS]}}
design: {kind: factorial, replicates: 1}
"""
UNITS = {
    "cpu.cores": "core",
    "cpu.set": "core",
    "memory.limit": "B",
    "memory.high": "B",
    "disk.read_iops": "1/s",
    "net.delay": "s",
    "net.rate_in": "bit/s",
}


def write(folder: Path, variable: str, *levels: str) -> Path:
    unit = UNITS.get(variable, "B/s")
    model = MODEL.replace("UNIT", unit).replace("VARIABLE", variable)
    return plans.write(folder / "plan", PLAN.replace("LEVELS", ", ".join(levels)), model)


def check(plan: Path, out: Path, *first: str) -> subprocess.CompletedProcess[str]:
    """``insitu check``, after shell commands that prepare its surroundings."""
    command = [sys.executable, "-m", "insitu", "check", str(plan), "--out", str(out)]
    script = " && ".join([*first, 'exec "$@"'])
    around = ["unshare", "--mount", "sh", "-c", script, "sh"] if os.geteuid() == 0 else ["sh", "-c", script, "sh"]
    return subprocess.run([*around, *command], capture_output=True, text=True, check=False)


def refused(done: subprocess.CompletedProcess[str], status: int) -> tuple[str, str]:
    """Message and hint of a refusal."""
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert "Traceback" not in done.stderr
    return lines[0].removeprefix("error: "), " ".join(line.strip() for line in lines[1:])


def mount_point(controller: str) -> Path:
    """Where the hierarchy of a controller is mounted."""
    path = cgroups.discover().parents[controller]
    while not path.is_mount():
        path = path.parent
    return path


@pytest.mark.root
def test_a_run_directory_without_a_disk(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    done = check(write(tmp_path, "disk.read_rate", "10 MB/s"), away, f"mount -t tmpfs insitu-test {away}")
    message, hint = refused(done, 3)
    assert message.startswith("it: disk.read_rate cannot be set here: ")
    assert message.endswith(f"{away} is on tmpfs without a disk of its own")
    assert hint.startswith("hint: choose a run directory on a local disk with --out; or write")
    assert "when_unsettable: leave" in hint


@pytest.mark.parametrize(
    ("variable", "level", "reach"),
    [
        ("cpu.cores", "0.001 core", "0.001 core is out of reach here: this node can set 0.0"),
        ("cpu.cores", "4096 core", "4096 core is out of reach here: this node can set 0.0"),
        ("cpu.set", "4096 core", "4096 core is out of reach here: this node can set 1 core to "),
        ("cpu.set", "0.5 core", "0.5 core is out of reach here: this node can set 1 core to "),
        ("net.rate_in", "1 kbit/s", "1 kbit/s is out of reach here: this node can set 100 kbit/s to 10 Gbit/s"),
    ],
)
def test_a_level_out_of_bounds(tmp_path: Path, variable: str, level: str, reach: str) -> None:
    message, hint = refused(check(write(tmp_path, variable, level), tmp_path), 2)
    assert message.startswith(f"it: {variable} = {reach}")
    assert hint == "hint: choose levels in this range"


@pytest.mark.root
@pytest.mark.parametrize(
    ("variable", "level", "reach"),
    [
        ("memory.limit", "1 kB", "1 kB is out of reach here: this node can set 4 MB to "),
        ("disk.read_rate", "1 kB/s", "1 kB/s is out of reach here: this node can set 100 kB/s to 100 GB/s"),
        ("disk.read_iops", "0.2 1/s", "0.2/s is out of reach here: this node can set 1/s to 1e+06/s"),
    ],
)
def test_a_level_out_of_bounds_of_the_kernel_s_controllers(
    tmp_path: Path, variable: str, level: str, reach: str
) -> None:
    message, _ = refused(check(write(tmp_path, variable, level), tmp_path), 2)
    assert message.startswith(f"it: {variable} = {reach}")


@pytest.mark.root
def test_half_a_processor_of_a_set(tmp_path: Path) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("this machine has one processor")
    message, _ = refused(check(write(tmp_path, "cpu.set", "1.5 core"), tmp_path), 2)
    assert message == "it: cpu.set = 1.5 core is not a multiple of 1"


@pytest.mark.root
def test_a_missing_controller(tmp_path: Path) -> None:
    if cgroups.discover().version["io"] != 1:
        pytest.skip("version 2 has all controllers in one tree")
    plan = write(tmp_path, "disk.read_rate", "10 MB/s")
    message, hint = refused(check(plan, tmp_path, f"umount --lazy {mount_point('io')}"), 3)
    assert message == "it: disk.read_rate cannot be set here: the io (blkio) hierarchy is not mounted here"
    assert "mount -t cgroup -o blkio cgroup /sys/fs/cgroup/blkio" in hint


@pytest.mark.root
def test_a_delay_without_netem_and_without_tun_interfaces(tmp_path: Path) -> None:
    if not support.examine().netem_problem:
        pytest.skip("this kernel has netem")
    plan = write(tmp_path, "net.delay", "10 ms")
    message, hint = refused(check(plan, tmp_path, "mount -t tmpfs insitu-test /dev/net"), 3)
    assert message.startswith("it: net.delay cannot be set here: the kernel has no netem (")
    assert message.endswith(", and /dev/net/tun is missing")
    assert "for the delay line: modprobe tun, or in a container: --device /dev/net/tun" in hint
    assert "for netem: modprobe sch_netem" in hint


def test_an_unknown_device(tmp_path: Path) -> None:
    plan = write(tmp_path, "disk.reed_rate", "10 MB/s")
    message, hint = refused(check(plan, tmp_path), 2)
    model = plan.with_name("model.yaml")
    assert message == f"{model}:2:27: unknown injector variable 'disk.reed_rate'"
    assert hint.startswith("hint: did you mean 'disk.read_rate'?")


@pytest.mark.root
def test_version_1_has_no_high_mark_of_memory(tmp_path: Path) -> None:
    if cgroups.discover().version["memory"] != 1:
        pytest.skip("version 2 has one")
    message, hint = refused(check(write(tmp_path, "memory.high", "64 MB"), tmp_path), 3)
    assert message == "it: memory.high cannot be set here: cgroup version 1 has no memory.high"
    assert "boot with cgroup version 2, or use memory.limit" in hint


@pytest.mark.root
def test_a_read_only_group(tmp_path: Path) -> None:
    tree = mount_point("io")
    read_only = f"mount -o remount,bind,ro {tree}"
    message, hint = refused(check(write(tmp_path, "disk.read_rate", "10 MB/s"), tmp_path, read_only), 3)
    assert f"as root: mount -o remount,rw {tree}; a container may not do that itself" in hint
    assert "docker run --privileged" in hint
    assert message.startswith("it: disk.read_rate cannot be set here: the io hierarchy is mounted read-only at")


@pytest.mark.root
def test_a_read_only_group_leaves_the_weaker_mechanism_which_is_named(tmp_path: Path) -> None:
    tree = mount_point("cpu")
    done = check(write(tmp_path, "cpu.cores", "0.5 core"), tmp_path, f"mount -o remount,bind,ro {tree}")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "cpu.cores by duty-cycle" in said
    assert "the cpu hierarchy is mounted read-only at" in said


@pytest.fixture
def box() -> Iterator[cgroups.GroupPlan]:
    """A group for the command, which is then as limited as a container."""
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-badinput{os.getpid()}", ("cpu", "memory"))
    cgroups.create(plan)
    yield plan
    for path in plan.paths:
        cgroups.remove(path)


@pytest.mark.root
@pytest.mark.parametrize(
    ("variable", "fits", "too_much", "controller", "limit", "says"),
    [
        ("cpu.cores", "0.5 core", "0.8 core", "cpu", ("cpu.cfs_quota_us", "50000"), "50000 per 100000 us"),
        ("memory.limit", "409 MB", "500 MB", "memory", ("memory.limit_in_bytes", "409600000"), "409600000"),
    ],
)
def test_a_limit_above_that_of_a_group_above(
    tmp_path: Path,
    box: cgroups.GroupPlan,
    variable: str,
    fits: str,
    too_much: str,
    controller: str,
    limit: tuple[str, str],
    says: str,
) -> None:
    file, text = limit
    if cgroups.discover().version[controller] == 2:
        file, text, says = {
            "cpu": ("cpu.max", "50000 100000", "50000 100000"),
            "memory": ("memory.max", text, text),
        }[controller]
    (box.directories[controller] / file).write_text(text)
    join = [f"echo $$ > {path}/cgroup.procs" for path in box.paths]
    message, hint = refused(check(write(tmp_path, variable, fits, too_much), tmp_path, *join), 2)
    level = too_much if variable == "cpu.cores" else "500 MB"
    where = f"{box.directories[controller]}/{file} says {says}"
    assert message == f"it: {variable} = {level} is above what a group of this process allows: {where}"
    assert hint.startswith("hint: choose levels up to ")
    assert hint.endswith(", or raise that limit")
    fitting = check(write(tmp_path, variable, fits), tmp_path, *join)
    assert fitting.returncode == 0, fitting.stderr
