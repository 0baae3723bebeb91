"""The command, as a user calls it, on what a killed run has left."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from insitu.injectors import cgroups
from insitu.injectors.contract import new_run_id
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind

RUN = new_run_id()
ALIVE = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
DEAD = dataclasses.replace(ALIVE, owner_pid=2**22 + 1)
REBOOTED = dataclasses.replace(ALIVE, boot="another")


def recover(*options: str, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"INSITU_STATE": str(state)} if state else {})
    command = [sys.executable, "-m", "insitu", "recover", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def doctor() -> list[dict[str, str]]:
    command = [sys.executable, "-m", "insitu", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    findings: list[dict[str, str]] = json.loads(done.stdout)
    return findings


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def left_behind(state: Path, header: Header, *undos: Undo, settings: tuple[str, ...] = ()) -> Path:
    """A journal of a process that has ended."""
    holder = os.fork()
    if holder == 0:
        Journal(state, header).intend(undos, settings)
        os._exit(0)
    os.waitpid(holder, 0)
    return state / f"insitu-{header.run}-{holder}.journal"


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    folder = tmp_path / f"insitu-{RUN}-slot"
    folder.mkdir()
    return folder


def test_what_a_dead_run_left_is_undone_and_told(state: Path, marked: Path) -> None:
    left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(marked)))
    done = recover()
    assert f"run {RUN}: process {DEAD.owner_pid} has ended" in done.stdout
    assert f"undone: folder {marked}" in done.stdout
    assert not marked.exists()
    again = document(recover("--json"))
    assert (again["undone"], again["failures"], again["in_use"]) == ([], [], [])


def test_after_a_reboot_it_tells_what_was_gone_and_undoes_what_was_not(
    state: Path, marked: Path, tmp_path: Path
) -> None:
    kept, reset = tmp_path / "kept", tmp_path / "reset"
    kept.write_text("ours\n")
    reset.write_text("default\n")
    left_behind(
        state,
        REBOOTED,
        Undo(UndoKind.CGROUP, f"/sys/fs/cgroup/cpu/insitu-{RUN}-t1"),
        Undo(UndoKind.FOLDER, str(marked)),
        Undo(UndoKind.VALUE, str(kept), prior="theirs\n", written="ours"),
        Undo(UndoKind.VALUE, str(reset), prior="theirs\n", written="ours"),
    )
    done = recover()
    assert f"run {RUN}, of an earlier boot" in done.stdout
    assert f"insitu-{RUN}-t1 (it was gone with the boot)" in done.stdout
    assert f"undone: value {reset} (it reads 'default' since the boot; left alone)" in done.stdout
    assert not marked.exists()
    assert (kept.read_text(), reset.read_text()) == ("theirs\n", "default\n")


def test_what_cannot_be_undone_or_understood_ends_with_4_and_stays(state: Path, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("changed by an administrator\n")
    path = left_behind(state, DEAD, Undo(UndoKind.VALUE, str(value), prior="theirs\n", written="ours"))
    newer = state / "insitu-newer-1.journal"
    newer.write_text('{"format": 99}\n')
    done = recover()
    assert done.returncode == 4
    assert "somebody else has changed it; left alone" in done.stderr
    assert "format 99" in done.stderr
    assert path.exists()
    assert newer.exists()
    value.write_text("theirs\n")
    newer.unlink()
    assert document(recover("--json"))["failures"] == []
    assert not path.exists()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_doctor_and_recover_tell_of_the_same(state: Path, elsewhere: Path) -> None:
    stray, lookalike = elsewhere / f"insitu-{RUN}-ray-1a2b3c", elsewhere / "insitu-dowhy"
    mine, dead = elsewhere / "insitu-0a0b0c0d-ray-1a2b3c", dataclasses.replace(DEAD, run="0a0b0c0d")
    for folder in (stray, lookalike, mine):
        folder.mkdir()
    path = left_behind(state, dead, Undo(UndoKind.FOLDER, str(mine)))
    with subprocess.Popen(["sleep", "600"], env={"INSITU_SESSION": str(stray)}) as process:
        try:
            (told,) = [one for one in doctor() if one["what"] == "leftovers"]
            listed = document(recover("--list", "--json"))
            done = recover()
        finally:
            process.kill()
    strays = {f"folder {stray}", f"process {process.pid}"}
    assert told["verdict"] == "weaker"
    assert told["remedy"] == "insitu recover"
    assert f"{path}: left behind; " in told["how"]
    assert f"folder {mine}: left behind" in told["how"]
    assert all(f"{one}: no journal here speaks of it" in told["how"] for one in strays)
    assert {f"{one['kind']} {one['name']}" for one in listed["marked"]} >= {*strays, f"folder {mine}"}
    assert (path.exists(), mine.exists(), stray.exists()) == (False, False, True)
    assert done.returncode == 4
    assert all(f"{one} is marked as ours, but no journal here speaks of it" in done.stderr for one in strays)
    assert str(lookalike) not in f"{told}{listed}{done}"


def test_a_living_run_is_left_alone(state: Path, marked: Path) -> None:
    path = left_behind(state, ALIVE, Undo(UndoKind.FOLDER, str(marked)))
    assert f"left alone: run {RUN} (process {os.getpid()}) is alive" in recover().stdout
    assert marked.is_dir()
    path.unlink()


def test_a_folder_that_cannot_be_listed_is_told(state: Path) -> None:
    state.touch()
    done = recover("--list")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"error: cannot look for journals in {state}: Not a directory")


def test_a_run_of_another_machine_is_left_alone_and_told(state: Path, marked: Path, elsewhere: Path) -> None:
    (here := elsewhere / f"insitu-{RUN}-ray-1a2b3c").mkdir()
    path = left_behind(state, REBOOTED, Undo(UndoKind.FOLDER, str(marked)))
    header, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps(json.loads(header) | {"machine": "node-a 0123"}) + "\n" + rest)
    content = path.read_bytes()
    done = recover()
    assert RUN not in done.stderr
    assert f"left alone: run {RUN} (process {os.getpid()}) is of machine node-a; " in done.stdout
    assert f"run insitu recover on node-a, or delete {path} if that machine is gone" in done.stdout
    told = document(recover("--json"))
    assert (told["undone"], told["failures"]) == ([], [])
    assert str(here) not in told["strays"]
    assert told["in_use"] == [f"run {RUN} (process {os.getpid()})"]
    shown = recover("--list").stdout
    assert f"{path}: of another machine (run insitu recover on node-a" in shown
    assert f"to undo: folder {marked} (on node-a)" in shown
    assert f"folder {here}: run {RUN}, of another machine" in shown
    assert [RUN in one["how"] for one in doctor() if one["what"] == "leftovers"] == [False]
    assert marked.is_dir()
    assert path.read_bytes() == content
    path.unlink()


def test_the_list_shows_what_journals_say_and_changes_nothing(state: Path, marked: Path, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("ours\n")
    path = left_behind(
        state,
        dataclasses.replace(DEAD, run_directory=str(tmp_path)),
        Undo(UndoKind.FOLDER, str(marked)),
        Undo(UndoKind.FOLDER, f"/nowhere/insitu-{RUN}-t1"),
        Undo(UndoKind.VALUE, str(value), prior="theirs\n", written="ours"),
        settings=("cpu.cfs_quota_us = 40000",),
    )
    hour_ago = time.time() - 3700
    os.utime(path, (hour_ago, hour_ago))
    (state / "insitu-newer-1.journal").write_text('{"format": 99}\n')
    holder = path.stem.rpartition("-")[2]
    before = {file: file.read_bytes() for file in state.iterdir()}
    done = recover("--list")
    assert done.returncode == 0
    for line in (
        f"{path}: left behind",
        f"run {RUN} of process {DEAD.owner_pid}, written by process {holder} 1 h ago, results in {tmp_path}",
        "set: cpu.cfs_quota_us = 40000",
        f"to undo: folder {marked} (there)",
        f"to undo: folder /nowhere/insitu-{RUN}-t1 (gone)",
        f"to undo: value {value} (reads 'ours', was 'theirs', 'ours' written)",
        "insitu-newer-1.journal: not understood",
    ):
        assert line in done.stdout
    listed = document(recover("--list", "--json"))
    (kept, newer) = sorted(listed["journals"], key=lambda one: str(one["standing"]))
    assert (kept["run"], kept["standing"], len(kept["pending"])) == (RUN, "left behind", 3)
    assert 3600 < kept["age_s"] < 4000
    assert "format 99" in newer["problem"]
    assert {file: file.read_bytes() for file in state.iterdir()} == before
    assert marked.is_dir()
    for file in before:
        file.unlink()


@pytest.mark.root
def test_a_group_of_nobody_s_run_is_named_but_not_that_of_one_with_another_state_folder(
    state: Path, tmp_path: Path
) -> None:
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-{RUN}-t1", ("pids",))
    cgroups.create(plan)
    (group,) = map(str, plan.paths)
    try:
        done = recover()
        (told,) = [one for one in doctor() if one["what"] == "leftovers"]
        assert f"control group {group}: no journal here speaks of it" in told["how"]
        assert "another INSITU_STATE" in told["remedy"]
        assert done.returncode == 4
        assert f"{group} is marked as ours, but no journal here speaks of it" in done.stderr
        with Journal(state, ALIVE) as journal, Lease(journal):
            elsewhere = recover("--json", state=tmp_path / "elsewhere")
            assert group not in document(elsewhere)["strays"]
            listed = document(recover("--list", "--json", state=tmp_path / "elsewhere"))["marked"]
            (standing,) = [one["standing"] for one in listed if one["name"] == group]
            assert standing == "in use, with another state folder"
    finally:
        cgroups.remove(plan.paths[0])
