"""What ``insitu recover --list`` shows: every journal and what it says, and all that carries a run's mark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import typer

from insitu.injectors.state_folder import state_folder
from insitu.orchestrator.cli import leftovers
from insitu.orchestrator.cli.leftovers import Found, Kept
from insitu.orchestrator.cli.saying import say
from insitu.orchestrator.errors import CannotExecute


def show(*, as_json: bool) -> None:
    """Look and print; changes nothing.

    Raises
    ------
    CannotExecute
        If the folder of journals cannot be listed.
    """
    try:
        seen = leftovers.look()
    except OSError as exc:
        problem = f"cannot look for journals in {state_folder()}: {exc.strerror}"
        raise CannotExecute(problem, hint="see to the folder, or choose another with INSITU_STATE") from exc
    if as_json:
        document = {
            "journals": [asdict(one) for one in seen.journals],
            "marked": [asdict(one) for one in seen.marked],
        }
        typer.echo(json.dumps(document))
    else:
        _print(seen.journals, seen.marked)


def _print(kept: Sequence[Kept], found: Sequence[Found]) -> None:
    for one in kept:
        say(f"{one.journal}: {one.standing}" + (f" ({one.problem})" if one.problem else ""))
        if one.owner_pid:
            say(
                f"  run {one.run} of process {one.owner_pid}, written by process {one.holder_pid} "
                f"{_duration(one.age_s)} ago, results in {one.run_directory}"
            )
        shown: tuple[str, ...] = ()
        for pending in one.pending:
            if pending.settings and pending.settings != shown:
                say(f"  set: {', '.join(pending.settings)}")
            shown = pending.settings
            say(f"  to undo: {pending.undo} ({pending.now})")
    for mark in found:
        detail = f", {mark.detail}" if mark.detail else ""
        say(f"{mark.kind} {mark.name}: run {mark.run}, {mark.standing}{detail}")
    if not kept and not found:
        say(f"nothing carries insitu's mark; no journal in {state_folder()}")


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
