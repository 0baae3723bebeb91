"""``insitu effect``: how much one variable changes another."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def effect(
    run: completion.Run,
    cause: Annotated[
        str,
        typer.Argument(
            help="The variable that is changed.", show_default=False, autocompletion=completion.variables
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
    low: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LEVEL",
            help="Where the cause starts.",
            show_default="as the goal, or the lowest tried",
            autocompletion=completion.levels_of_cause,
        ),
    ] = None,
    high: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="LEVEL",
            help="Where it ends.",
            show_default="as the goal, or the highest tried",
            autocompletion=completion.levels_of_cause,
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="VARIABLE=LEVEL",
            help="Where another variable stands; repeatable.",
            show_default="as the goal, or the baseline",
            autocompletion=completion.assignments,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", metavar="N", help="Answer by so many draws.", show_default=False),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the data's support, too, and say so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Estimate how much the mean of one variable changes when another goes from one level to another.

    For example: insitu effect runs/sort cpu_cores runtime --from 0.4 --to 0.8 --at 'input_size=24 MB'
    """
    from insitu.orchestrator.api.run import open_run
    from insitu.orchestrator.cli.questions import print_answer, read_assignments

    others = read_assignments("--at", at or ())
    answer = open_run(run).effect(
        cause, outcome, low=low, high=high, at=others, draws=draws, extrapolate=extrapolate
    )
    print_answer(answer, as_json=as_json)
