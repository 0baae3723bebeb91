"""A process that holds a lease, with a group, a folder and a subject: to be killed, stopped and kept waiting.

As a program: ``python -m tests.injectors.holder RUN FOLDER OWNER SILENCE NOTICE``; says what it has made, then
does what it is told on its standard input, line by line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.processes import command_of, start_time
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Undo, UndoKind

GUARD = "insitu.injectors.guard"


class Holder:
    """The process, from outside; `owner` is a pid, or 0 for the process itself."""

    def __init__(self, run: str, folder: Path, owner: int = 0, *, endures_silence: bool = False) -> None:
        self.folder = folder
        self.notice = folder.parent / "notice"
        words = [run, str(folder), str(owner), "endures" if endures_silence else "", str(self.notice)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        subject, *groups = self.read_line().split()
        self.subject, self.groups = int(subject), [Path(group) for group in groups]

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, words: str) -> str:
        """Have it do something, and wait until it has; gives its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        return self.read_line()

    def left(self) -> list[str]:
        """What of it is still there."""
        there = [str(path) for path in (*self.groups, self.folder) if path.exists()]
        # without control groups the subject ends with its sandbox, which this holder has none of
        return there + [f"process {self.subject}" for _ in "x" if self.groups and start_time(self.subject)]

    def end(self) -> None:
        self.process.kill()
        if start_time(self.subject):
            os.kill(self.subject, signal.SIGKILL)
        self.process.communicate()


def guards_of(state: Path) -> list[int]:
    """Guards with a journal in a state folder; not the process that starts one."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        command = command_of(int(name)) if name.isdigit() else ()
        if GUARD in command and any(Path(word).parent == state for word in command):
            found.append(int(name))
    return found


def main(run: str, folder: Path, owner: int, endures_silence: bool, notice: Path) -> None:
    owner = owner or os.getpid()
    controllers = ("cpu", "pids") if os.geteuid() == 0 else ()
    plan = cgroups.plan_group(cgroups.discover(), f"insitu-{run}-t1", controllers)
    undos = [Undo(UndoKind.CGROUP, str(path)) for path in plan.paths] + [Undo(UndoKind.FOLDER, str(folder))]
    with ExitStack() as stack:
        journal = Journal(state_folder(), Header(run, owner, start_time(owner), boot_id(), ""))
        lease = Lease(journal, endures_silence=endures_silence, notice=notice)
        stack.enter_context(lease)
        journal.intend(undos)
        cgroups.create(plan)
        folder.mkdir()
        subject = _fork_subject(plan)
        _say(f"{subject} {' '.join(map(str, plan.paths))}")
        for line in sys.stdin:
            _obey(line.split(), lease, stack)
            _say("done")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _obey(words: list[str], lease: Lease, stack: ExitStack) -> None:
    match words:
        case ["leave"]:
            stack.close()
        case ["limit", seconds]:
            stack.enter_context(lease.limited_to(float(seconds)))
        case ["limit-and-return", seconds]:
            with lease.limited_to(float(seconds)):
                pass
        case ["busy", seconds]:  # never gives the interpreter's lock away by itself
            deadline = time.monotonic() + float(seconds)
            while time.monotonic() < deadline:
                pass
        case ["require"]:
            lease.require_guard()
        case _:
            raise ValueError(words)


def _fork_subject(plan: cgroups.GroupPlan) -> int:
    """A member of the groups that has the holder's pipe open, too."""
    subject = os.fork()
    if subject == 0:
        for path in plan.paths:
            (path / "cgroup.procs").write_text("0")
        while True:
            time.sleep(60)
    for path in plan.paths:
        while (path / "cgroup.procs").read_text().split() != [str(subject)]:
            time.sleep(0.001)
    return subject


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), bool(sys.argv[4]), Path(sys.argv[5]))
