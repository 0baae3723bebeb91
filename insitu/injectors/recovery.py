"""Undoing what a dead owner left, by its journals: by the guard, by ``insitu recover``, by the next run."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import session
from insitu.injectors.claim import Claim
from insitu.injectors.errors import ForeignState, InjectorError, UndoFailed
from insitu.injectors.journal import Header, read, touched_folders
from insitu.injectors.processes import Process, start_time
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Result, carry_out_each

MARK = "insitu-"
_NAME = re.compile(rf"{MARK}\w+-([0-9]+)\.journal", re.ASCII)


class Fate(StrEnum):
    """What became of one journal."""

    CLEAN = "clean"
    """All that it held is undone and verified; the journal is deleted."""
    IN_USE = "in_use"
    """Its owner is alive, so it was left alone."""
    ELSEWHERE = "elsewhere"
    """It is of another machine that shares the folder of journals, where its owner may be alive; left alone."""
    BUSY = "busy"
    """Another recovery is at it, so it was left alone."""
    DIRTY = "dirty"
    """Something could not be undone, or not be understood; the journal is kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one journal, and of what it held.

    Attributes
    ----------
    results
        One for each undo that it held; all of them were tried.
    failures
        What could not be done, with the reason.
    rebooted
        It is of an earlier boot.
    """

    journal: Path
    fate: Fate
    header: Header | None = None
    results: tuple[Result, ...] = ()
    failures: tuple[str, ...] = ()
    rebooted: bool = False


def journals(folder: Path | None = None) -> tuple[Path, ...]:
    """All journals of this user on this node; `OSError` if the folder of journals cannot be listed."""
    here = folder or state_folder()
    try:
        names = os.listdir(here)
    except FileNotFoundError:
        return ()
    return tuple(here / name for name in sorted(names) if name.startswith(MARK) and name.endswith(".journal"))


def recover_all(folder: Path | None = None, *, within_s: float = 10.0) -> tuple[Outcome, ...]:
    """Carry out what every journal of a dead owner holds; a guard that is at one is waited for so long."""
    deadline = time.monotonic() + within_s
    try:
        outcomes = {path: recover_journal(path) for path in journals(folder)}
    except OSError as exc:  # of another user, or no folder at all
        here = folder or state_folder()
        return (Outcome(here, Fate.DIRTY, failures=(_unlisted(here, exc),)),)
    while busy := [path for path, outcome in outcomes.items() if outcome.fate is Fate.BUSY]:
        if time.monotonic() > deadline:
            problem = f"another recovery has been at it for {within_s:g} s"
            outcomes |= {path: Outcome(path, Fate.BUSY, failures=(f"{path}: {problem}",)) for path in busy}
            break
        time.sleep(0.1)
        outcomes |= {path: recover_journal(path) for path in busy}
    return tuple(outcomes.values())


def recover_journal(path: Path, *, even_if_alive: Process | None = None) -> Outcome:
    """End the journal's holder, carry out what it still holds, and delete it when nothing is left.

    Parameters
    ----------
    even_if_alive
        An owner whose lease is known to have ended although it lives. A journal of another one that lives is
        left alone whatever its name is: a copy of a run directory has the id of the run that it was copied from.
    """
    try:
        with Claim(path) as claim:
            if not claim.held:
                return Outcome(path, Fate.BUSY if path.exists() else Fate.CLEAN)
            header = claim.entries().header
            if header is None:
                return _forget(path, claim)
            if header.of_other_machine:
                return Outcome(path, Fate.ELSEWHERE, header)
            _require_visible(path, header)
            if header.owner != even_if_alive and header.owner_is_alive():
                return Outcome(path, Fate.IN_USE, header)
            return _undo(path, claim, header)
    except Exception as exc:  # whatever it is, the other journals must not suffer from it
        return Outcome(path, Fate.DIRTY, failures=(_as_failure(path, exc),))


def refusals(folder: Path | None = None) -> tuple[str, ...]:
    """Why `recover_all` would leave journals alone: of another version, user or namespace. Changes nothing.

    It is told by reading. Whether what a journal holds can be undone, only undoing can tell.
    """
    try:
        return tuple(filter(None, map(_why_left_alone, journals(folder))))
    except OSError as exc:
        return (_unlisted(folder or state_folder(), exc),)


def _why_left_alone(path: Path) -> str:
    try:
        header = read(path).header
        if header is None:
            _maker(path)
        else:
            _require_visible(path, header)
    except FileNotFoundError:  # its run has ended meanwhile
        return ""
    except Exception as exc:  # as in `recover_journal`
        return _as_failure(path, exc)
    return ""


def _as_failure(path: Path, error: Exception) -> str:
    return str(error) if isinstance(error, InjectorError) else f"{path}: {error}"


def _unlisted(folder: Path, error: OSError) -> str:
    return f"cannot look for journals in {folder}: {error.strerror}"


def _require_visible(path: Path, header: Header) -> None:
    if header.of_other_namespace:
        raise ForeignState(
            f"{path} is of a run in another process namespace ({header.process_namespace}), "
            "which may be alive; left alone",
            "run insitu recover in that container; if it is gone, look at the journal and delete it",
        )


def _maker(path: Path) -> int:
    """The process that has made a journal, by its name; `ForeignState` if it is not named as one."""
    named = _NAME.fullmatch(path.name)
    if named is None:
        raise ForeignState(f"{path} is not named as a journal, and says nothing; left alone")
    return int(named[1])


def _forget(path: Path, claim: Claim) -> Outcome:
    """No whole header: nothing had begun. Whoever made the file may be about to write one, though."""
    if start_time(_maker(path)):
        return Outcome(path, Fate.IN_USE)
    claim.delete(())
    return Outcome(path, Fate.CLEAN)


def _undo(path: Path, claim: Claim, header: Header) -> Outcome:
    rebooted = not header.of_this_boot
    at_large = () if rebooted else _fence(header.holder)
    entries = claim.entries()  # only now: until it was ended, the holder may have written more
    results = carry_out_each(entries.pending, header.ownership, rebooted=rebooted)
    failures = at_large + tuple(dict.fromkeys(result.failure for result in results if result.failure))
    if header.session_folder:
        if header.owner_is_alive():  # its helpers are still at work for it
            return Outcome(path, Fate.IN_USE, header, results, failures)
        failures += session.end(Path(header.session_folder), header.ownership)
    if not failures:
        claim.delete(touched_folders(entries.pending))  # a session's folder is among them
        return Outcome(path, Fate.CLEAN, header, results, rebooted=rebooted)
    if not at_large:  # nobody else writes to the journal any more
        failed = {result.undo for result in results if result.failure}
        claim.mark_done(intent.number for intent in entries.intents if not failed & set(intent.undos))
    return Outcome(path, Fate.DIRTY, header, results, failures, rebooted)


def _fence(holder: Process) -> tuple[str, ...]:
    """End the process that writes the journal: it must not apply anything to a node that is called clean.

    Gives why it may still.
    """
    if holder == Process.current():
        return ()
    try:
        holder.end()
    except UndoFailed as exc:
        return (str(exc),)
    return ()
