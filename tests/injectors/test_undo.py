"""Undos are carried out on what is ours, whatever state it is in, and on nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState
from insitu.injectors.processes import Process, start_time
from insitu.injectors.undo import Undo, UndoKind, carry_out
from tests.ordinary_user import ids, run_python

OWNER = Ownership("r1")
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize(
    ("name", "owned"),
    [
        ("insitu-r1", True),
        ("insitu-r1-t3", True),
        ("insitu-r10", False),
        ("insitu-r1t3", False),
        ("insitu-", False),
        ("x-insitu-r1", False),
        ("insitu-r1-t3/..", False),
        ("insitu-r1/other", False),
    ],
)
def test_the_mark_is_in_the_last_part_of_a_path(tmp_path: Path, name: str, owned: bool) -> None:
    assert OWNER.owns(f"{tmp_path}/{name}") is owned


@pytest.mark.parametrize("kind", [UndoKind.FOLDER, UndoKind.CGROUP])
def test_what_does_not_carry_the_mark_is_left_alone(tmp_path: Path, kind: UndoKind) -> None:
    foreign = tmp_path / "insitu-r2-t1"
    foreign.mkdir()
    with pytest.raises(ForeignState, match="insitu-r1"):
        carry_out(Undo(kind, str(foreign)), OWNER)
    assert foreign.is_dir()


def test_a_folder_is_deleted_with_all_that_is_in_it_and_a_second_time_does_no_harm(tmp_path: Path) -> None:
    folder, outside = tmp_path / "insitu-r1-t1", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/file").touch()
    (folder / "a/link").symlink_to(outside)
    os.mkfifo(folder / "a/pipe")
    for _ in range(2):
        carry_out(Undo(UndoKind.FOLDER, str(folder)), OWNER)
        assert not folder.exists()
    assert (outside / "kept").exists()


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    target, link = tmp_path / "precious", tmp_path / "insitu-r1-t1"
    target.mkdir()
    link.symlink_to(target)
    with pytest.raises(ForeignState, match="is a link"):
        carry_out(Undo(UndoKind.FOLDER, str(link)), OWNER)
    assert target.is_dir()
    assert link.is_symlink()


DELETE = """
import os, sys
from insitu.injectors.contract import Ownership
from insitu.injectors.undo import Undo, UndoKind, carry_out
folder = sys.argv[1]
os.makedirs(folder + "/a/b/c")
for path in ("a/file", "a/b/file", "a/b/c/file"):
    open(f"{folder}/{path}", "w").close()
for path in sys.argv[3:]:
    os.chmod(f"{folder}/{path}", int(sys.argv[2], 8))
carry_out(Undo(UndoKind.FOLDER, folder), Ownership("r1"))
assert not os.path.lexists(folder)
"""


@pytest.mark.parametrize("mode", ["000", "500", "100", "200"])
@pytest.mark.parametrize("paths", [["a/b/c"], ["a"], ["a/b/c", "a/b", "a"], ["a/b", "."]])
def test_folders_that_their_owner_cannot_list_are_deleted(mode: str, paths: list[str]) -> None:
    parent = Path(tempfile.mkdtemp(prefix="undo-"))
    try:
        os.chown(parent, *ids())
        done = run_python(["-c", DELETE, f"{parent}/insitu-r1-t1", mode, *paths])
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(parent)


def test_a_process_is_ended() -> None:
    with subprocess.Popen(SLEEP) as process:
        carry_out(Undo(UndoKind.PROCESS, f"/proc/{process.pid}", start_time(process.pid)), OWNER)
        assert process.wait(timeout=10) == -9


@pytest.mark.parametrize("started", ["", "1"])
def test_a_process_that_has_the_pid_now_is_not_the_one_that_was_meant(started: str) -> None:
    with subprocess.Popen(SLEEP) as process:
        try:
            carry_out(Undo(UndoKind.PROCESS, f"/proc/{process.pid}", started), OWNER)
            carry_out(Undo(UndoKind.PROCESS, f"/proc/{process.pid}", start_time(os.getpid())), OWNER)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        finally:
            process.kill()


def test_a_process_that_has_ended_has_no_start_time() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(process.pid) == ""
    process.wait()
    assert start_time(process.pid) == ""
    assert start_time(os.getpid()).isdigit()


def test_a_process_that_is_reaped_while_it_is_looked_up_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["sleep", "60"])
    it = Process.of(process.pid)

    def reaped(pid: int) -> int:  # what a kernel answers between the end of a process and that of its number
        process.kill()
        process.wait()
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "pidfd_open", reaped)
    assert it.open() is None


def test_a_kernel_that_refuses_to_look_up_what_lives_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "pidfd_open", refused)
    with pytest.raises(OSError, match="Invalid argument"):
        Process.current().open()
