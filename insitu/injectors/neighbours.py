"""Other runs that execute on this node now, by their journals. Two runs on one node disturb each other.

A copy of a run directory has the id of the run that it was copied from, which is in the name of whatever is made
for it. So of a run and its copies, one at most may execute.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from insitu.injectors import inventory, journal, recovery
from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState, NoJournal, TwinExecutes
from insitu.injectors.journal import Header, Journal
from insitu.injectors.processes import Process
from insitu.injectors.state_folder import make_durable_folder, problem_named, state_folder

_LOOK_AGAIN_S = 0.01
_LOCK = "begin.lock"


def other_runs(run: str, folder: Path | None = None) -> tuple[Header, ...]:
    """One header per other run of this user whose owner is alive, the one that began first in front."""
    found: dict[str, Header] = {}
    for header in _alive(recovery.journals(folder)):
        if header.run != run:
            found.setdefault(header.run, header)
    return tuple(sorted(found.values(), key=_began))


def refuse_twin(run: str, owner: Process, folder: Path | None = None) -> None:
    """Refuse to execute a run that another process executes, by a copy of its directory; changes nothing.

    Parameters
    ----------
    owner
        The process that would execute it.

    Raises
    ------
    TwinExecutes
        If there is another one; with another state folder, too, as far as its guard can be seen from here.
    """
    here = (folder or state_folder()).resolve()
    mark = Ownership(run)
    for header in _alive(path for path in recovery.journals(here) if mark.owns(path)):
        if header.owner != owner:
            raise _twin(header.owner_pid, f"in {header.run_directory}")
    for guard, path in inventory.guards():
        if mark.owns(path) and path.parent.resolve() != here:
            twin = next(_alive([path]), None)
            raise _twin(twin.owner_pid if twin else guard.pid, f"with the state folder {path.parent}")


def _twin(pid: int, where: str) -> TwinExecutes:
    return TwinExecutes(
        f"a copy of this run is executing: process {pid}, {where}",
        "wait for it to end, or begin a run of its own with the same plan",
    )


def _alive(journals: Iterable[Path]) -> Iterator[Header]:
    """Headers of the journals whose owners live."""
    for path in journals:
        try:
            header = journal.read(path).header
        except (ForeignState, FileNotFoundError):  # not ours to read, or gone meanwhile
            continue
        if header is not None and header.owner_is_alive():
            yield header


def begin(
    header: Header, admit: Callable[[Sequence[Header]], None], folder: Path | None = None, within_s: float = 10.0
) -> Journal:
    """Write a run's journal, unless a copy of it executes, or `admit` refuses the other runs by raising.

    No other run can begin between the look and the journal: of several, the first to get here goes on, and
    every later one sees it.

    Parameters
    ----------
    within_s
        How long to wait for another run that is just doing the same; it takes as long as one flush to the disk.

    Raises
    ------
    NoJournal
        If the folder takes no journal, or another run has not got further in that time: it is stopped.
    TwinExecutes
        See `refuse_twin`.
    """
    here = folder or state_folder()
    with _alone(here, within_s):
        refuse_twin(header.run, header.owner, here)
        admit(other_runs(header.run, here))
        return Journal(here, header)


@contextmanager
def _alone(folder: Path, within_s: float) -> Iterator[None]:
    """Hold the folder itself: a lock that dies with the process and leaves no file behind.

    NFS locks only what is open for writing, which no folder can be: there it is a file, which stays.
    """
    with ExitStack() as stack:
        with problem_named(folder):
            make_durable_folder(folder)
            try:
                is_ours = _lock(_opened(folder, os.O_RDONLY | os.O_DIRECTORY, stack), within_s)
            except OSError as exc:
                if exc.errno != errno.EBADF:
                    raise
                is_ours = _lock(_opened(folder / _LOCK, os.O_RDWR | os.O_CREAT, stack), within_s)
            if not is_ours:
                raise NoJournal(
                    f"another run has been about to begin for {within_s:g} s, and holds {folder}",
                    f"it may be stopped; find it with `fuser -v {folder}`, and let it go on or end it",
                )
        yield


def _opened(path: Path, flags: int, stack: ExitStack) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _lock(descriptor: int, within_s: float) -> bool:
    """Whether it could be had in time: its holder may be stopped."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_AGAIN_S)
        else:
            return True


def _began(header: Header) -> tuple[int, int]:
    return int(header.owner_start or 0), header.owner_pid
