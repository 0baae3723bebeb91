"""Finding and undoing what a dead owner left: by its journals, and by its mark."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.contract import Ownership
from insitu.injectors.errors import InjectorError
from insitu.injectors.journal import Header, Locked, boot_id, read, state_folder
from insitu.injectors.undo import Undo, carry_out

MARK = "insitu-"


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


def carry_out_all(undos: Sequence[Undo], owner: Ownership) -> tuple[str, ...]:
    """Carry out undos one after the other, whatever fails; gives the failures."""
    failures: list[str] = []
    for undo in undos:
        try:
            carry_out(undo, owner)
        except (InjectorError, OSError) as exc:
            failures.append(f"{undo}: {exc}")
    return tuple(failures)


def recover_journal(path: Path, *, even_if_alive: bool = False) -> Outcome:
    """Carry out what one journal still holds, and delete it when nothing is left.

    Parameters
    ----------
    even_if_alive
        For the guard, which knows that the lease has ended although the owner may still be dying.
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
        if not failures:
            path.unlink(missing_ok=True)
        return Outcome(path, header, False, entries.pending, failures, header.boot != boot_id())


def journals(folder: Path | None = None) -> tuple[Path, ...]:
    """All journals of this user on this node."""
    return tuple(sorted((folder or state_folder()).glob(f"{MARK}*.journal")))


def marked_groups() -> Iterator[Path]:
    """Control groups with our mark in the places where this process would make them."""
    parents = dict.fromkeys(cgroups.discover().parents.values())
    for parent in parents:
        yield from sorted(path for path in parent.glob(f"{MARK}*") if path.is_dir())


def delete_when_unused(folder: Path, *, within_s: float) -> bool:
    """Delete a marked folder once no process has it in its command line or files; false if one still has."""
    if not folder.name.startswith(MARK) or folder.is_symlink() or not folder.is_dir():
        return not folder.exists()
    deadline = time.monotonic() + within_s
    while _users_of(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _users_of(folder: Path) -> list[int]:
    wanted = os.fsencode(folder)
    users: list[int] = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if wanted in command and b"insitu.injectors.guard" not in command:
                users.append(int(entry.name))
    return users
