"""The journal reads back exactly what was durable, wherever it was cut off."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.injectors.errors import ForeignState
from insitu.injectors.journal import Header, Journal, Locked, boot_id, read, state_folder
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind

HEADER = Header("r1", os.getpid(), start_time(os.getpid()), boot_id(), "/runs/r1")
UNDOS = st.builds(Undo, st.sampled_from(UndoKind), st.text(max_size=20), st.text("0123456789", max_size=6))
STEPS = st.lists(st.lists(UNDOS, max_size=3) | st.integers(0, 9), max_size=12)
"""A list of undos is an intent; a number marks the intent of that number done, if there is one."""


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="journal-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def latest_first(open_intents: dict[int, tuple[Undo, ...]]) -> tuple[Undo, ...]:
    return tuple(undo for number in sorted(open_intents, reverse=True) for undo in open_intents[number])


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
                intents[journal.intend(step, ["cpu.max = 1 2"])] = tuple(step)
            elif step in intents:
                journal.done(step)
                del intents[step]
            durable.append((os.path.getsize(journal.path), latest_first(intents)))
        assert read(journal.path) == dataclasses.replace(read(journal.path), pending=latest_first(intents))
        content = journal.path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        torn = state / "torn"
        torn.write_bytes(content[:cut])
        entries = read(torn)
        if cut < durable[0][0]:
            assert entries.header is None
            assert entries.pending == ()
        else:
            assert entries.header == HEADER
            assert entries.pending == [pending for size, pending in durable if size <= cut][-1]
        journal.close()
        assert journal.path.exists() == bool(latest_first(intents))


def test_an_intent_is_on_disk_before_it_returns(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        number = journal.intend([Undo(UndoKind.FOLDER, "/x/insitu-r1-t1")])
        assert read(journal.path).pending == (Undo(UndoKind.FOLDER, "/x/insitu-r1-t1"),)
        assert journal.path.stat().st_mode & 0o777 == 0o600
        assert state.stat().st_mode & 0o777 == 0o700
        journal.done(number)


def test_closing_keeps_a_journal_with_something_left_to_undo(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        journal.intend([Undo(UndoKind.FOLDER, "/x/insitu-r1-t1")])
    assert journal.path.exists()
    journal.close()
    journal.path.unlink()


def test_a_second_journal_of_a_run_and_process_is_refused(state: Path) -> None:
    with Journal(state, HEADER) as journal:
        with pytest.raises(FileExistsError):
            Journal(state, HEADER)
        assert read(journal.path).header == HEADER


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(dataclasses.asdict(HEADER) | {"format": 2}),
        json.dumps(dataclasses.asdict(HEADER) | {"unheard_of": 1}),
        json.dumps({"run": "r1"}),
        "[]",
        "7",
        "a shopping list",
        "\x00\xff",
        json.dumps(dataclasses.asdict(HEADER)) + "\n7",
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"intent": 0, "undo": [{"kind": "format-disk"}]}',
        json.dumps(dataclasses.asdict(HEADER)) + '\n{"neither": 0}',
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
        with no_file_larger_than(os.path.getsize(journal.path) + room), pytest.raises(OSError):  # noqa: PT011
            journal.intend([refused])
        assert read(journal.path).pending == (kept,)
        second = journal.intend([refused])
        assert read(journal.path).pending == (refused, kept)
        journal.done(second)
        journal.done(first)


def test_one_recovery_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "insitu-r1-1.journal"
    path.touch()
    with Locked(path) as first, Locked(path) as second:
        assert first.held
        assert not second.held
    with Locked(path) as third, Locked(tmp_path / "absent") as absent:
        assert third.held
        assert not absent.held


def test_the_owner_of_a_header(state: Path) -> None:
    assert HEADER.owner_is_alive()
    assert not dataclasses.replace(HEADER, boot="another").owner_is_alive()
    assert not dataclasses.replace(HEADER, owner_start="1").owner_is_alive()
    assert not dataclasses.replace(HEADER, owner_pid=2**22 + 1, owner_start="").owner_is_alive()


def test_where_journals_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSITU_STATE", str(tmp_path / "chosen"))
    assert state_folder() == tmp_path / "chosen"
    monkeypatch.delenv("INSITU_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder() == Path("/var/lib/insitu")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state_folder() == tmp_path / "insitu"
