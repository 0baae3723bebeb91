"""What the shell completes: run directories, and what a run has to ask about.

A shell asks at every press of the key, for a command line that is not finished. So nothing here writes, prints or
fails: where something cannot be read, there is nothing to complete.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Plan, Variable
    from insitu.orchestrator.store.records import StoredTrial

_MOST_TRIALS = 500
"""A longer list helps nobody."""
_BASH = {"_INSITU_COMPLETE": "complete_bash"}


@contextlib.contextmanager
def asked_by_bash() -> Iterator[None]:
    """Put together what bash takes apart: to it ``cores``, ``=`` and ``0.5`` are three words.

    What is completed inside this context is the whole ``cores=0.5``; bash is told the last word of it alone.
    """
    words, here = os.environ.get("COMP_WORDS", "").split("\n"), os.environ.get("COMP_CWORD", "")
    if not _BASH.items() <= os.environ.items() or not here.isdigit() or "=" not in words:
        yield
        return
    joined: list[str] = []
    upto = 0
    for number, word in enumerate(words):
        follows = number > 1 and words[number - 1] == "="
        if joined and (word == "=" or follows):
            joined[-1] += word
        else:
            joined.append(word)
        if number <= int(here):
            upto = len(joined) - 1
    os.environ.update({"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(upto)})
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told):
            yield
    finally:
        known = joined[upto].rpartition("=")[0]
        for line in told.getvalue().splitlines():
            sys.stdout.write(f"{line.removeprefix(f'{known}=')}\n")


def runs(incomplete: str) -> list[str]:
    """Run directories in the folder that was typed so far, and one below it."""
    with contextlib.suppress(Exception):
        folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
        near = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
        below = (run for one in near if not _is_run(one) for run in sorted(one.iterdir()) if _is_run(run))
        found = [str(one) for one in (*filter(_is_run, near), *below)]
        return [one for one in found if one.startswith(incomplete.removeprefix("./"))]
    return []


def _is_run(folder: Path) -> bool:
    return (folder / "run.db").is_file()


def variables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the run's variables."""
    return [one.name for one in _variables_of(ctx) if one.name.startswith(incomplete)]


def outcomes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the variables that are measured."""
    from insitu.orchestrator.plan.types import Role

    return [
        one.name for one in _variables_of(ctx) if one.role is Role.MEASURED and one.name.startswith(incomplete)
    ]


def assignments(ctx: typer.Context, incomplete: str) -> list[str]:
    """A variable with its equals sign; after that, the levels that the plan has for it."""
    name, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{one.name}=" for one in _variables_of(ctx) if one.name.startswith(name)]
    return [text for level in _levels_of(ctx, name) if (text := f"{name}={level}").startswith(incomplete)]


def levels_of_cause(ctx: typer.Context, incomplete: str) -> list[str]:
    """Levels that the plan has for the cause of an effect."""
    named = [text for text in ctx.args if not text.startswith("-")]
    cause = ctx.params.get("cause") or "".join(named[1:2])
    return [level for level in _levels_of(ctx, cause) if level.startswith(incomplete)]


def trials(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Numbers of the trials that have a result, each with its state and how long it took."""
    shown = []
    for trial in _trials_of(ctx):
        number = str(trial.planned.trial)
        if trial.record is not None and number.startswith(incomplete):
            shown.append((number, f"{trial.state.value}, {trial.record.duration_s:.3g} s"))
    return shown[:_MOST_TRIALS]


def _run_of(ctx: typer.Context) -> Path | None:
    """The run directory; while an option waits for its value, click has not told the arguments yet."""
    run = ctx.params.get("run") or next((text for text in ctx.args if not text.startswith("-")), None)
    return Path(run) if run is not None else None


def _plan_of(ctx: typer.Context) -> Plan | None:
    from insitu.orchestrator import experiment
    from insitu.orchestrator.store.run import RunStore

    run = _run_of(ctx)
    if run is not None:
        with contextlib.suppress(Exception), RunStore.open(run, read_only=True) as store:
            return experiment.read_stored(store)[0]
    return None


def _variables_of(ctx: typer.Context) -> Iterator[Variable]:
    """All that have a level in some trial."""
    from insitu.orchestrator.plan.types import Role

    plan = _plan_of(ctx)
    if plan is not None:
        yield from (one for one in plan.model.variables.values() if one.role is not Role.LATENT)


def _levels_of(ctx: typer.Context, name: str) -> Iterator[str]:
    """Without a space, which a shell would take for the end of a word."""
    plan = _plan_of(ctx)
    for factor in plan.factors if plan is not None else ():
        if factor.variable == name and plan is not None:
            variable = plan.model.variables[name]
            yield from (variable.spell(level, 6).replace(" ", "") for level in factor.levels)


def _trials_of(ctx: typer.Context) -> tuple[StoredTrial, ...]:
    from insitu.orchestrator.store.run import RunStore

    run = _run_of(ctx)
    if run is not None:
        with contextlib.suppress(Exception), RunStore.open(run, read_only=True) as store:
            return store.trials()
    return ()


Run = Annotated[
    Path, typer.Argument(help="A run directory, as in runs/sort.", show_default=False, autocompletion=runs)
]
"""The argument that most commands begin with."""
Trial = Annotated[
    int,
    typer.Option("--trial", metavar="N", help="The trial's number.", show_default=False, autocompletion=trials),
]
"""The trial that a question is about."""
