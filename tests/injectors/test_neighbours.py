"""Other runs on this node, by their journals."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from insitu.injectors.contract import new_run_id
from insitu.injectors.errors import NoJournal, TwinExecutes
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.neighbours import begin, other_runs, refuse_twin
from insitu.injectors.processes import Process, start_time
from tests.injectors.holder import Holder


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


class Refused(Exception):
    """What a run is told that may not begin."""


def alone(others: Sequence[Header]) -> None:
    if others:
        raise Refused(", ".join(other.run for other in others))


def test_a_run_begins_with_its_journal_unless_it_is_refused(tmp_path: Path, processes: list[int]) -> None:
    folder = tmp_path / "not" / "there"
    with begin(header("first", processes[2]), alone, folder) as first:
        (written,) = folder.iterdir()
        assert written == first.path
        with pytest.raises(Refused, match="first"):  # though its process is the older one
            begin(header("second", processes[0]), alone, folder)
        assert list(folder.iterdir()) == [first.path]
    with begin(header("second", processes[0]), alone, folder):
        pass
    assert list(folder.iterdir()) == []


def test_a_run_is_refused_beside_a_copy_of_itself(tmp_path: Path, processes: list[int]) -> None:
    leave_journal(tmp_path, header("1a2b3c4d", processes[0]))
    there = list(tmp_path.iterdir())
    own = header("1a2b3c4d", os.getpid())
    with pytest.raises(TwinExecutes, match=f"a copy of this run is executing: process {processes[0]}, in /runs/"):
        begin(own, lambda _: None, tmp_path)
    assert list(tmp_path.iterdir()) == there
    refuse_twin("1a2b3c4d", header("1a2b3c4d", processes[0]).owner, tmp_path)  # it is no copy of its own
    refuse_twin("1a2b3c4", own.owner, tmp_path)
    leave_journal(tmp_path / "dead", header("1a2b3c4d", 2**22 + 1))
    with begin(own, lambda _: None, tmp_path / "dead"):
        pass


def test_a_copy_with_another_state_folder_is_seen_by_its_guard(state: Path, tmp_path: Path) -> None:
    run = new_run_id()
    holder = Holder(run, tmp_path / f"insitu-{run}-t1")
    try:
        told = f"a copy of this run is executing: process {holder.process.pid}, with the state folder {state}"
        with pytest.raises(TwinExecutes, match=told):
            refuse_twin(run, Process.current(), tmp_path / "elsewhere")
        (tmp_path / "link").symlink_to(state)
        refuse_twin(run, Process.of(holder.process.pid), tmp_path / "link")
        refuse_twin(new_run_id(), Process.current(), tmp_path / "elsewhere")
        holder.tell("leave")
    finally:
        holder.end()


def contend(folder: Path, gate: int, answer: int) -> None:
    """Begin a run once the gate is closed, tell whether that was allowed, and go on until killed."""
    os.read(gate, 1)
    try:
        begin(header(f"run{os.getpid()}", os.getpid()), alone, folder)
    except Refused:
        os.write(answer, b"-")
    else:
        os.write(answer, b"+")
    time.sleep(600)


def test_of_runs_that_begin_at_once_exactly_one_goes_on(tmp_path: Path) -> None:
    runs = 12
    gate, answers = os.pipe(), os.pipe()
    children = []
    try:
        for _ in range(runs):
            if not (child := os.fork()):
                try:
                    os.close(gate[1])
                    contend(tmp_path, gate[0], answers[1])
                finally:
                    os._exit(1)
            children.append(child)
        os.close(gate[1])
        told = b"".join(os.read(answers[0], 1) for _ in range(runs))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for descriptor in (gate[0], *answers):
            os.close(descriptor)
    assert sorted(told) == sorted(b"+" + b"-" * (runs - 1))
    assert len(list(tmp_path.iterdir())) == 1


HOLD = """\
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(1000)
"""


def test_a_run_that_is_stopped_while_it_begins_holds_up_others_for_a_while_only(
    tmp_path: Path, processes: list[int]
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(NoJournal, match=f"about to begin for 0.1 s, and holds {tmp_path}"):
            begin(header("mine", processes[0]), alone, tmp_path, within_s=0.1)
        assert list(tmp_path.iterdir()) == []
    finally:
        holder.kill()
        holder.communicate()
    with begin(header("mine", processes[0]), alone, tmp_path):
        pass


def test_where_folders_have_no_locks_a_file_has(
    tmp_path: Path, processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does: it locks only what is open for writing."""
    flock = fcntl.flock

    def flock_of_nfs(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    with begin(header("first", processes[0]), alone, tmp_path), pytest.raises(Refused, match="first"):
        begin(header("second", processes[1]), alone, tmp_path)
    with (tmp_path / "begin.lock").open("r+") as held:
        flock(held, fcntl.LOCK_EX)
        with pytest.raises(NoJournal, match="about to begin"):
            begin(header("second", processes[1]), alone, tmp_path, within_s=0.05)
