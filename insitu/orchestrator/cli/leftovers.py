"""What runs have left on this node, or hold: every journal and what it says, and all that carries a run's mark.

``recover``, ``recover --list`` and ``doctor`` tell the same because they all look here; looking changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import inventory, recovery
from insitu.injectors.errors import InjectorError
from insitu.injectors.inventory import Kind
from insitu.injectors.journal import Entries, Header, read
from insitu.injectors.undo import Undo
from insitu.injectors.undo import look as look_at

IN_USE, BEGUN = "in use", "begun, holds nothing"
_OF_OTHER_MACHINE = "of another machine"
_ELSEWHERE, _UNKNOWN = "in use, with another state folder", "no journal here speaks of it"
_LEFT_ALONE = (IN_USE, BEGUN, _OF_OTHER_MACHINE)
"""Standings of journals that ``recover`` does not work on."""


@dataclass(frozen=True, slots=True)
class Pending:
    """One undo that a journal still holds, and what there is of its object now."""

    undo: str
    now: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """One journal.

    Attributes
    ----------
    standing
        ``in use``, ``begun, holds nothing``, ``left behind``, ``of an earlier boot``, ``of another machine`` or
        ``not understood``.
    age_s
        Since it was last written to.
    problem
        Why it is not understood, or what to do with one of another machine.
    """

    journal: str
    run: str
    standing: str
    owner_pid: int
    holder_pid: int
    run_directory: str
    age_s: float
    pending: tuple[Pending, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """One marked thing; `standing` is that of its run."""

    kind: str
    name: str
    run: str
    standing: str
    detail: str

    @property
    def is_mine(self) -> bool:
        """Whether this user could have made it, as far as that can be told."""
        path = f"/proc/{self.name}" if self.kind == Kind.PROCESS else self.name
        if self.kind in (Kind.MOUNT, Kind.NETWORK):
            return True
        try:
            return os.geteuid() in (0, os.stat(path).st_uid)
        except OSError:  # gone meanwhile
            return False


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Everything of every run."""

    journals: tuple[Kept, ...]
    marked: tuple[Found, ...]

    @property
    def dead(self) -> tuple[Kept, ...]:
        """Journals that ``recover`` would work on."""
        return tuple(one for one in self.journals if one.standing not in _LEFT_ALONE)

    @property
    def of_dead(self) -> tuple[Found, ...]:
        """What of them is still there."""
        spared = (*_LEFT_ALONE, _ELSEWHERE, _UNKNOWN)
        return tuple(one for one in self.marked if one.standing not in spared)

    @property
    def strays(self) -> tuple[Found, ...]:
        """What belongs to no run that is known here, or alive elsewhere."""
        return tuple(one for one in self.marked if one.standing == _UNKNOWN and one.is_mine)


def look() -> Leftovers:
    """Look; changes nothing.

    Raises
    ------
    OSError
        If the folder of journals cannot be listed.
    """
    before = tuple(_kept())
    guarded = inventory.runs_guarded_elsewhere()
    places = [Path(one.run_directory) / "work" for one in before if one.run_directory]
    marked = inventory.everything(places)
    kept = tuple(_kept())  # again: a run may have begun, and one that has ended is no stray either
    standings = {one.run: one.standing for one in (*before, *kept)}
    standings |= dict.fromkeys(guarded | inventory.runs_guarded_elsewhere(), _ELSEWHERE)
    found = (Found(one.kind, one.name, one.run, standings.get(one.run, _UNKNOWN), one.detail) for one in marked)
    return Leftovers(kept, tuple(found))


def remedy_elsewhere(journal: Path, header: Header) -> str:
    """What to do with the journal of another machine."""
    return f"run insitu recover on {header.node}, or delete {journal} if that machine is gone or was renamed"


def _kept() -> Iterator[Kept]:
    for path in recovery.journals():
        try:
            age_s = max(0.0, time.time() - path.stat().st_mtime)
            entries = read(path)
        except FileNotFoundError:  # its run ended meanwhile
            continue
        except (InjectorError, OSError) as exc:
            yield Kept(str(path), inventory.run_of(path.name), "not understood", 0, 0, "", age_s, problem=str(exc))
            continue
        yield _describe(path, entries, age_s)


def _describe(path: Path, entries: Entries, age_s: float) -> Kept:
    header = entries.header
    if header is None:
        return Kept(str(path), inventory.run_of(path.name), BEGUN, 0, 0, "", age_s)
    pending = tuple(
        Pending(str(undo), _now(undo, header), intent.settings)
        for intent in entries.intents
        for undo in intent.undos
    )
    return Kept(
        journal=str(path),
        run=header.run,
        standing=_standing(header),
        owner_pid=header.owner_pid,
        holder_pid=header.holder_pid,
        run_directory=header.run_directory,
        age_s=age_s,
        pending=pending,
        problem=remedy_elsewhere(path, header) if header.of_other_machine else "",
    )


def _now(undo: Undo, header: Header) -> str:
    if header.of_other_machine:  # what has this name here is another thing
        return f"on {header.node}"
    return look_at(undo, rebooted=not header.of_this_boot)


def _standing(header: Header) -> str:
    if header.of_other_machine:
        return _OF_OTHER_MACHINE
    if not header.of_this_boot:
        return "of an earlier boot"
    return IN_USE if header.owner_is_alive() else "left behind"
