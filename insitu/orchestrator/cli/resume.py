"""``insitu resume``: go on with a run that was interrupted."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion, machine


def resume(
    run: completion.Run,
    inventory: machine.Inventoried = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
) -> None:
    """Go on with a run that was interrupted or killed; ends with exactly the planned set of trials."""
    from insitu.orchestrator.cli import execution

    execution.go_on(run, inventory, quiet=quiet)
