"""``insitu elasticity``: percent of one variable per percent of another."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def elasticity(
    run: completion.Run,
    cause: Annotated[
        str,
        typer.Argument(
            help="The variable that grows by one percent.", show_default=False, autocompletion=completion.variables
        ),
    ],
    outcome: Annotated[
        str | None,
        typer.Argument(
            help="The variable that follows.",
            show_default="the outcome of the plan's goal",
            autocompletion=completion.outcomes,
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="VARIABLE=LEVEL",
            help="Where a variable stands, the cause included; repeatable.",
            show_default="the baseline",
            autocompletion=completion.assignments,
        ),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the data's support, too, and say so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Estimate by how many percent the mean of one variable changes per percent of another.

    For example: insitu elasticity runs/sort cpu_cores --at cpu_cores=0.5 --at 'input_size=24 MB'
    """
    from insitu.orchestrator.api.run import open_run
    from insitu.orchestrator.cli.questions import print_answer, read_assignments

    levels = read_assignments("--at", at or ())
    answer = open_run(run).elasticity(cause, outcome, at=levels, extrapolate=extrapolate)
    print_answer(answer, as_json=as_json)
