"""``insitu show``: what a run found, from its directory alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def show(
    run: completion.Run,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="RUN2",
            help="Show which laws differ in another run.",
            show_default=False,
            autocompletion=completion.runs,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the law, the estimates, the levels and the trials of a run; works while it executes.

    With --compare: which laws changed between two runs, by how much, and whether by more than noise.

    For example: insitu show runs/sort --compare runs/sort-later
    """
    if compare is not None:
        _compare(run, compare, as_json=as_json)
        return
    from insitu.orchestrator.cli import results

    summary = results.summary_of(run, looks=as_json)
    if as_json:
        from insitu.orchestrator.report.document import run_document

        typer.echo(json.dumps(run_document(summary), allow_nan=False))
    else:
        from insitu.orchestrator.report.terminal import print_summary

        print_summary(summary)


def _compare(first: Path, second: Path, *, as_json: bool) -> None:
    from insitu.orchestrator.api.run import open_run

    comparison = open_run(first).compare(open_run(second))
    if as_json:
        from insitu.orchestrator.report.comparisons import comparison_document

        typer.echo(json.dumps(comparison_document(comparison), allow_nan=False))
    else:
        from insitu.orchestrator.report.comparisons import print_comparison

        print_comparison(comparison, str(first), str(second))
