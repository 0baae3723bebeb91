"""``insitu whatif``: a prediction from a fitted law."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint


def whatif(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    do: Annotated[
        list[str],
        typer.Option(
            "--do",
            metavar="VARIABLE=LEVEL",
            help="Set a variable, as in --do cpu_cores=0.3 or --do 'disk_read_rate=20 MB/s'; repeatable.",
            show_default=False,
        ),
    ],
    ask: Annotated[
        str | None,
        typer.Option(help="The variable to predict.", show_default="the outcome of the plan's goal"),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Answer outside the data's support, too, and say so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict what would happen at levels that were perhaps never tried, with an interval."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.errors import InputError, NotIdentified
    from insitu.orchestrator.estimation import queries
    from insitu.orchestrator.estimation.analysis import analyse
    from insitu.orchestrator.plan.hints import suggest
    from insitu.orchestrator.report.answers import prediction_text
    from insitu.orchestrator.store.encoding import finite_json
    from insitu.orchestrator.store.run import RunStore

    with RunStore.open(run, read_only=True) as store:
        plan, blueprint = experiment.read_stored(store)
        trials = store.trials()
    levels = dict(_level(text, blueprint) for text in do)
    goal = plan.goal
    if ask is not None and (goal is None or ask != goal.outcome):
        if ask not in blueprint.laws:
            raise InputError(f"the model has no law for {ask!r}", hint=suggest(ask, tuple(blueprint.laws)))
        goal = None
    analysis = analyse(blueprint, trials, goal)
    if ask is not None and analysis.outcome != ask:
        raise InputError(f"this run was fitted for {analysis.outcome}, not for {ask}")
    if analysis.fit is None:
        raise NotIdentified(analysis.problem, hint=analysis.remedy or None)
    answer = queries.whatif(analysis.fit, blueprint.laws[analysis.outcome], levels, extrapolate)
    if as_json:
        from dataclasses import asdict

        typer.echo(json.dumps(finite_json(asdict(answer)), allow_nan=False))
    else:
        typer.echo(prediction_text(answer))


def _level(text: str, blueprint: Blueprint) -> tuple[str, float]:
    from insitu.orchestrator.errors import InputError
    from insitu.orchestrator.plan.hints import suggest
    from insitu.orchestrator.units import UnitError, parse_quantity

    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not level:
        raise InputError(f"--do takes VARIABLE=LEVEL, not {text!r}", hint="for example --do cpu_cores=0.3")
    if name not in blueprint.variables:
        raise InputError(f"the model has no variable {name!r}", hint=suggest(name, tuple(blueprint.variables)))
    try:
        bare = float(level)
    except ValueError:
        bare = None
    try:
        unit = blueprint.variables[name].unit
        return name, parse_quantity(level if bare is None else bare, unit)
    except UnitError as exc:
        raise InputError(f"--do {text}: {exc}") from exc
