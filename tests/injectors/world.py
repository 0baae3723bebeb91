"""A small world in a folder: a writer that journals, makes and undoes things in it, and what must hold there.

Marked folders, values of the host and processes are real; the calls that change them are stepped (`stepped`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from insitu.injectors import host_value, recovery
from insitu.injectors import journal as journals
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.processes import Process
from insitu.injectors.undo import Undo, UndoKind, carry_out_each
from tests.injectors.stepped import Stepped

RUN = "model"
VALUES = 2
OURS, PRIOR, THEIRS = "ours", "prior", "theirs"
TESTS = Process.current()
NOBODY = Process(2**22 + 1, "1")


@dataclass(frozen=True, slots=True)
class Push:
    """Journal and make one thing; `length` is that of a value's text."""

    kind: UndoKind
    which: int = 0
    length: int = 4


@dataclass(frozen=True, slots=True)
class Pop:
    """Undo the latest thing that is left, and mark it done."""


Step = Push | Pop


class World:
    """The folder, and everybody in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="world-"))
        self.state = self.folder / "state"
        self.values = [self.folder / f"value-{number}" for number in range(VALUES)]
        self.foreign_changes: dict[Path, str] = {}
        for number, path in enumerate(self.values):
            path.write_text(f"{PRIOR}-{number}\n")
        (self.folder / "insitu-another-t1").mkdir()
        (self.folder / "insitu-another-t1/precious").write_text("kept")
        (self.folder / "precious").write_text("kept")
        self.bystander = os.fork()
        if self.bystander == 0:
            _be_nobody(-1)
        self._bystander = Process.of(self.bystander)
        self.boot = boot_id()
        self._durable = 0

    def close(self) -> None:
        os.kill(self.bystander, signal.SIGKILL)
        os.waitpid(self.bystander, 0)
        for process in self.marked_processes():
            os.kill(process.pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    # what the actors do

    def writer(self, steps: Sequence[Step], owner: Process | None = None) -> Stepped:
        """An agent; its own owner unless another is given."""
        return Stepped(lambda: _write(self, steps, owner or Process.current()))

    def recoverer(self) -> Stepped:
        """Somebody who recovers every journal once, and tells what became of each."""

        def recover() -> list[str]:
            journals.boot_id = lambda: self.boot
            found = recovery.journals(self.state)
            return [str(recovery.recover_journal(path).fate) for path in found]

        return Stepped(recover)

    def saw(self, call: str) -> None:
        """A call of the writer that has been made; keeps how much of its journal a power failure would leave."""
        if call in ("fsync", "fdatasync") and (path := self.journal_path()):
            self._durable = path.stat().st_size

    # what happens to them

    def power_failure(self, cut: Callable[[int, int], int], *, values_reset: bool) -> None:
        """Processes are gone; of the journal's end that was not durable, a part.

        Parameters
        ----------
        cut
            Chooses a size between the durable one and that of the file.
        values_reset
            The values are the kernel's, which has set them anew.
        """
        for process in self.marked_processes():
            process.end()
        if path := self.journal_path():
            size = path.stat().st_size
            os.truncate(path, cut(min(self._durable, size), size))
        if values_reset:
            for number, value in enumerate(self.values):
                value.write_text(f"{PRIOR}-{number}\n")
            self.foreign_changes.clear()
        self.boot = "another"

    def change_by_somebody_else(self, number: int) -> None:
        path = self.values[number]
        path.write_text(f"{THEIRS}-{len(self.foreign_changes)}\n")
        self.foreign_changes[path] = path.read_text()

    # what there is

    def journal_path(self) -> Path | None:
        found = recovery.journals(self.state)
        assert len(found) <= 1
        return found[0] if found else None

    def marked_folders(self) -> list[Path]:
        return sorted(self.folder.glob(f"insitu-{RUN}-*"))

    def changed_values(self) -> list[Path]:
        return [path for path in self.values if path.read_text().startswith(OURS)]

    def marked_processes(self) -> list[Process]:
        """Those that a writer has made and let loose."""
        found: list[Process] = []
        for path in self.folder.glob("process-*"):
            pid, started = path.read_text().split()
            if (process := Process(int(pid), started)).alive():
                found.append(process)
        return found

    def disputed_values(self) -> set[Path]:
        """Those that are to be put back, and that somebody else has changed since."""
        path = self.journal_path()
        pending = read(path).pending if path else ()
        return {Path(undo.path) for undo in pending} & set(self.foreign_changes)

    # what must hold

    def assert_journalled(self) -> None:
        """No effect of an intent exists without its record."""
        path = self.journal_path()
        entries = read(path) if path else None
        pending = entries.pending if entries else ()
        recorded = {undo.path for undo in pending}
        there = [*self.marked_folders(), *self.changed_values()]
        assert {str(path) for path in there} <= recorded
        assert {f"/proc/{process.pid}" for process in self.marked_processes()} <= recorded

    def assert_clean(self) -> None:
        """Nothing of ours is left."""
        assert self.marked_folders() == []
        assert self.marked_processes() == []
        for number, path in enumerate(self.values):
            assert path.read_text() == self.foreign_changes.get(path, f"{PRIOR}-{number}\n")

    def assert_others_untouched(self) -> None:
        assert (self.folder / "insitu-another-t1/precious").read_text() == "kept"
        assert (self.folder / "precious").read_text() == "kept"
        assert self._bystander.alive()
        for path, text in self.foreign_changes.items():
            assert path.read_text() == text


def _write(world: World, steps: Sequence[Step], owner: Process) -> str:
    header = Header(RUN, owner.pid, owner.started, boot_id(), "")
    made: list[tuple[int, tuple[Undo, ...]]] = []
    with Journal(world.state, header) as journal:
        for number, step in enumerate([*steps, *[Pop()] * len(steps)]):
            if isinstance(step, Push):
                made.append(_make(world, journal, step, number))
            elif made:
                intent, undos = made.pop()
                failures = [result.failure for result in carry_out_each(undos, header.ownership) if result.failure]
                if failures:
                    return "; ".join(failures)
                journal.done(intent)
    return "done"


def _make(world: World, journal: Journal, step: Push, number: int) -> tuple[int, tuple[Undo, ...]]:
    match step.kind:
        case UndoKind.VALUE:
            path = world.values[step.which]
            prior = host_value.read_value(path)
            text = OURS + f"{number:x}" * step.length
            undo = Undo(UndoKind.VALUE, str(path), prior=prior, written=text)
            intent = journal.intend([undo], [f"{path} = {text}"])
            host_value.write_value(path, text)
        case UndoKind.PROCESS:
            pid, release = _fork_leashed()
            process = Process.of(pid)
            undo = Undo(UndoKind.PROCESS, f"/proc/{pid}", process.started)
            intent = journal.intend([undo])
            (world.folder / f"process-{pid}").write_text(f"{pid} {process.started}")
            os.write(release, b"go")
            os.close(release)
        case _:
            folder = world.folder / f"insitu-{RUN}-t{number}"
            undo = Undo(UndoKind.FOLDER, str(folder))
            intent = journal.intend([undo])
            folder.mkdir()
            (folder / "inner").mkdir()
            (folder / "inner/file").write_text("made by the subject")
    return intent, (undo,)


def _fork_leashed() -> tuple[int, int]:
    """A process that ends with its maker until it is let loose."""
    leash, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_nobody(leash)
    os.close(leash)
    return pid, release


def _be_nobody(leash: int) -> NoReturn:
    """Hold no pipe of anybody's; wait for the leash to be cut, then for the end of the tests."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != leash:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    if leash >= 0 and not os.read(leash, 2):
        os._exit(0)
    while TESTS.alive():
        time.sleep(0.5)
    os._exit(0)
