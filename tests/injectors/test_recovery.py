"""What a dead owner left is undone; what a living one uses is left alone."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.claim import Claim
from insitu.injectors.contract import new_run_id
from insitu.injectors.errors import ForeignState
from insitu.injectors.inventory import Kind, control_groups
from insitu.injectors.journal import Header, Journal, boot_id, encode, process_namespace, read
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import Fate, journals, recover_all, recover_journal
from insitu.injectors.session import inherited
from insitu.injectors.undo import Undo, UndoKind

RUN = new_run_id()
LIVING = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "/runs/r")
DEAD = dataclasses.replace(LIVING, owner_pid=2**22 + 1)
REBOOTED = dataclasses.replace(LIVING, boot="00000000-0000-0000-0000-000000000000")
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
GONE = Undo(UndoKind.FOLDER, f"/nowhere/insitu-{RUN}-t1")


OUTLIVE = """
import sys, time
from pathlib import Path
from insitu.injectors.journal import Header, Journal
from insitu.injectors.undo import Undo, UndoKind
journal = Journal(Path(sys.argv[1]), Header(sys.argv[2], 2**22 + 1, "1", sys.argv[3], ""))
journal.intend([Undo(UndoKind.FOLDER, sys.argv[4])])
print(journal.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    folder = tmp_path / f"insitu-{RUN}-t1"
    (folder / "scratch").mkdir(parents=True)
    return folder


def left_behind(state: Path, header: Header, *undos: Undo) -> Path:
    """A journal as a killed agent leaves it."""
    with Journal(state, header) as journal:
        number = journal.intend([GONE])
    intent = {"intent": number + 1, "undo": [dataclasses.asdict(undo) for undo in undos], "settings": []}
    with journal.path.open("ab") as file:  # some are such as this version would not intend
        file.write(encode({"done": number}) + encode(intent))
    return journal.path


@pytest.mark.parametrize(("header", "rebooted"), [(DEAD, False), (REBOOTED, True)])
def test_a_dead_owner_s_undos_are_carried_out(state: Path, marked: Path, header: Header, rebooted: bool) -> None:
    path = left_behind(state, header, Undo(UndoKind.FOLDER, str(marked)))
    assert journals(state) == journals() == (path,)
    outcome = recover_journal(path)
    assert outcome.fate is Fate.CLEAN
    assert not marked.exists()
    assert [(result.undo, result.failure) for result in outcome.results] == [
        (Undo(UndoKind.FOLDER, str(marked)), "")
    ]
    assert outcome.header is not None
    assert outcome.header.run == RUN
    assert outcome.rebooted is rebooted
    assert outcome.failures == ()
    assert journals(state) == ()


def test_a_living_owner_is_left_alone_unless_the_guard_knows_better(state: Path, marked: Path) -> None:
    path = left_behind(state, LIVING, Undo(UndoKind.FOLDER, str(marked)))
    assert recover_journal(path).fate is Fate.IN_USE
    assert marked.is_dir()
    assert path.exists()
    assert recover_journal(path, even_if_alive=LIVING.owner).fate is Fate.CLEAN
    assert not marked.exists()
    assert not path.exists()


def test_a_living_owner_is_left_alone_whoever_else_is_known_to_have_ended(state: Path, marked: Path) -> None:
    path = left_behind(state, LIVING, Undo(UndoKind.FOLDER, str(marked)))
    before = path.read_bytes()
    for other in (DEAD.owner, dataclasses.replace(LIVING.owner, started="1")):
        assert recover_journal(path, even_if_alive=other).fate is Fate.IN_USE
    assert marked.is_dir()
    assert path.read_bytes() == before
    path.unlink()


def test_a_holder_that_outlives_its_owner_is_ended_first(state: Path, marked: Path) -> None:
    words = [sys.executable, "-c", OUTLIVE, str(state), RUN, boot_id(), str(marked)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            path = Path(holder.stdout.readline().strip())
            assert recover_journal(path).fate is Fate.CLEAN
            assert holder.wait(timeout=10) == -9
        finally:
            holder.kill()
    assert not marked.exists()


def test_another_recovery_at_work_is_left_alone_and_named_when_it_stays(state: Path, marked: Path) -> None:
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(marked)))
    with Claim(path):
        assert recover_journal(path).fate is Fate.BUSY
        (outcome,) = recover_all(within_s=0.15)
        assert "another recovery" in outcome.failures[0]
        assert marked.is_dir()
    (outcome,) = recover_all()
    assert outcome.fate is Fate.CLEAN


