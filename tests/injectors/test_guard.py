"""A real guard: whoever is killed, the node is clean again within the lease and one second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.guard import LEASE_S
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import journals
from insitu.injectors.undo import Undo, UndoKind

RUN = f"guardtest{os.getpid()}"
PROMISED_S = LEASE_S + 1.0

AGENT = """
import os, sys, time
from pathlib import Path
from insitu.injectors import cgroups, guard
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind
run, folder, farewell, owner = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) or os.getpid()
state = Path(os.environ["INSITU_STATE"])
journal = Journal(state, Header(run, owner, start_time(owner), boot_id(), ""))
controllers = ("cpu", "pids") if os.geteuid() == 0 else ()
plan = cgroups.plan_group(cgroups.discover(), f"insitu-{run}-t1", controllers)
undos = [Undo(UndoKind.CGROUP, str(path)) for path in plan.paths] + [Undo(UndoKind.FOLDER, str(folder))]
lease = guard.start(journal.path, owner, start_time(owner))
journal.intend(undos)
cgroups.create(plan)
folder.mkdir()
subject = os.fork()
if subject == 0:
    os.close(lease.pipe)
    for path in plan.paths:
        (path / "cgroup.procs").write_text("0")
    while True:
        time.sleep(60)
for path in plan.paths:
    while (path / "cgroup.procs").read_text().split() != [str(subject)]:
        time.sleep(0.001)
print(subject, *plan.paths, flush=True)
if farewell == "farewell":
    sys.stdin.readline()
    with lease:
        pass
sys.stdin.readline()
"""


class Agent:
    """A process that holds a lease, with a group, a folder and a subject."""

    def __init__(self, folder: Path, farewell: bool, owner: int) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, RUN, str(folder), "farewell" if farewell else "", str(owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        subject, *groups = self.process.stdout.readline().split()
        self.subject, self.groups = int(subject), [Path(group) for group in groups]

    def left(self) -> list[str]:
        """What of it is still there."""
        there = [str(path) for path in (*self.groups, self.folder) if path.exists()]
        # without control groups the subject ends with its sandbox, which this agent has none of
        return there + [f"process {self.subject}" for _ in "x" if self.groups and start_time(self.subject)]

    def end(self) -> None:
        self.process.kill()
        if start_time(self.subject):  # it has the pipe, too, and would keep it open
            os.kill(self.subject, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def begin(farewell: bool = False, owner: int = 0) -> Agent:
        agents.append(Agent(tmp_path / f"insitu-{RUN}-t1", farewell, owner))
        return agents[-1]

    yield begin
    for one in agents:
        one.end()


def wait_until_clean(agent: Agent, state: Path) -> None:
    deadline = time.monotonic() + PROMISED_S
    while (agent.left() or journals(state)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert agent.left() == []
    assert journals(state) == ()


def test_a_killed_agent_leaves_nothing(agent: Callable[..., Agent], state: Path) -> None:
    one = agent()
    assert one.left()
    one.process.kill()
    wait_until_clean(one, state)


def test_a_killed_owner_leaves_nothing_even_while_the_agent_lives(
    agent: Callable[..., Agent], state: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as owner:
        try:
            one = agent(owner=owner.pid)
        finally:
            owner.kill()
    deadline = time.monotonic() + PROMISED_S
    while one.left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert one.left() == []
    assert one.process.poll() is None
    assert journals(state) != (), "the agent may still write an intent"
    one.process.kill()
    wait_until_clean(one, state)


def test_a_stopped_agent_that_is_killed_leaves_nothing(agent: Callable[..., Agent], state: Path) -> None:
    one = agent()
    one.process.send_signal(signal.SIGSTOP)
    one.process.kill()
    wait_until_clean(one, state)


def test_after_a_farewell_nothing_is_undone(agent: Callable[..., Agent], state: Path) -> None:
    one = agent(farewell=True)
    before = one.left()
    assert one.process.stdin is not None
    one.process.stdin.write("\n")
    one.process.stdin.flush()
    deadline = time.monotonic() + 10
    while guards_of(state) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert guards_of(state) == []
    one.process.kill()
    one.process.wait()
    assert one.left() == before
    (journal,) = journals(state)
    journal.unlink()
    for group in one.groups:
        cgroups.remove(group)
    one.folder.rmdir()


def guards_of(state: Path) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"insitu.injectors.guard" in command and os.fsencode(state) in command:
                found.append(int(entry.name))
    return found


def test_a_lease_knows_whether_its_guard_lives(state: Path) -> None:
    own = start_time(os.getpid())
    with Journal(state, Header(RUN, os.getpid(), own, boot_id(), "")) as journal:
        with start(journal.path, os.getpid(), own) as lease:
            assert lease.alive()
            (pid,) = guards_of(state)
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while lease.alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not lease.alive()
        with start(journal.path, os.getpid(), own) as another:
            assert another.alive()


def test_an_owner_that_is_gone_before_the_guard_looks_is_undone_at_once(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / f"insitu-{RUN}-t1"
    folder.mkdir()
    journal = Journal(state, Header(RUN, 2**22 + 1, "1", boot_id(), ""))
    journal.intend([Undo(UndoKind.FOLDER, str(folder))])
    with start(journal.path, 2**22 + 1, "1"):
        deadline = time.monotonic() + PROMISED_S
        while folder.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not folder.exists()
        while journal.path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not journal.path.exists()
    with pytest.raises(FileNotFoundError):
        journal.close()
