"""A real guard: whoever is killed, stopped or hangs, the node is clean again within the lease and one second."""

from __future__ import annotations

import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from insitu.injectors import guard
from insitu.injectors.guard import LEASE_S, End
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease, NoGuard
from insitu.injectors.processes import Process, start_time
from insitu.injectors.recovery import Fate, journals, recover_all, recover_journal
from insitu.injectors.undo import Undo, UndoKind
from tests.injectors.holder import Holder, guards_of

RUN = f"guardtest{os.getpid()}"
PROMISED_S = LEASE_S + 1.0
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

Begin = Callable[..., Holder]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Makes holders, and ends them."""
    holders: list[Holder] = []

    def begin(owner: int = 0, *, endures_silence: bool = False) -> Holder:
        holders.append(Holder(RUN, tmp_path / f"insitu-{RUN}-t1", owner, endures_silence=endures_silence))
        return holders[-1]

    yield begin
    for one in holders:
        one.end()


def wait_for(condition: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


def assert_clean_in_time(one: Holder, state: Path) -> None:
    deadline = time.monotonic() + PROMISED_S
    while (one.left() or journals(state)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert one.left() == []
    assert journals(state) == ()


def assert_ended_by_its_guard(one: Holder, reason: End) -> None:
    assert one.process.wait(timeout=10) == -signal.SIGKILL
    assert one.notice.read_text() == reason


def only_guard(state: Path) -> int:
    wait_for(lambda: len(guards_of(state)) == 1)
    (pid,) = guards_of(state)
    return pid


def test_a_killed_holder_leaves_nothing_though_a_child_of_it_keeps_the_pipe(begin: Begin, state: Path) -> None:
    one = begin()
    assert one.left()
    one.process.kill()
    assert_clean_in_time(one, state)
    assert not one.notice.exists()


def test_a_stopped_holder_is_ended_and_leaves_nothing(begin: Begin, state: Path) -> None:
    one = begin()
    one.process.send_signal(signal.SIGSTOP)
    assert_clean_in_time(one, state)
    assert_ended_by_its_guard(one, End.SILENCE)


def test_a_stopped_holder_that_is_killed_leaves_nothing(begin: Begin, state: Path) -> None:
    one = begin()
    one.process.send_signal(signal.SIGSTOP)
    one.process.kill()
    assert_clean_in_time(one, state)


def test_a_holder_that_is_past_its_limit_is_ended_though_it_renews(begin: Begin, state: Path) -> None:
    one = begin()
    one.tell("limit 0.3")
    assert_clean_in_time(one, state)
    assert_ended_by_its_guard(one, End.DEADLINE)


def test_a_limit_that_was_kept_is_forgotten_and_a_busy_holder_renews(begin: Begin, state: Path) -> None:
    one = begin()
    before = one.left()
    one.tell("limit-and-return 0.2")
    one.tell(f"busy {LEASE_S + 0.5}")
    assert one.process.poll() is None
    assert one.left() == before


def test_a_killed_owner_leaves_nothing_nor_its_holder(begin: Begin, state: Path) -> None:
    with subprocess.Popen(SLEEP) as owner:
        try:
            one = begin(owner=owner.pid)
        finally:
            owner.kill()
    assert_clean_in_time(one, state)
    assert one.process.wait(timeout=10) == -signal.SIGKILL


def test_a_holder_that_endures_silence_may_be_stopped_but_not_killed(begin: Begin, state: Path) -> None:
    one = begin(endures_silence=True)
    before = one.left()
    one.process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_S + 0.5)
    assert one.left() == before
    one.process.send_signal(signal.SIGCONT)
    one.process.kill()
    assert_clean_in_time(one, state)


def test_a_lease_that_is_left_while_something_is_held_keeps_its_guard(begin: Begin, state: Path) -> None:
    one = begin()
    before, first = one.left(), only_guard(state)
    one.tell("leave")
    time.sleep(LEASE_S + 0.5)
    assert one.process.poll() is None
    assert one.left() == before
    assert only_guard(state) == first
    one.process.kill()
    assert_clean_in_time(one, state)


@pytest.mark.parametrize("closed_by", ["its holder", "the lease"])
def test_a_lease_whose_journal_holds_nothing_any_more_dismisses_its_guard(state: Path, closed_by: str) -> None:
    journal = Journal(state, Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), ""))
    intent = journal.intend([Undo(UndoKind.FOLDER, f"/nowhere/insitu-{RUN}-t1")])
    with Lease(journal):
        only_guard(state)
        journal.done(intent)
        if closed_by == "its holder":
            journal.close()
    assert journals(state) == ()
    wait_for(lambda: not guards_of(state))


KILLED_AS_IT_CLOSES = f"""
import os, signal
from insitu.injectors import journal
from insitu.injectors.lease import Lease
from insitu.injectors.processes import start_time
from insitu.injectors.state_folder import state_folder

