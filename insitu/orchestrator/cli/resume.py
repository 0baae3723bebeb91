"""``insitu resume``: go on with a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import machine


def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    inventory: machine.Inventoried = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
) -> None:
    """Go on with a run that was interrupted or killed; ends with exactly the planned set of trials."""
    from insitu.orchestrator.cli import execution

    execution.go_on(run, inventory, quiet=quiet)
