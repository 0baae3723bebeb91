"""Everything that carries our mark is found, wherever it is, and nothing is changed by looking."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.contract import new_run_id
from insitu.injectors.inventory import Kind, Marked, everything, run_of, runs_guarded_elsewhere
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.processes import start_time
from insitu.injectors.session import inherited

RUN = new_run_id()
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
NAMESPACES = """
mount -t tmpfs insitu "$1" &&
ip link add "insitu-$2" type veth peer name insitu-lt1 && ip link add lt2 type veth peer lt3 &&
ip link set lt2 alias "insitu-$2-alias" && ip link set lt3 alias insitu-alias &&
echo ready && exec sleep 600
"""


def found(*places: Path) -> list[Marked]:
    return [one for one in everything(places) if one.run == RUN]


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("/sys/fs/cgroup/cpu/insitu-1a2b3c4d-t3", "1a2b3c4d"),
        ("insitu-1a2b3c4d", "1a2b3c4d"),
        ("INSITU_SESSION=/tmp/insitu-1a2b3c4d-ray-ffff", "1a2b3c4d"),
        ("/tmp/insitu", ""),
        ("/tmp/insitu-dowhy", ""),
        ("/tmp/insitu-1a2b3c4", ""),
        ("/tmp/insitu-1a2b3c4d5", ""),
        ("/tmp/insitu-1a2b3c4d_old", ""),
        ("/tmp/insitu-1A2B3C4D", ""),
        ("/tmp/not-insitu-1a2b3c4d", ""),
        ("/tmp/insitu-probe-1a2b3c4d", ""),
        ("", ""),
    ],
)
def test_the_run_that_a_mark_speaks_of(text: str, run: str) -> None:
    assert run_of(text) == run


def test_folders_and_processes_are_found(tmp_path: Path) -> None:
    folder = tmp_path / f"insitu-{RUN}-slot"
    folder.mkdir()
    for other in ("other", "insitu-dowhy", f"insitu-{RUN}0"):
        (tmp_path / other).mkdir()
    with inherited(folder), subprocess.Popen(SLEEP) as process:
        try:
            marked = found(tmp_path)
        finally:
            process.kill()
    assert [(one.kind, one.name) for one in marked] == [
        (Kind.PROCESS, str(process.pid)),
        (Kind.FOLDER, str(folder)),
    ]
    assert not [one for one in everything([tmp_path]) if one.name.startswith(str(tmp_path)) and one.run != RUN]
    assert "sleep(600)" in marked[0].detail
    assert folder.is_dir()


@pytest.mark.root
def test_groups_are_found_with_their_members_once(tmp_path: Path) -> None:
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-{RUN}-t1", ("cpu", "pids"))
    foreign = cgroups.plan_group(cgroups.discover(), f"insitu-inventorytest{os.getpid()}", ("pids",))
    cgroups.create(plan)
    with subprocess.Popen(SLEEP) as process:
        try:
            for path in plan.paths:
                (path / f"insitu-{RUN}-inner").mkdir()
                (path / "cgroup.procs").write_text(str(process.pid))
            for path in foreign.paths:
                path.mkdir()
            marked = found()
            listed = {one.name for one in everything()}
        finally:
            for path in (*plan.paths, *foreign.paths):
                cgroups.remove(path)
    assert listed.isdisjoint(map(str, foreign.paths))
    names = [(one.kind, one.name) for one in marked]
    assert names == [*((Kind.GROUP, str(path)) for path in sorted(plan.paths)), (Kind.PROCESS, str(process.pid))]


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[int]:
    """A process with a mount and a network of its own."""
    stage = tmp_path / f"insitu-{RUN}-stage"
    stage.mkdir()
    command = ["unshare", "--mount", "--net", "sh", "-c", NAMESPACES, "sh", str(stage), RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.kill()


@pytest.mark.root
def test_mounts_and_interfaces_of_other_namespaces_are_found(namespaces: int) -> None:
    (mounts,) = [one for one in found() if one.kind is Kind.MOUNT]
    assert mounts.name == os.readlink(f"/proc/{namespaces}/ns/mnt")
    assert mounts.detail == f"1 mounts in the namespace of process {namespaces}"
    where = f"in {os.readlink(f'/proc/{namespaces}/ns/net')} of process {namespaces}"
    interfaces = [one.name for one in everything() if one.kind is Kind.NETWORK and one.detail == where]
    assert interfaces == [f"insitu-{RUN}"]


def test_a_run_with_another_state_folder_is_known_by_its_guard(state: Path, tmp_path: Path) -> None:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal, Lease(journal):
        assert RUN in runs_guarded_elsewhere(tmp_path / "elsewhere")
        assert RUN not in runs_guarded_elsewhere(state)
