"""``insitu whatif``: a prediction from the fitted laws of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def whatif(
    run: completion.Run,
    do: Annotated[
        list[str],
        typer.Option(
            "--do",
            metavar="VARIABLE=LEVEL",
            help="Set a variable, as in --do cpu_cores=0.3 or --do 'disk_read_rate=20 MB/s'; repeatable.",
            show_default=False,
            autocompletion=completion.assignments,
        ),
    ],
    ask: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The variable to predict.",
            show_default="the outcome of the plan's goal",
            autocompletion=completion.outcomes,
        ),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option(
            "--quantile",
            metavar="SHARE",
            help="Say what this share of trials stays below, as in --quantile 0.95; repeatable.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            metavar="N",
            help="Answer by so many draws, also where a formula would do, and show the distribution.",
            show_default=False,
        ),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the data's support, too, and say so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict what would happen at levels that were perhaps never tried, with an interval.

    For example: insitu whatif runs/sort --do cpu_cores=0.6 --do 'disk_read_rate=15 MB/s' --quantile 0.95
    """
    from insitu.orchestrator.api.run import open_run
    from insitu.orchestrator.cli.questions import print_answer, read_assignments

    levels = read_assignments("--do", do)
    answer = open_run(run).whatif(
        levels, ask=ask, quantiles=tuple(quantile or ()), draws=draws, extrapolate=extrapolate
    )
    print_answer(answer, as_json=as_json)
