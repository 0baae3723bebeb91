"""Undo as data: what to put back, written before anything is changed, carried out by whoever comes first.

Every action is idempotent, checks that its object is ours (by the run's mark in its name, a process's start
time, or the text that we wrote), and verifies what it did.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from insitu.injectors import cgroups, deletion, host_value
from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState, InjectorError
from insitu.injectors.processes import Process


class UndoKind(StrEnum):
    """What an undo record puts back, in the order in which kinds are carried out: first what could still act."""

    PROCESS = "process"
    """End a process, known by its pid and start time."""
    CGROUP = "cgroup"
    """End everything in a control group and remove it."""
    VALUE = "value"
    """Write a value of the host back into its file, unless somebody else has changed it since."""
    FOLDER = "folder"
    """Delete a folder of ours with what is in it, or a file."""


@dataclass(frozen=True, slots=True)
class Undo:
    """One action.

    Attributes
    ----------
    path
        Group, folder or file of a value; for a process, ``/proc/<pid>``.
    started
        Of a process: its start time in clock ticks since boot.
    prior
        Of a value: what its file read before, by `host_value.read_value`.
    written
        Of a value: what its file will read once we have written.
    """

    kind: UndoKind
    path: str
    started: str = ""
    prior: str = ""
    written: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def process(self) -> Process:
        """The process that is meant."""
        return Process(int(Path(self.path).name), self.started)

    @property
    def change(self) -> host_value.Change:
        """The change of a value that is meant."""
        return host_value.Change(self.path, self.prior, (self.written,))


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one undo: a failure, or none and perhaps a note."""

    undo: Undo
    failure: str = ""
    note: str = ""


def carry_out(undo: Undo, owner: Ownership, *, rebooted: bool = False) -> str:
    """Put one thing back and verify it; done already is fine.

    Parameters
    ----------
    rebooted
        The undo is of an earlier boot, which took its processes and control groups with it.

    Returns
    -------
    str
        What there is to know beyond success; mostly nothing.

    Raises
    ------
    ForeignState
        If the object is not, or no longer, ours; it is left alone.
    UndoFailed
        If it is still there afterwards.
    """
    if undo.kind is UndoKind.FOLDER:
        return _delete(undo, owner)
    require_ours(undo, owner)
    match undo.kind:
        case UndoKind.VALUE:
            return host_value.put_back(undo.change, rebooted=rebooted)
        case UndoKind.PROCESS | UndoKind.CGROUP if rebooted:  # what has the pid or the path now is another
            return "it was gone with the boot"
        case UndoKind.PROCESS:
            undo.process.end()
        case UndoKind.CGROUP:
            cgroups.remove(Path(undo.path))
    return ""


def require_ours(undo: Undo, owner: Ownership) -> None:
    """Refuse what no run writes, before anything looks at it: a journal may have been edited, or be damaged.

    A journal takes only what passes here, so that whatever is in one can be carried out.

    Raises
    ------
    ForeignState
        If its path is not plain, or does not carry the owner's mark where it must.
    """
    if ".." in undo.path.split("/"):
        raise _not_plain(undo)
    _require_meant(undo, owner)


def carry_out_each(undos: Sequence[Undo], owner: Ownership, *, rebooted: bool = False) -> tuple[Result, ...]:
    """Carry out undos, given the latest first, whatever fails; see `carry_out`.

    Changes of the same value are put back in one step, so that whoever comes second recognises it as done.
    """
    results: list[Result] = []
    for kind in UndoKind:
        of_kind = [undo for undo in undos if undo.kind is kind]
        if kind is not UndoKind.VALUE:
            results.extend(_try(undo, partial(carry_out, undo, owner, rebooted=rebooted)) for undo in of_kind)
            continue
        for change in host_value.chains([undo.change for undo in of_kind]):
            first, *others = [undo for undo in of_kind if undo.path == change.path]
            result = _try(first, partial(_put_back, first, change, owner, rebooted=rebooted))
            results += [result, *(replace(result, undo=undo) for undo in others)]
    return tuple(results)


def carry_out_all(undos: Sequence[Undo], owner: Ownership) -> tuple[str, ...]:
    """Carry out undos of this boot, given the latest first, whatever fails; gives the failures."""
    failures = (result.failure for result in carry_out_each(undos, owner) if result.failure)
    return tuple(dict.fromkeys(failures))


def look(undo: Undo, *, rebooted: bool = False) -> str:
    """What there is of an undo's object now, in a few words; changes nothing."""
    match undo.kind:
        case UndoKind.VALUE:
            try:
                now = host_value.read_value(undo.path).strip()
            except (InjectorError, OSError, ValueError) as exc:
                return f"unreadable: {exc}"
            return f"reads {now!r}, was {undo.prior.strip()!r}, {undo.written.strip()!r} written"
        case UndoKind.PROCESS:
            there = not rebooted and _A_PROCESS.fullmatch(undo.path) is not None and undo.process.alive()
        case UndoKind.CGROUP:
            there = os.path.lexists(undo.path)
        case UndoKind.FOLDER:
            there = not _is_gone(undo.path)
    return "there" if there else "gone"


def _put_back(undo: Undo, change: host_value.Change, owner: Ownership, *, rebooted: bool) -> str:
    require_ours(undo, owner)
    return host_value.put_back(change, rebooted=rebooted)


def _delete(undo: Undo, owner: Ownership) -> str:
    """Delete a folder of ours; one that is gone is undone, whatever is written of it.

    Journals of earlier versions may have ``..`` in a path. What is meant is what the kernel made of it when the
    folder was made: the mark is in its last part, and the folder that this one is in is looked up.
    """
    if undo.path.startswith("/") and _is_gone(undo.path):
        return ""
    _require_meant(undo, owner)
    path = Path(undo.path)
    deletion.delete(Path(os.path.realpath(path.parent), path.name) if ".." in path.parts else path)
    return ""


def _is_gone(path: str) -> bool:
    """Whether it is certain that nothing is there, not even a link; not if that cannot be seen."""
    try:
        os.lstat(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _try(undo: Undo, act: Callable[[], str]) -> Result:
    try:
        return Result(undo, note=act())
    except Exception as exc:  # whatever it is, the other undos must not suffer from it
        return Result(undo, failure=f"{undo}: {exc}")


def _require_meant(undo: Undo, owner: Ownership) -> None:
    if not undo.path.startswith("/") or "\0" in undo.path:
        raise _not_plain(undo)
    if undo.kind is UndoKind.PROCESS and not _A_PROCESS.fullmatch(undo.path):
        raise ForeignState(f"{undo.path!r} is no process that could be ours; left alone")
    if undo.kind in (UndoKind.FOLDER, UndoKind.CGROUP) and not owner.owns(undo.path):
        raise ForeignState(f"{undo.path} does not carry the mark {owner.prefix}; left alone")


def _not_plain(undo: Undo) -> ForeignState:
    return ForeignState(f"{undo.path!r} is no plain path; left alone")


_A_PROCESS = re.compile(r"/proc/(?!1$)[1-9][0-9]{0,9}")
"""Process 1 of a host or a container is never one."""