pid = os.getpid()
header = journal.Header({RUN!r}, pid, start_time(pid), journal.boot_id(), "")
with journal.Journal(state_folder(), header) as one, Lease(one):
    journal.sync_folders = lambda folders: os.kill(pid, signal.SIGKILL)
"""


def test_a_holder_that_is_killed_before_it_could_delete_its_journal_leaves_none(state: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_AS_IT_CLOSES], check=False)
    assert killed.returncode == -signal.SIGKILL
    wait_for(lambda: not journals(state), within_s=PROMISED_S)
    wait_for(lambda: not guards_of(state))


UNGUARDED = f"""
import os, sys, time
from pathlib import Path
from insitu.injectors import journal
from insitu.injectors.processes import start_time
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Undo, UndoKind

pid = os.getpid()
header = journal.Header({RUN!r}, pid, start_time(pid), journal.boot_id(), "")
with journal.Journal(state_folder(), header) as one:
    one.intend([Undo(UndoKind.FOLDER, sys.argv[1])])
    os.mkdir(sys.argv[1])
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_guard_of_an_agent_undoes_what_its_command_held_that_was_killed_with_its_guard(
    begin: Begin, state: Path, tmp_path: Path
) -> None:
    held = [tmp_path / f"insitu-{RUN}-{name}" for name in ("command", "other")]
    with ExitStack() as stack:
        command, other = (
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", UNGUARDED, str(folder)], stdout=subprocess.PIPE, text=True)
            )
            for folder in held
        )
        for process in (command, other):
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
        one = begin(owner=command.pid)
        command.kill()
        wait_for(lambda: not held[0].exists() and len(journals(state)) == 1, within_s=PROMISED_S)
        assert one.left() == []
        wait_for(lambda: not guards_of(state))
        assert held[1].exists()  # of a command that lives, which executes a copy of the run
        assert other.poll() is None
    assert [outcome.fate for outcome in recover_all()] == [Fate.CLEAN]


def test_a_killed_guard_is_replaced_at_once_and_its_limit_with_it(begin: Begin, state: Path) -> None:
    one = begin()
    one.tell("limit 3")
    first = only_guard(state)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: [pid for pid in guards_of(state) if pid != first], within_s=1.0)
    assert one.process.poll() is None
    assert one.left()
    wait_for(lambda: not one.left() and not journals(state), within_s=3.0 + 1.0)
    assert_ended_by_its_guard(one, End.DEADLINE)


def test_the_replacement_of_a_guard_undoes_as_well(begin: Begin, state: Path) -> None:
    one = begin()
    first = only_guard(state)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: first not in guards_of(state) and len(guards_of(state)) == 1)
    time.sleep(0.3)  # a guard that is being started has the command line already
    one.process.kill()
    assert_clean_in_time(one, state)


