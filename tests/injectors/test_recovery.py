"""What a dead owner left is undone; what a living one uses is left alone."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.journal import Header, Journal, Locked, boot_id
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import journals, marked_groups, recover_journal
from insitu.injectors.undo import Undo, UndoKind

RUN = f"recoverytest{os.getpid()}"
LIVING = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "/runs/r")
DEAD = dataclasses.replace(LIVING, owner_pid=2**22 + 1)
REBOOTED = dataclasses.replace(LIVING, boot="00000000-0000-0000-0000-000000000000")
GONE = Undo(UndoKind.FOLDER, f"/nowhere/insitu-{RUN}-t1")


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    folder = tmp_path / f"insitu-{RUN}-t1"
    (folder / "scratch").mkdir(parents=True)
    return folder


def left_behind(state: Path, header: Header, *undos: Undo) -> Path:
    """A journal as a killed agent leaves it."""
    journal = Journal(state, header)
    journal.done(journal.intend([Undo(UndoKind.FOLDER, "/done/before")]))
    journal.intend(undos)
    journal.close()
    return journal.path


@pytest.mark.parametrize(("header", "rebooted"), [(DEAD, False), (REBOOTED, True)])
def test_a_dead_owner_s_undos_are_carried_out(state: Path, marked: Path, header: Header, rebooted: bool) -> None:
    path = left_behind(state, header, Undo(UndoKind.FOLDER, str(marked)))
    assert journals(state) == journals() == (path,)
    outcome = recover_journal(path)
    assert not marked.exists()
    assert outcome.pending == (Undo(UndoKind.FOLDER, str(marked)),)
    assert outcome.header == header
    assert outcome.rebooted is rebooted
    assert not outcome.in_use
    assert outcome.failures == ()
    assert journals(state) == ()


def test_a_living_owner_is_left_alone_unless_the_guard_knows_better(state: Path, marked: Path) -> None:
    path = left_behind(state, LIVING, Undo(UndoKind.FOLDER, str(marked)))
    outcome = recover_journal(path)
    assert outcome.in_use
    assert marked.is_dir()
    assert path.exists()
    assert recover_journal(path, even_if_alive=True).failures == ()
    assert not marked.exists()
    assert not path.exists()


def test_another_recovery_at_work_is_left_alone(state: Path, marked: Path) -> None:
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(marked)))
    with Locked(path):
        assert recover_journal(path).in_use
        assert marked.is_dir()
    assert recover_journal(path).failures == ()


def test_a_journal_that_another_recovery_has_just_finished_is_not_in_use(state: Path) -> None:
    outcome = recover_journal(state / "insitu-r-1.journal")
    assert not outcome.in_use
    assert outcome.failures == ()


@pytest.mark.parametrize("content", [b"", b'{"run":"r'])
def test_a_torn_header_means_that_nothing_had_begun(state: Path, content: bytes) -> None:
    state.mkdir()
    path = state / "insitu-r-1.journal"
    path.write_bytes(content)
    outcome = recover_journal(path)
    assert outcome.header is None
    assert outcome.failures == ()
    assert not path.exists()


def test_a_file_that_is_no_journal_is_a_failure_and_left_alone(state: Path) -> None:
    state.mkdir()
    path = state / "insitu-r-1.journal"
    path.write_text("someone's notes\n")
    (failure,) = recover_journal(path).failures
    assert "not a journal" in failure
    assert path.read_text() == "someone's notes\n"
    path.unlink()


def test_failures_keep_the_journal_and_do_not_stop_the_other_undos(state: Path, marked: Path) -> None:
    foreign = marked.parent / "foreign"
    foreign.mkdir()
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(foreign)), Undo(UndoKind.FOLDER, str(marked)))
    for _ in range(2):
        (failure,) = recover_journal(path).failures
        assert str(foreign) in failure
        assert foreign.is_dir()
        assert not marked.exists()
        assert path.exists()
    path.unlink()


@pytest.fixture
def session() -> Iterator[Path]:
    """A marked folder of helpers, on its own since `tmp_path` is in the command line of nobody."""
    folder = Path(tempfile.mkdtemp(prefix=f"insitu-{RUN}-ray-"))
    yield folder
    if folder.exists():
        folder.rmdir()


@pytest.mark.parametrize("by", ["argument", "open file"])
def test_a_dead_owner_s_helpers_end_and_their_folder_goes(state: Path, session: Path, by: str) -> None:
    code = "import sys, time; print(flush=True); time.sleep(60)"
    (session / "log").touch()
    with (session / "log").open() as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *([str(session)] if by == "argument" else [])],
            stdin=log,
            stdout=subprocess.PIPE,
        )
    assert process.stdout is not None
    process.stdout.readline()
    path = left_behind(state, dataclasses.replace(DEAD, session_folder=str(session)), GONE)
    assert recover_journal(path).failures == ()
    assert process.wait(timeout=10) == -9
    process.stdout.close()
    assert not session.exists()


def test_a_session_folder_without_the_mark_is_not_touched(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "insitu-another-ray"
    folder.mkdir()
    path = left_behind(state, dataclasses.replace(DEAD, session_folder=str(folder)), GONE)
    (failure,) = recover_journal(path).failures
    assert "left alone" in failure
    assert folder.is_dir()
    assert path.exists(), "what could not be understood must stay on record"
    path.unlink()


def test_a_living_owner_s_session_is_not_ended_by_the_guard(state: Path, session: Path) -> None:
    path = left_behind(state, dataclasses.replace(LIVING, session_folder=str(session)), GONE)
    outcome = recover_journal(path, even_if_alive=True)
    assert outcome.failures == ()
    assert outcome.in_use, "the owner may be dying: the guard has to look again"
    assert session.is_dir()
    path.unlink()


@pytest.mark.root
def test_groups_are_removed_and_found_by_their_mark(state: Path) -> None:
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-{RUN}-t1", ("cpu", "pids"))
    cgroups.create(plan)
    assert set(plan.paths) <= set(marked_groups())
    path = left_behind(state, DEAD, *(Undo(UndoKind.CGROUP, str(group)) for group in plan.paths))
    assert recover_journal(path).failures == ()
    assert not set(plan.paths) & set(marked_groups())
