"""``insitu recover``: undo what a killed run left on this node, or only show what is there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from insitu.orchestrator.cli.saying import say

if TYPE_CHECKING:
    from insitu.injectors.recovery import Outcome
    from insitu.orchestrator.cli.leftovers import Found

STRAY_REMEDY = "if its run used another INSITU_STATE, run insitu recover with that; see: insitu recover --list"


def recover(
    only_list: Annotated[
        bool, typer.Option("--list", help="Show everything that carries insitu's mark; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Undo what a killed run left on this machine; touches nothing that is not marked as ours."""
    if only_list:
        from insitu.orchestrator.cli import listing

        listing.show(as_json=as_json)
        return
    from insitu.injectors import recovery
    from insitu.injectors.state_folder import state_folder
    from insitu.orchestrator.cli import leftovers
    from insitu.orchestrator.errors import NodeDirty

    outcomes = recovery.recover_all()
    unlisted = any(outcome.journal == state_folder() for outcome in outcomes)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    strays = () if unlisted else leftovers.look().strays
    if as_json:
        typer.echo(json.dumps(_document(outcomes, failures, strays)))
    else:
        _print(outcomes)
        if not outcomes and not strays:
            say("nothing to do: no run left anything on this machine")
    if failures or strays:
        unknown = [f"{one.kind} {one.name} is marked as ours, but no journal here speaks of it" for one in strays]
        hint = _remedy() if failures else STRAY_REMEDY
        raise NodeDirty("\n".join([*failures, *unknown]), hint=hint)


def _remedy() -> str:
    if os.geteuid():
        return "run insitu recover as root; it is safe to repeat"
    return "put right what is named, and run insitu recover again; see: insitu recover --list"


def _document(
    outcomes: Sequence[Outcome], failures: Sequence[str], strays: Sequence[Found]
) -> dict[str, list[str]]:
    from insitu.injectors.recovery import Fate

    results = [result for outcome in outcomes for result in outcome.results]
    return {
        "undone": [str(result.undo) for result in results if not result.failure],
        "notes": [f"{result.undo}: {result.note}" for result in results if result.note],
        "in_use": [_owner(outcome) for outcome in outcomes if outcome.fate in (Fate.IN_USE, Fate.ELSEWHERE)],
        "failures": list(failures),
        "strays": [one.name for one in strays],
    }


def _print(outcomes: Sequence[Outcome]) -> None:
    from insitu.injectors.recovery import Fate
    from insitu.orchestrator.cli import leftovers

    for outcome in outcomes:
        if outcome.fate is Fate.IN_USE:
            say(f"left alone: {_owner(outcome)} is alive")
        elif outcome.fate is Fate.ELSEWHERE and outcome.header is not None:
            remedy = leftovers.remedy_elsewhere(outcome.journal, outcome.header)
            say(f"left alone: {_owner(outcome)} is of machine {outcome.header.node}; {remedy}")
        elif outcome.header is not None:
            when = ", of an earlier boot" if outcome.rebooted else ""
            say(f"run {outcome.header.run}{when}: process {outcome.header.owner_pid} has ended")
        for result in outcome.results:
            if not result.failure:
                say(f"  undone: {result.undo}" + (f" ({result.note})" if result.note else ""))


def _owner(outcome: Outcome) -> str:
    header = outcome.header
    if header is None:
        return f"the maker of {outcome.journal}"
    return f"run {header.run} (process {header.owner_pid})"
