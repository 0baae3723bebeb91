"""``insitu report``: the page of a run, written anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import completion
from insitu.orchestrator.cli.saying import say


def report(
    run: completion.Run,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write.", show_default="RUN/report.html")
    ] = None,
) -> None:
    """Write report.html: one file, readable without any network."""
    from insitu.orchestrator.cli import results
    from insitu.orchestrator.report.page import write_report

    target = out or run / "report.html"
    write_report(target, results.summary_of(run))
    say(str(target))
