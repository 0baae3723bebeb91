"""The group around a run: what the kernel is asked for, that it holds, and that it says when it did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.ceilings import swap_accounted
from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.confinement import (
    NO_CAPS,
    Caps,
    Confinement,
    Pushes,
    confined,
    held_back,
    settings_for,
    why_not,
)
from insitu.injectors.contract import Node, Setting
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.lease import Lease
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.undo import UndoKind
from tests.injectors import nodes

RUN = f"conftest{os.getpid()}"
BURN = "import time; end = time.monotonic() + 1.0\nwhile time.monotonic() < end: pass"


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    pid = os.getpid()
    header = Header(RUN, pid, start_time(pid), boot_id(), "/run")
    with Journal(state, header) as journal, Lease(journal):
        yield journal


def two(folder: Path, controllers: str = "cpuset cpu io memory pids") -> Node:
    """A node with version 2 only, whose parent group is `folder`."""
    (folder / "cgroup.subtree_control").write_text(controllers + "\n")
    names = ("cpu", "io", "memory", "pids", PRESSURE)
    hierarchies = Hierarchies(dict.fromkeys(names, 2), dict.fromkeys(names, folder), {})
    return replace(nodes.node(version=2), hierarchies=hierarchies)


def test_only_caps_that_are_less_than_the_node_has_bind() -> None:
    node = nodes.node(cpus=4)
    assert Caps(3.5, 1e9).binding_on(node, 2e9) == Caps(3.5, 1e9)
    assert Caps(4.0, 2e9).binding_on(node, 2e9) == NO_CAPS
    assert NO_CAPS.binding_on(node, 2e9) == NO_CAPS
    assert Caps(1.0, None).controllers == ("cpu",)
    assert Caps(None, 1.0).controllers == ("memory",)


def test_what_version_1_is_asked_for() -> None:
    assert settings_for(Caps(1.5, 1e6), nodes.node(1)) == (
        Setting("cpu", "cpu.cfs_period_us", "100000"),
        Setting("cpu", "cpu.cfs_quota_us", "150000"),
        Setting("memory", "memory.limit_in_bytes", str(244 * 4096)),
    )
    assert settings_for(Caps(0.001), nodes.node(1))[1].text == "1000", "the kernel's least"


def test_what_version_2_is_asked_for(tmp_path: Path) -> None:
    node = two(tmp_path)
    handed = Setting("cpu", "cgroup.subtree_control", "+cpu +io +memory +pids", reads_back="cpu io memory pids")
    assert settings_for(Caps(1.5), node) == (Setting("cpu", "cpu.max", "150000 100000"), handed)
    memory = Setting("memory", "memory.max", str(244 * 4096))
    assert settings_for(Caps(None, 1e6), node) == (memory, handed)
    assert settings_for(NO_CAPS, node) == ()


def test_version_2_gets_no_swap_below_the_root_either_which_has_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "any.slice").mkdir()
    (tmp_path / "any.slice/memory.swap.max").touch()
    node = two(tmp_path)
    node = replace(node, swap_accounted=swap_accounted(node.hierarchies))
    memory, swap, _ = settings_for(Caps(None, 1e6), node)
    assert (memory.file, swap) == ("memory.max", Setting("memory", "memory.swap.max", "0"))


def test_swap_and_the_hierarchy_with_version_1(tmp_path: Path) -> None:
    node = nodes.node(1)
    node = replace(node, hierarchies=replace(node.hierarchies, parents={"memory": tmp_path}))
    (tmp_path / "memory.memsw.limit_in_bytes").touch()
    (tmp_path / "memory.use_hierarchy").write_text("0\n")
    assert [(setting.file, setting.text) for setting in settings_for(Caps(None, 4096 * 1e3), node)] == [
        ("memory.use_hierarchy", "1"),
        ("memory.limit_in_bytes", "4096000"),
        ("memory.memsw.limit_in_bytes", str(4096000 + 2**20)),
    ]


def test_a_node_that_cannot_hold_them() -> None:
    assert why_not(Caps(1.0), nodes.node()) == ("", "")
    assert why_not(NO_CAPS, nodes.bare_node()) == ("", "")
    reason, remedy = why_not(Caps(1.0), nodes.bare_node())
    assert reason == nodes.NO_PERMISSION.reason
    assert remedy.startswith("run as root")


def test_counters_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    group = cgroups.GroupPlan({"cpu": tmp_path, "memory": tmp_path})
    assert Confinement(two(tmp_path), Caps(1.0, 1e9), group).pushes() == Pushes(2.5, 7)


def test_when_a_cap_held_a_trial_back() -> None:
    calm = Pushes(1.0, 3)
    assert held_back(calm, calm, 10.0) == ()
    assert held_back(calm, Pushes(1.09, 3), 10.0) == ()
    (cores,) = held_back(calm, Pushes(3.5, 3), 10.0)
    assert cores == "cores (a processor was taken away for 25% of the time)"
    assert held_back(calm, Pushes(1.0, 4), 10.0) == ("memory (more was wanted)",)
    assert len(held_back(calm, Pushes(9.0, 9), 10.0)) == 2
    assert held_back(calm, Pushes(9.0, 3), 0.0) == (), "a program that did not run was not held back"


@contextmanager
def group_inside(confinement: Confinement) -> Iterator[tuple[Path, ...]]:
    hierarchies = confinement.node.hierarchies
    plan = cgroups.plan_group(hierarchies, f"insitu-{RUN}-t1", ("cpu", "cpuacct", "memory", "pids", PRESSURE))
    cgroups.create(plan)
    try:
        yield plan.paths
    finally:
        for path in plan.paths:
            cgroups.remove(path)


def execute_in(paths: Sequence[Path], *command: str) -> int:
    """Execute a command as a member of groups from its first instruction."""
    enter = "; ".join(f"echo 0 > {path}/cgroup.procs" for path in paths)
    return subprocess.call(["sh", "-c", f'{enter}; exec "$@"', "sh", *command], stdout=subprocess.DEVNULL)


def python_in(paths: Sequence[Path], script: str) -> int:
    return execute_in(paths, sys.executable, "-c", script)


@pytest.mark.root
def test_the_group_is_around_everything_of_the_run(tmp_path: Path, journal: Journal) -> None:
    node = survey(tmp_path)
    with confined(node, Caps(0.5, 100e6), journal) as confinement:
        pending = read(journal.path).pending
        assert {undo.kind for undo in pending} == {UndoKind.CGROUP}
        outer = set(confinement.group.paths)
        assert {Path(undo.path) for undo in pending} == outer
        with group_inside(confinement) as paths:
            assert len([path for path in paths if path.parent in outer]) == len(outer)
    assert read(journal.path).pending == ()
    assert not any(path.exists() for path in outer)


@pytest.mark.root
def test_nothing_is_made_without_caps(tmp_path: Path, journal: Journal) -> None:
    node = survey(tmp_path)
    with confined(node, NO_CAPS, journal) as confinement:
        assert confinement.node is node
        assert confinement.pushes() == Pushes()
        assert read(journal.path).pending == ()


@pytest.mark.root
def test_the_cap_on_processors_holds_and_says_so(tmp_path: Path, journal: Journal) -> None:
    with (
        confined(survey(tmp_path), Caps(0.1), journal) as confinement,
        group_inside(confinement) as paths,
    ):
        before = confinement.pushes()
        assert python_in(paths, BURN) == 0
        (bound,) = held_back(before, confinement.pushes(), 1.0)
        assert bound.startswith("cores ")


@pytest.mark.root
def test_a_calm_program_is_not_held_back(tmp_path: Path, journal: Journal) -> None:
    with (
        confined(survey(tmp_path), Caps(0.9), journal) as confinement,
        group_inside(confinement) as paths,
    ):
        before = confinement.pushes()
        assert execute_in(paths, "sleep", "0.5") == 0
        assert held_back(before, confinement.pushes(), 0.5) == ()


@pytest.mark.root
def test_a_level_above_the_cap_is_refused_by_the_kernel_too(tmp_path: Path, journal: Journal) -> None:
    node = survey(tmp_path)
    if node.hierarchies.version["cpu"] != 1:
        pytest.skip("only version 1 refuses a quota above its parent's")
    with confined(node, Caps(0.5), journal) as confinement, group_inside(confinement) as paths:
        (path,) = [path for path in paths if (path / "cpu.cfs_quota_us").exists()]
        (path / "cpu.cfs_quota_us").write_text("40000")
        with pytest.raises(OSError, match="Invalid argument"):
            (path / "cpu.cfs_quota_us").write_text("60000")


@pytest.mark.root
def test_the_cap_on_memory_holds_and_says_so(tmp_path: Path, journal: Journal) -> None:
    with (
        confined(survey(tmp_path), Caps(None, 100e6), journal) as confinement,
        group_inside(confinement) as paths,
    ):
        before = confinement.pushes()
        assert python_in(paths, "x = bytearray(30_000_000)") == 0
        assert held_back(before, confinement.pushes(), 1.0) == ()
        assert python_in(paths, "x = bytearray(300_000_000)") == -9
        assert held_back(before, confinement.pushes(), 1.0) == ("memory (more was wanted)",)


@pytest.mark.root
def test_reading_more_than_fits_counts_as_held_back(tmp_path: Path, journal: Journal) -> None:
    """Pages of files are a part of the memory: with fewer of them, the subject reads more from the disk."""
    file = tmp_path / "big"
    file.write_bytes(bytes(200_000_000))
    os.sync()
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with (
        confined(survey(tmp_path), Caps(None, 100e6), journal) as confinement,
        group_inside(confinement) as paths,
    ):
        before = confinement.pushes()
        assert execute_in(paths, "cat", str(file)) == 0
        assert held_back(before, confinement.pushes(), 1.0) == ("memory (more was wanted)",)
