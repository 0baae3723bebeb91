"""``insitu explain``: why a trial was slow."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu.orchestrator.cli import completion


def explain(
    run: completion.Run,
    trial: completion.Trial,
    ask: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The variable to explain.",
            show_default="the outcome of the plan's goal",
            autocompletion=completion.outcomes,
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="VARIABLE=LEVEL",
            help="Compare with this level of a variable; repeatable.",
            show_default="the baseline",
            autocompletion=completion.assignments,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say why a trial was slow: what is suspected, and what adds up to its difference from the baseline.

    For example: insitu explain runs/sort --trial 17
    """
    from insitu.orchestrator.api.run import open_run
    from insitu.orchestrator.cli.questions import print_answer, read_assignments

    levels = read_assignments("--against", against or ())
    print_answer(open_run(run).explain(trial, ask=ask, against=levels), as_json=as_json)
