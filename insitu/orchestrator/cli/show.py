"""``insitu show``: what a run found, from its directory alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def show(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the law, the estimates, the levels and the trials of a run; works while it executes."""
    from insitu.orchestrator.cli import results

    summary = results.summary_of(run)
    if as_json:
        from insitu.orchestrator.report.document import run_document

        typer.echo(json.dumps(run_document(summary), allow_nan=False))
    else:
        from insitu.orchestrator.report.terminal import print_summary

        print_summary(summary)
