"""``insitu schema``: the JSON Schema of plans and models."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """Which kind of file."""

    PLAN = "plan"
    MODEL = "model"


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which kind of file.")] = Kind.PLAN,
) -> None:
    """Print the JSON Schema, for editors that complete YAML."""
    from insitu.orchestrator.plan import schema as schemas

    document = schemas.plan_schema() if kind is Kind.PLAN else schemas.model_schema()
    typer.echo(json.dumps(document, indent=2))