def test_a_journal_that_another_recovery_has_just_finished_is_clean(state: Path) -> None:
    assert recover_journal(state / "insitu-r-1.journal").fate is Fate.CLEAN


@pytest.mark.parametrize("content", [b"", b'{"run":"r'])
def test_a_torn_header_means_that_nothing_had_begun(state: Path, content: bytes) -> None:
    state.mkdir()
    path = state / f"insitu-r-{2**22 + 1}.journal"
    path.write_bytes(content)
    outcome = recover_journal(path)
    assert outcome.header is None
    assert outcome.fate is Fate.CLEAN
    assert not path.exists()


def test_a_journal_that_is_about_to_get_its_header_is_left_alone(state: Path) -> None:
    state.mkdir()
    path = state / f"insitu-r-{os.getpid()}.journal"
    path.touch()
    assert recover_journal(path).fate is Fate.IN_USE
    assert path.exists()
    path.unlink()


@pytest.mark.parametrize(
    "content",
    [
        "someone's notes\n",
        json.dumps(dataclasses.asdict(DEAD) | {"format": 99}) + "\n",
        json.dumps(dataclasses.asdict(DEAD))
        + '\n{"intent":0,"undo":[{"kind":"sysctl","path":"/x"}],"settings":[]}\n',
    ],
)
def test_what_is_not_understood_is_a_failure_and_left_alone(state: Path, content: str) -> None:
    state.mkdir()
    path = state / "insitu-r-1.journal"
    path.write_text(content)
    outcome = recover_journal(path)
    assert outcome.fate is Fate.DIRTY
    (failure,) = outcome.failures
    assert "not a journal that this version can read" in failure
    assert path.read_text() == content
    path.unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [("insitu-notes.journal", b""), ("insitu-r-1.journal", b"milk, bread"), ("insitu-r-1.journal", b"\0\1")],
)
def test_a_file_that_only_has_a_name_like_ours_is_left_alone(state: Path, name: str, content: bytes) -> None:
    state.mkdir()
    path = state / name
    path.write_bytes(content)
    assert recover_journal(path).fate is Fate.DIRTY
    assert path.read_bytes() == content
    path.unlink()


@pytest.mark.root
def test_what_others_may_have_written_is_not_carried_out(state: Path, marked: Path) -> None:
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(marked)))
    for problem in ("belongs to user", "may have been written by others"):
        if problem == "belongs to user":
            os.chown(path, 1, 1)
        else:
            os.chown(path, 0, 0)
            path.chmod(0o666)
        (outcome,) = recover_all()
        assert outcome.fate is Fate.DIRTY
        assert problem in outcome.failures[0]
        with pytest.raises(ForeignState, match=problem):
            read(path)
        assert marked.exists()
    path.chmod(0o600)
    assert recover_journal(path).fate is Fate.CLEAN


def test_a_pipe_in_place_of_a_journal_holds_nobody_up(state: Path) -> None:
    state.mkdir()
    path = state / "insitu-r-1.journal"
    os.mkfifo(path)
    assert recover_journal(path).fate is Fate.DIRTY
    with pytest.raises(ForeignState, match="no regular file"):
        read(path)
    path.unlink()


def test_a_run_of_another_process_namespace_is_left_alone(state: Path, marked: Path) -> None:
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(marked)))
    path.write_text(path.read_text().replace(process_namespace(), "pid:[1]"))
    outcome = recover_journal(path, even_if_alive=LIVING.owner)
    assert outcome.fate is Fate.DIRTY
    assert "another process namespace" in outcome.failures[0]
    assert marked.exists()
    path.unlink()


def edit_header(path: Path, **changes: str | None) -> None:
    """Write other fields into the header of a journal, or take some out."""
    header, _, rest = path.read_text().partition("\n")
    fields = json.loads(header) | changes
    path.write_text(json.dumps({name: one for name, one in fields.items() if one is not None}) + "\n" + rest)


