"""What ``insitu recover --list`` shows: every journal and what it says, and all that carries insitu's mark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from insitu.injectors import inventory, recovery
from insitu.injectors.errors import InjectorError
from insitu.injectors.journal import Entries, Header, read, state_folder
from insitu.injectors.undo import look


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
        ``in use``, ``left behind``, ``of an earlier boot`` or ``not understood``.
    age_s
        Since it was last written to.
    problem
        Why it is not understood.
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


def show(*, as_json: bool) -> None:
    """Look and print; changes nothing."""
    kept = tuple(_kept())
    standings = {one.run: one.standing for one in kept}
    standings |= dict.fromkeys(inventory.runs_guarded_elsewhere(), "in use, with another state folder")
    places = [Path(one.run_directory) / "work" for one in kept if one.run_directory]
    found = tuple(
        Found(one.kind, one.name, one.run, standings.get(one.run, "no journal here speaks of it"), one.detail)
        for one in inventory.everything(places)
    )
    if as_json:
        document = {"journals": [asdict(one) for one in kept], "marked": [asdict(one) for one in found]}
        typer.echo(json.dumps(document))
    else:
        _print(kept, found)


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
        return Kept(str(path), inventory.run_of(path.name), "begun, holds nothing", 0, 0, "", age_s)
    pending = tuple(
        Pending(str(undo), look(undo, rebooted=not header.of_this_boot), intent.settings)
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
    )


def _standing(header: Header) -> str:
    if not header.of_this_boot:
        return "of an earlier boot"
    return "in use" if header.owner_is_alive() else "left behind"


def _print(kept: Sequence[Kept], found: Sequence[Found]) -> None:
    for one in kept:
        typer.echo(f"{one.journal}: {one.standing}" + (f" ({one.problem})" if one.problem else ""))
        if one.owner_pid:
            typer.echo(
                f"  run {one.run} of process {one.owner_pid}, written by process {one.holder_pid} "
                f"{_duration(one.age_s)} ago, results in {one.run_directory}"
            )
        shown: tuple[str, ...] = ()
        for pending in one.pending:
            if pending.settings and pending.settings != shown:
                typer.echo(f"  set: {', '.join(pending.settings)}")
            shown = pending.settings
            typer.echo(f"  to undo: {pending.undo} ({pending.now})")
    for mark in found:
        detail = f", {mark.detail}" if mark.detail else ""
        run = f"run {mark.run}, " if mark.run else ""
        typer.echo(f"{mark.kind} {mark.name}: {run}{mark.standing}{detail}")
    if not kept and not found:
        typer.echo(f"nothing carries insitu's mark; no journal in {state_folder()}")


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
