"""What the commands that put a question to a run share: levels as arguments, and the answer's printing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from insitu.orchestrator.cli.saying import say

if TYPE_CHECKING:
    from insitu.orchestrator.api.shown import Shown


def read_assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read an option that is given once per variable, as VARIABLE=LEVEL; the levels stay text.

    Raises
    ------
    InputError
        If one is not of that form, or a variable is given twice.
    """
    from insitu.orchestrator.errors import InputError

    levels: dict[str, str] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not (name and equals and level):
            raise InputError(
                f"{option} takes VARIABLE=LEVEL, not {text!r}", hint=f"for example {option} cpu_cores=0.3"
            )
        if name in levels:
            raise InputError(f"{option} gives {name} two levels", hint="give it one")
        levels[name] = level
    return levels


def print_answer(answer: Shown, *, as_json: bool) -> None:
    """Print an answer for a reader, or as one JSON document."""
    if as_json:
        typer.echo(json.dumps(answer.document(), allow_nan=False))
    else:
        say(answer.text())
