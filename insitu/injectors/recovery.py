"""Finding and undoing what a dead owner left: by its journals, and by its mark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.errors import InjectorError
from insitu.injectors.journal import Header, Locked, boot_id, read, state_folder
from insitu.injectors.undo import Undo, UndoKind, carry_out_all, start_time

MARK = "insitu-"
_QUIET_ROUNDS, _ROUND_S = 4, 0.1
"""How long a dead owner's helpers must stay away before they count as gone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one journal.

    Attributes
    ----------
    in_use
        Its owner is alive (or another recovery is at it), so it was left alone.
    pending
        Actions that the journal held; all of them were tried.
    failures
        Actions that could not be, with the reason.
    """

    journal: Path
    header: Header | None = None
    in_use: bool = False
    pending: tuple[Undo, ...] = ()
    failures: tuple[str, ...] = ()
    rebooted: bool = False


def recover_journal(path: Path, *, even_if_alive: bool = False, keep: bool = False) -> Outcome:
    """Carry out what one journal still holds, and delete it when nothing is left.

    Parameters
    ----------
    even_if_alive
        For the guard, which knows that the lease has ended although the owner may still be dying.
    keep
        Leave the journal: somebody may still write to it.
    """
    with Locked(path) as lock:
        if not lock.held:
            return Outcome(path, in_use=path.exists())
        try:
            entries = read(path)
        except InjectorError as exc:
            return Outcome(path, failures=(str(exc),))
        header = entries.header
        if header is None:  # torn before its header was whole: nothing had begun
            path.unlink(missing_ok=True)
            return Outcome(path)
        if not even_if_alive and header.owner_is_alive():
            return Outcome(path, header, in_use=True)
        failures = carry_out_all(entries.pending, header.ownership)
        # a dying owner's pipes close a moment before its pid is free: its session ends with the pid
        dying = bool(header.session_folder) and header.owner_is_alive()
        if header.session_folder and not dying:
            failures += _end_session(header)
        if not failures and not dying and not keep:
            path.unlink(missing_ok=True)
        return Outcome(path, header, dying, entries.pending, failures, header.boot != boot_id())


def journals(folder: Path | None = None) -> tuple[Path, ...]:
    """All journals of this user on this node."""
    return tuple(sorted((folder or state_folder()).glob(f"{MARK}*.journal")))


def marked_groups() -> Iterator[Path]:
    """Control groups with our mark in the places where this process would make them."""
    parents = dict.fromkeys(cgroups.discover().parents.values())
    for parent in parents:
        yield from sorted(path for path in parent.glob(f"{MARK}*") if path.is_dir())


def _end_session(header: Header, *, within_s: float = 8.0) -> tuple[str, ...]:
    """End the owner's helpers and delete their folder, until neither has come back; gives the failures.

    A helper that is being started while the others are ended is seen only in the next round, and may have
    made the folder again.
    """
    folder = Path(header.session_folder)
    if not header.ownership.owns(folder):
        return (f"{folder} does not carry the mark {header.ownership.prefix}; left alone",)
    failures: tuple[str, ...] = ()
    deadline = time.monotonic() + within_s
    quiet_rounds = 0
    while quiet_rounds < _QUIET_ROUNDS and time.monotonic() < deadline:
        users = _users_of(folder)
        quiet_rounds = quiet_rounds + 1 if not users and not folder.exists() else 0
        undos = [Undo(UndoKind.PROCESS, f"/proc/{pid}", start_time(pid)) for pid in users]
        failures = carry_out_all([*undos, Undo(UndoKind.FOLDER, str(folder))], header.ownership)
        time.sleep(_ROUND_S)
    return failures


def _users_of(folder: Path) -> list[int]:
    """Processes that have `folder` in their command line, or a file below it open."""
    wanted = os.fsencode(folder)
    users: list[int] = []
    for entry in os.scandir(b"/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(entry.path + b"/cmdline", "rb") as file:
                uses = wanted in file.read()
            uses = uses or any(
                os.readlink(descriptor.path).startswith(wanted) for descriptor in os.scandir(entry.path + b"/fd")
            )
        except OSError:  # ended meanwhile, or another user's
            continue
        if uses:
            users.append(int(entry.name))
    return users
