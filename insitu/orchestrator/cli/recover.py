"""``insitu recover``: undo what a killed run left on this node."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def recover(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Undo what a killed run left on this machine; touches nothing that is not marked as ours."""
    from insitu.injectors import recovery
    from insitu.orchestrator.errors import NodeDirty

    outcomes = [recovery.recover_journal(path) for path in recovery.journals()]
    used = [f"{o.header.run} (process {o.header.owner_pid})" for o in outcomes if o.in_use and o.header]
    done = [(o, str(undo)) for o in outcomes if not o.failures for undo in o.pending]
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    strays = [str(path) for path in recovery.marked_groups() if not used]
    if as_json:
        document = {
            "undone": [text for _, text in done],
            "in_use": used,
            "failures": failures,
            "strays": strays,
        }
        typer.echo(json.dumps(document))
    else:
        for outcome, text in done:
            when = " (of an earlier boot)" if outcome.rebooted else ""
            typer.echo(f"undone: {text}{when}")
        for run in used:
            typer.echo(f"left alone: run {run} is alive")
        if not done and not failures and not strays:
            typer.echo("nothing to do: no run left anything on this machine")
    if failures or strays:
        listed = [*failures, *(f"{path} is marked as ours, but no journal speaks of it" for path in strays)]
        raise NodeDirty("\n".join(listed), hint="run insitu recover as root; it is safe to repeat")
