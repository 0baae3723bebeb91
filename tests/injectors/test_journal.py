"""The journal reads back exactly what was durable, wherever it was cut off."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.injectors.claim import Claim
from insitu.injectors.errors import ForeignState, NoJournal
from insitu.injectors.journal import (
    Entries,
    Header,
    Intent,
    Journal,
    boot_id,
    machine,
    process_namespace,
    read,
)
from insitu.injectors.processes import start_time
from insitu.injectors.state_folder import state_folder, try_out
from insitu.injectors.undo import Undo, UndoKind

HEADER = Header("r1", os.getpid(), start_time(os.getpid()), boot_id(), "/runs/r1")
DIGITS = st.text("0123456789", max_size=6)
HELD = dataclasses.replace(
    HEADER,
    holder_pid=HEADER.owner_pid,
    holder_start=HEADER.owner_start,
    process_namespace=process_namespace(),
    machine=machine(),
)
SETTING = "cpu.max = 1 2"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), max_size=20)
"""Whatever may follow the mark in the name of a file or folder."""
PIDS = st.integers(2, 4_194_304).map("/proc/{}".format)
UNDOS = st.builds(
    Undo,
    st.sampled_from(list(UndoKind)[1:]),
    NAMES.map("/x y/insitu-r1-{}".format),
    prior=st.text(),
    written=st.text(),
) | st.builds(Undo, st.just(UndoKind.PROCESS), PIDS, DIGITS)
STEPS = st.lists(st.lists(UNDOS, max_size=3) | st.integers(0, 9), max_size=12)
"""A list of undos is an intent; a number marks the intent of that number done, if there is one."""


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="journal-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def latest_first(open_intents: dict[int, tuple[Undo, ...]]) -> tuple[Intent, ...]:
    return tuple(Intent(number, open_intents[number], (SETTING,)) for number in sorted(open_intents, reverse=True))


@given(STEPS, st.data())
@settings(deadline=None, max_examples=150)
def test_any_history_cut_at_any_byte_reads_back_what_was_durable(
    steps: list[list[Undo] | int], data: st.DataObject
) -> None:
    with folder() as state:
        journal = Journal(state, HEADER)
        intents: dict[int, tuple[Undo, ...]] = {}
        durable = [(os.path.getsize(journal.path), latest_first(intents))]
        for step in steps:
            if isinstance(step, list):
                intents[journal.intend(step, [SETTING])] = tuple(step)
            elif step in intents:
                journal.done(step)
                del intents[step]
            durable.append((os.path.getsize(journal.path), latest_first(intents)))
        assert read(journal.path) == Entries(HELD, latest_first(intents))
        content = journal.path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        torn = state / "torn"
        torn.write_bytes(content[:cut])
        entries = read(torn)
        if cut < durable[0][0]:
            assert entries == Entries(None)
        else:
            assert entries == Entries(HELD, [left for size, left in durable if size <= cut][-1])
        journal.close()
        assert journal.path.exists() == bool(intents)


def test_an_intent_is_on_disk_before_it_returns(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        number = journal.intend([Undo(UndoKind.FOLDER, "/x/insitu-r1-t1")])
        assert read(journal.path).pending == (Undo(UndoKind.FOLDER, "/x/insitu-r1-t1"),)
        assert journal.path.stat().st_mode & 0o777 == 0o600
        assert state.stat().st_mode & 0o777 == 0o700
        journal.done(number)


@pytest.mark.parametrize(
    "undo",
    [
        Undo(UndoKind.FOLDER, "/x/../insitu-r1-t1"),
        Undo(UndoKind.FOLDER, "x/insitu-r1-t1"),
        Undo(UndoKind.FOLDER, "/x/insitu-r2-t1"),
        Undo(UndoKind.CGROUP, "/sys/fs/cgroup/../insitu-r1-t1"),
        Undo(UndoKind.CGROUP, "/sys/fs/cgroup/others"),
        Undo(UndoKind.VALUE, "/x/../value", prior="1", written="2"),
        Undo(UndoKind.PROCESS, "/proc/1", "1"),
    ],
    ids=str,
)
def test_what_a_recovery_would_leave_alone_cannot_be_intended(state: Path, undo: Undo) -> None:
    with Journal(state, HEADER) as journal:
        before = journal.path.read_bytes()
        with pytest.raises(NoJournal, match=r"what could not be undone is not begun: .*left alone"):
            journal.intend([Undo(UndoKind.FOLDER, "/x/insitu-r1-t1"), undo])
        assert journal.path.read_bytes() == before
    assert not journal.path.exists()


def test_closing_keeps_a_journal_with_something_left_to_undo(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        journal.intend([Undo(UndoKind.FOLDER, "/x/insitu-r1-t1")])
    assert journal.path.exists()
    journal.close()
    journal.path.unlink()


def test_a_second_journal_of_a_run_and_process_is_refused(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        with pytest.raises(NoJournal, match="File exists"):
            Journal(state, HEADER)
        assert read(journal.path).header == journal.header == HELD


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(dataclasses.asdict(HEADER) | {"format": 3}),
        json.dumps(dataclasses.asdict(HEADER) | {"unheard_of": 1}),
        json.dumps({"run": "r1"}),
        "[]",
        "7",
        "a shopping list",
        "\x00\xff",
        json.dumps(dataclasses.asdict(HEADER)) + "\n7",
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": 0, "undo": [{"kind": "format-disk"}]}',
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"neither": 0}',
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": 0, "undo": [{"kind": "folder", "path": 7}]}',
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": 0, "undo": [7], "settings": []}',
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": "x", "undo": [], "settings": []}' * 2,
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": 0, "undo": [], "settings": [7]}',
        json.dumps(dataclasses.asdict(HEADER)) + "\n" + "[" * 100_000,
        json.dumps(dataclasses.asdict(HEADER) | {"owner_pid": "1"}),
        json.dumps(dataclasses.asdict(HEADER) | {"boot": None}),
        json.dumps(dataclasses.asdict(HEADER) | {"run": ""}),
        json.dumps(dataclasses.asdict(HEADER) | {"run": "../r1"}),
    ],
)
def test_a_newer_or_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    path.write_text(content + "\n", encoding="latin-1")
    with pytest.raises(ForeignState, match="not a journal that this version can read"):
        read(path)
    assert path.read_text(encoding="latin-1") == content + "\n"


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_full_disk_fails_the_intent_and_spoils_nothing_else(state: Path, room: int) -> None:
    kept, refused = Undo(UndoKind.FOLDER, "/x/insitu-r1-t1"), Undo(UndoKind.FOLDER, "/x/insitu-r1-t2")
    with Journal(state, HEADER) as journal:
        first = journal.intend([kept])
        full = pytest.raises(NoJournal, match=f"the disk of the state folder {state} is full")
        with no_file_larger_than(os.path.getsize(journal.path) + room), full:
            journal.intend([refused])
        assert read(journal.path).pending == (kept,)
        second = journal.intend([refused])
        assert read(journal.path).pending == (refused, kept)
        journal.done(second)
        journal.done(first)


def test_trying_out_a_folder_leaves_it_empty_or_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    with no_file_larger_than(4096), pytest.raises(NoJournal, match="is full"):
        try_out(folder)
    assert list(tmp_path.iterdir()) == []
    try_out(folder)
    assert list(folder.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(NoJournal, match=f"no journal can be kept in {tmp_path}/file: "):
        try_out(tmp_path / "file")


@pytest.mark.root
def test_a_folder_that_the_user_may_not_reach_is_refused(tmp_path: Path) -> None:
    (closed := tmp_path / "closed").mkdir(mode=0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(NoJournal, match=f"no journal can be kept in {closed}/deep/state: Permission denied"):
            try_out(closed / "deep" / "state")
    finally:
        os.seteuid(0)


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has none, such as a network one whose lock service does not run."""

    def flock(descriptor: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_a_folder_whose_journals_could_not_be_claimed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match=r"no journal can be kept in .*/state: No locks available"):
        try_out(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_locks")
def test_a_claim_that_fails_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    path.touch()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No locks available"), Claim(path):
        pass
    assert os.listdir("/proc/self/fd") == before


def test_one_recovery_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    path.touch()
    with Claim(path) as first, Claim(path) as second:
        assert first.held
        assert not second.held
    with Claim(path) as third, Claim(tmp_path / "absent") as absent:
        assert third.held
        assert not absent.held


def test_a_journal_that_is_deleted_while_another_waits_for_it_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    path.touch()
    flock = fcntl.flock

    def flock_after_the_other(descriptor: int, operation: int) -> None:
        path.rename(tmp_path / "deleted")
        path.touch()  # and somebody has made another
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_the_other)
    with Claim(path) as late:
        assert not late.held


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), lambda path: path.mkdir()])
def test_what_is_no_file_is_not_claimed(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    make(path)
    with pytest.raises(ForeignState, match="left alone"), Claim(path):
        pass


def test_marks_of_a_recovery_do_not_join_a_torn_line(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        numbers = [journal.intend([Undo(UndoKind.FOLDER, f"/x/insitu-r1-{name}")]) for name in "ab"]
        with journal.path.open("a") as file:
            file.write('{"intent": 7')
        with Claim(journal.path) as claim:
            claim.mark_done(numbers[:1])
            assert [intent.number for intent in claim.entries().intents] == numbers[1:]
            claim.mark_done(numbers[1:])
        assert read(journal.path) == Entries(journal.header)
    journal.path.unlink()


def test_the_owner_of_a_header(state: Path) -> None:
    assert HEADER.owner_is_alive()
    assert not dataclasses.replace(HEADER, boot="another").owner_is_alive()
    assert not dataclasses.replace(HEADER, owner_start="1").owner_is_alive()
    assert not dataclasses.replace(HEADER, owner_pid=2**22 + 1, owner_start="").owner_is_alive()


def test_a_boot_that_may_last_is_one_of_another_machine() -> None:
    other, earlier = dataclasses.replace(HELD, machine="node-a 0123"), dataclasses.replace(HELD, boot="another")
    assert (other.of_other_machine, earlier.of_other_machine) == (False, False)
    shared = dataclasses.replace(other, boot="another")
    assert (shared.of_other_machine, shared.node) == (True, "node-a")
    assert not dataclasses.replace(shared, machine="").of_other_machine


@pytest.mark.root
def test_machines_of_one_image_are_told_apart_by_their_names() -> None:
    ask = [sys.executable, "-c", "from insitu.injectors.journal import machine; print(machine())"]
    rename = ["unshare", "--uts", "sh", "-c", 'hostname node-a && exec "$@"', "sh"]
    told = [subprocess.run([*before, *ask], capture_output=True, text=True, check=True) for before in ([], rename)]
    here, there = (done.stdout.rstrip("\n") for done in told)
    assert here == machine()
    assert there.partition(" ") == ("node-a", " ", here.partition(" ")[2])


def test_where_journals_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSITU_STATE", str(tmp_path / "chosen"))
    assert state_folder() == tmp_path / "chosen"
    monkeypatch.delenv("INSITU_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder() == Path("/var/lib/insitu")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state_folder() == tmp_path / "insitu"


def test_where_journals_live_does_not_depend_on_the_working_directory_of_a_guard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSITU_STATE", "chosen")
    assert state_folder() == tmp_path / "chosen"
    monkeypatch.delenv("INSITU_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "insitu"
