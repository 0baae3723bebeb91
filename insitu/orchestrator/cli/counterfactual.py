"""``insitu counterfactual``: what a trial would have been like."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def counterfactual(
    run: completion.Run,
    trial: completion.Trial,
    do: Annotated[
        list[str],
        typer.Option(
            "--do",
            metavar="VARIABLE=LEVEL",
            help="What would have been otherwise, as in --do cpu_cores=0.8; repeatable.",
            show_default=False,
            autocompletion=completion.assignments,
        ),
    ],
    ask: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The variable to ask about.",
            show_default="the outcome of the plan's goal",
            autocompletion=completion.outcomes,
        ),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the data's support, too, and say so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what a trial would have been like at other levels, with whatever else was particular about it.

    For example: insitu counterfactual runs/sort --trial 17 --do cpu_cores=0.8
    """
    from insitu.orchestrator.api.run import open_run
    from insitu.orchestrator.cli.questions import print_answer, read_assignments

    levels = read_assignments("--do", do)
    print_answer(open_run(run).counterfactual(trial, levels, ask=ask, extrapolate=extrapolate), as_json=as_json)