def test_a_run_of_another_machine_is_left_alone_and_is_no_failure(state: Path, marked: Path) -> None:
    path = left_behind(state, REBOOTED, Undo(UndoKind.FOLDER, str(marked)))
    edit_header(path, machine="node-a 0123")
    content = path.read_bytes()
    (outcome,) = recover_all()
    assert (outcome.fate, outcome.failures, outcome.results) == (Fate.ELSEWHERE, (), ())
    assert marked.is_dir()
    assert path.read_bytes() == content
    path.unlink()


def test_a_journal_of_a_version_that_did_not_tell_the_machine_is_carried_out(state: Path, marked: Path) -> None:
    path = left_behind(state, REBOOTED, Undo(UndoKind.FOLDER, str(marked)))
    edit_header(path, machine=None)
    assert recover_journal(path).fate is Fate.CLEAN
    assert not marked.exists()


def test_a_folder_of_journals_that_cannot_be_listed_is_not_called_clean(state: Path) -> None:
    state.touch()
    (outcome,) = recover_all()
    assert outcome.fate is Fate.DIRTY
    assert "cannot look for journals" in outcome.failures[0]


@pytest.mark.parametrize(
    "undo",
    [
        Undo(UndoKind.FOLDER, "insitu-r"),
        Undo(UndoKind.FOLDER, "/etc/../tmp"),
        Undo(UndoKind.FOLDER, "/etc/.."),
        Undo(UndoKind.FOLDER, "/x/\0/insitu-r"),
        Undo(UndoKind.CGROUP, f"/sys/fs/cgroup/../insitu-{RUN}"),
        Undo(UndoKind.VALUE, "/x\0", prior="1", written="2"),
        Undo(UndoKind.PROCESS, "/proc/1", "1"),
        Undo(UndoKind.PROCESS, "/proc/-1", "1"),
        Undo(UndoKind.PROCESS, "/proc/self", "1"),
    ],
)
def test_an_undo_that_no_run_writes_is_refused_and_does_not_stop_the_others(
    state: Path, marked: Path, undo: Undo
) -> None:
    path = left_behind(state, DEAD, undo, Undo(UndoKind.FOLDER, str(marked)))
    outcome = recover_journal(path)
    assert outcome.fate is Fate.DIRTY
    assert "left alone" in outcome.failures[0]
    assert not marked.exists()
    path.unlink()


@pytest.mark.parametrize("sub_is_there", [True, False])
def test_what_an_earlier_version_wrote_with_two_dots_is_undone(
    state: Path, marked: Path, sub_is_there: bool
) -> None:
    if sub_is_there:
        (marked.parent / "sub").mkdir()
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, f"{marked.parent}/sub/../{marked.name}"))
    outcome = recover_journal(path)
    assert (outcome.fate, outcome.failures) == (Fate.CLEAN, ())
    assert not marked.exists()
    assert not path.exists()


def test_two_dots_behind_a_link_mean_what_the_kernel_takes_them_for(state: Path, tmp_path: Path) -> None:
    """``link/..`` is the folder that holds the link's target, where the earlier version has made its own."""
    (tmp_path / "far" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/sub")
    meant, other = (folder / f"insitu-{RUN}-t1" for folder in (tmp_path / "far", tmp_path))
    meant.mkdir()
    other.mkdir()
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, f"{tmp_path}/link/../{meant.name}"))
    assert recover_journal(path).fate is Fate.CLEAN
    assert (meant.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("gone", ["foreign", "sub/../foreign", "file/below"])
def test_a_folder_that_is_gone_is_undone_whatever_its_path(state: Path, tmp_path: Path, gone: str) -> None:
    (tmp_path / "file").touch()
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, f"{tmp_path}/{gone}"))
    assert recover_journal(path).fate is Fate.CLEAN
    assert not path.exists()


