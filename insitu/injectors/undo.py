"""Undo as data: what to put back, written before anything is changed, carried out by whoever comes first.

Every action is idempotent, checks that its object carries the run's mark, and verifies that it is gone.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState, InjectorError, UndoFailed


class UndoKind(StrEnum):
    """What an undo record puts back."""

    PROCESS = "process"
    """End a process, known by its pid and start time."""
    CGROUP = "cgroup"
    """End everything in a control group and remove it."""
    FOLDER = "folder"
    """Delete a folder of ours with what is in it, or a file."""


@dataclass(frozen=True, slots=True)
class Undo:
    """One action.

    Attributes
    ----------
    path
        Group or folder; for a process, ``/proc/<pid>``.
    started
        Of a process: its start time in clock ticks since boot.
    """

    kind: UndoKind
    path: str
    started: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


def carry_out(undo: Undo, owner: Ownership) -> None:
    """Put one thing back and verify it.

    Raises
    ------
    ForeignState
        If the object does not carry the owner's mark; it is left alone.
    UndoFailed
        If it is still there afterwards.
    """
    match undo.kind:
        case UndoKind.PROCESS:
            _end_process(int(Path(undo.path).name), undo.started)
        case UndoKind.CGROUP:
            _require_mark(undo.path, owner)
            cgroups.remove(Path(undo.path))
        case UndoKind.FOLDER:
            _require_mark(undo.path, owner)
            _delete(Path(undo.path))


def carry_out_all(undos: Sequence[Undo], owner: Ownership) -> tuple[str, ...]:
    """Carry out undos one after the other, whatever fails; gives the failures."""
    failures: list[str] = []
    for undo in undos:
        try:
            carry_out(undo, owner)
        except (InjectorError, OSError) as exc:
            failures.append(f"{undo}: {exc}")
    return tuple(failures)


def _require_mark(path: str, owner: Ownership) -> None:
    if not owner.owns(path):
        raise ForeignState(f"{path} does not carry the mark {owner.prefix}; left alone")


def start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, empty if there is none: pids are used again."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _end_process(pid: int, started: str) -> None:
    if not started or start_time(pid) != started:
        return
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError as exc:
        raise UndoFailed(f"process {pid} belongs to another user", "run insitu recover as that user") from exc
    deadline = time.monotonic() + 2.0
    while start_time(pid) == started:
        if time.monotonic() > deadline:
            raise UndoFailed(f"process {pid} does not end", "insitu recover")
        time.sleep(0.002)


def _delete(path: Path) -> None:
    if path.is_symlink():
        raise ForeignState(f"{path} is a link, not the folder that was made; left alone")
    try:
        os.rmdir(path)
        return
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink()
        return
    except OSError as exc:
        if exc.errno != errno.ENOTEMPTY:
            raise UndoFailed(f"cannot delete {path}: {exc.strerror}", "insitu recover") from exc
    shutil.rmtree(path, onerror=lambda _function, name, _error: _force(name))
    if path.exists():
        raise UndoFailed(f"{path} is still there", "insitu recover")


def _force(name: str) -> None:
    """A subject may have made folders that even their owner cannot list, in each other."""
    parent = os.path.dirname(name)
    try:
        os.chmod(parent, 0o700)
        if os.path.isdir(name) and not os.path.islink(name):
            os.chmod(name, 0o700)
            shutil.rmtree(name, onerror=lambda _function, inner, _: None if inner == name else _force(inner))
        elif os.path.lexists(name):
            os.unlink(name)
    except OSError:
        return  # verified by the caller