def test_a_guard_that_was_stopped_and_continued_undoes_nothing(begin: Begin, state: Path) -> None:
    one = begin()
    first, before = only_guard(state), one.left()
    os.kill(first, signal.SIGSTOP)
    time.sleep(LEASE_S / 2)
    os.kill(first, signal.SIGCONT)
    time.sleep(LEASE_S)
    assert guards_of(state) == [first]
    assert one.process.poll() is None
    assert one.left() == before


def test_a_guard_that_stays_stopped_is_replaced_and_leaves_when_it_wakes(begin: Begin, state: Path) -> None:
    one = begin()
    first, before = only_guard(state), one.left()
    os.kill(first, signal.SIGSTOP)
    wait_for(lambda: len(guards_of(state)) == 2)
    os.kill(first, signal.SIGCONT)
    wait_for(lambda: first not in guards_of(state))
    assert one.process.poll() is None
    assert one.left() == before
    one.process.kill()
    assert_clean_in_time(one, state)


def test_with_its_guard_stopped_for_good_a_killed_holder_leaves_nothing(begin: Begin, state: Path) -> None:
    one = begin()
    first = only_guard(state)
    os.kill(first, signal.SIGSTOP)
    try:
        wait_for(lambda: len(guards_of(state)) == 2)
        time.sleep(0.3)
        one.process.kill()
        assert_clean_in_time(one, state)
    finally:
        os.kill(first, signal.SIGCONT)


@pytest.mark.parametrize("attempt", range(6))
def test_killed_while_its_guard_is_replaced_recover_finishes(begin: Begin, state: Path, attempt: int) -> None:
    one = begin()
    os.kill(only_guard(state), signal.SIGKILL)
    time.sleep(random.Random(attempt).uniform(0, 0.15))
    one.process.kill()
    one.process.wait()
    for path in journals(state):
        while recover_journal(path).fate is Fate.BUSY:
            time.sleep(0.01)
    assert one.left() == []
    assert journals(state) == ()
    wait_for(lambda: not guards_of(state))


def test_no_guard_to_be_had_is_said(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal, Lease(journal) as lease:
        first = only_guard(state)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nowhere/python")
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: start_time(first) == "")
            with pytest.raises(NoGuard, match="no guard can be started"):
                lease.require_guard()
        lease.require_guard()
        assert only_guard(state) != first


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """This process cannot open anything; what it has open stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest_free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors_no_guard_is_had_and_the_lease_goes_on(state: Path) -> None:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal:
        with no_more_descriptors(), pytest.raises(NoGuard, match="Too many open files"), Lease(journal):
            pass
        with Lease(journal) as lease:
            first = Process.of(only_guard(state))
            watched = first.open()
            assert watched is not None
            with no_more_descriptors():
                os.kill(first.pid, signal.SIGKILL)
                poller = select.poll()
                poller.register(watched, select.POLLIN)
                assert poller.poll(10_000)
                time.sleep(LEASE_S / 2)  # for the lease's thread to fail, too
                with pytest.raises(NoGuard, match="Too many open files"):
                    lease.require_guard()
            os.close(watched)
            wait_for(lambda: guards_of(state))


def test_a_relative_state_folder_is_found_by_the_guard(
    begin: Begin, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSITU_STATE", state.name)
    one = begin()
    assert one.left()
    one.process.kill()
    assert_clean_in_time(one, state)


def test_who_is_gone_before_the_guard_looks() -> None:
    with subprocess.Popen(SLEEP) as process:
        dead = Process(process.pid, start_time(process.pid))
        process.kill()
    ours, theirs = os.pipe2(os.O_NONBLOCK)
    try:
        assert guard.watch(ours, Process.current(), dead, LEASE_S) is End.OWNER
        assert guard.watch(ours, dead, Process.current(), LEASE_S) is End.HOLDER
        assert guard.watch(ours, Process.current(), Process.current(), LEASE_S, dead) is End.KEEPER
        os.write(theirs, b"renew\nfarewell\n")
        assert guard.watch(ours, dead, dead, LEASE_S) is None
    finally:
        os.close(ours)
        os.close(theirs)