def test_failures_keep_the_journal_and_do_not_stop_the_other_undos(state: Path, marked: Path) -> None:
    foreign = marked.parent / "foreign"
    foreign.mkdir()
    path = left_behind(state, DEAD, Undo(UndoKind.FOLDER, str(foreign)), Undo(UndoKind.FOLDER, str(marked)))
    for _ in range(2):
        outcome = recover_journal(path)
        (failure,) = outcome.failures
        assert outcome.fate is Fate.DIRTY
        assert str(foreign) in failure
        assert foreign.is_dir()
        assert not marked.exists()
        assert path.exists()
    path.unlink()


def test_what_was_undone_is_not_undone_again_when_something_else_fails(state: Path, tmp_path: Path) -> None:
    foreign, value = tmp_path / "foreign", tmp_path / "value"
    foreign.mkdir()
    value.write_text("ours\n")
    with Journal(state, DEAD) as journal:
        first = journal.intend([Undo(UndoKind.VALUE, str(value), prior="theirs\n", written="ours")])
    kept = first + 1
    other = dataclasses.asdict(Undo(UndoKind.FOLDER, str(foreign)))
    with journal.path.open("ab") as file:
        file.write(encode({"intent": kept, "undo": [other], "settings": []}))
    assert recover_journal(journal.path).fate is Fate.DIRTY
    assert value.read_text() == "theirs\n"
    value.write_text("changed since\n")
    outcome = recover_journal(journal.path)
    assert len(outcome.failures) == 1
    assert value.read_text() == "changed since\n"
    assert [intent.number for intent in read(journal.path).intents] == [kept]
    journal.path.unlink()


def test_processes_and_groups_of_an_earlier_boot_are_gone_with_it(state: Path, tmp_path: Path) -> None:
    group = tmp_path / f"insitu-{RUN}-t1"
    group.mkdir()
    with subprocess.Popen(SLEEP) as process:
        undos = (
            Undo(UndoKind.PROCESS, f"/proc/{process.pid}", start_time(process.pid)),
            Undo(UndoKind.CGROUP, str(group)),
        )
        outcome = recover_journal(left_behind(state, REBOOTED, *undos))
        assert outcome.fate is Fate.CLEAN
        assert {result.note for result in outcome.results} == {"it was gone with the boot"}
        assert process.poll() is None
        process.kill()
    assert group.is_dir()


@pytest.fixture
def session() -> Iterator[Path]:
    """A marked folder of helpers."""
    folder = Path(tempfile.mkdtemp(prefix=f"insitu-{RUN}-ray-"))
    yield folder
    if folder.exists():
        folder.rmdir()


def test_a_dead_owner_s_helpers_end_and_their_folder_goes(state: Path, session: Path) -> None:
    with inherited(session), subprocess.Popen(SLEEP) as helper:
        path = left_behind(state, dataclasses.replace(DEAD, session_folder=str(session)), GONE)
        assert recover_journal(path).fate is Fate.CLEAN
        assert helper.wait(timeout=10) == -9
    assert not session.exists()


def test_whoever_only_looks_into_the_folder_of_a_session_is_left_alone(state: Path, session: Path) -> None:
    (session / "log").touch()
    with (session / "log").open() as log:
        reader = subprocess.Popen([*SLEEP, str(session)], stdin=log, cwd=session)
    try:
        path = left_behind(state, dataclasses.replace(DEAD, session_folder=str(session)), GONE)
        assert recover_journal(path).fate is Fate.CLEAN
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()
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


def test_a_living_owner_s_session_is_not_ended(state: Path, session: Path) -> None:
    path = left_behind(state, dataclasses.replace(LIVING, session_folder=str(session)), GONE)
    assert recover_journal(path, even_if_alive=LIVING.owner).fate is Fate.IN_USE
    assert session.is_dir()
    path.unlink()


@pytest.mark.root
def test_groups_are_removed_and_found_by_their_mark(state: Path) -> None:
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-{RUN}-t1", ("cpu", "pids"))
    cgroups.create(plan)
    wanted = {(Kind.GROUP, str(path), RUN) for path in plan.paths}
    assert wanted <= {(found.kind, found.name, found.run) for found in control_groups()}
    path = left_behind(state, DEAD, *(Undo(UndoKind.CGROUP, str(group)) for group in plan.paths))
    assert recover_journal(path).fate is Fate.CLEAN
    assert not wanted & {(found.kind, found.name, found.run) for found in control_groups()}
