"""Other runs on this node, by their journals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.neighbours import before, other_runs
from insitu.injectors.processes import start_time


@pytest.fixture
def processes() -> Iterator[list[int]]:
    """Three processes that live, the first the oldest."""
    with ExitStack() as stack:
        found = []
        for _ in range(3):
            process = stack.enter_context(subprocess.Popen(["sleep", "1000"]))
            stack.callback(process.kill)
            found.append(process.pid)
        yield found


def header(run: str, pid: int, boot: str = "") -> Header:
    return Header(run, pid, start_time(pid) or "1", boot or boot_id(), f"/runs/{run}")


def leave_journal(folder: Path, owner: Header) -> None:
    """A journal whose name is that of another process of the run."""
    with Journal(folder, owner) as journal:
        content = journal.path.read_bytes()
    (folder / f"insitu-{owner.run}-{owner.owner_pid}.journal").write_bytes(content)


def test_only_other_runs_that_live_count(tmp_path: Path, processes: list[int]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for owner in (
        header("mine", os.getpid()),
        header("one", processes[1]),
        header("two", processes[0]),
        header("dead", ended.pid),
        header("rebooted", processes[2], boot="another"),
    ):
        leave_journal(tmp_path, owner)
    (tmp_path / "insitu-torn-1.journal").write_bytes(b'{"run": "torn"')
    (tmp_path / "insitu-strange-2.journal").write_bytes(b"not a journal\n")
    assert [other.run for other in other_runs("mine", tmp_path)] == ["two", "one"]
    assert other_runs("mine", tmp_path / "nowhere") == ()


def test_a_run_with_two_journals_counts_once(tmp_path: Path, processes: list[int]) -> None:
    leave_journal(tmp_path, header("one", processes[0]))
    leave_journal(tmp_path, header("one", processes[1]))
    assert [other.run for other in other_runs("mine", tmp_path)] == ["one"]


def test_of_runs_that_begin_at_once_one_goes_first(processes: list[int]) -> None:
    headers = [header(f"run{number}", pid) for number, pid in enumerate(processes)]
    first = [own for own in headers if not before(own, [other for other in headers if other is not own])]
    assert first == headers[:1]
