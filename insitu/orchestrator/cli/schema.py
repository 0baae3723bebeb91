"""``insitu schema``: the JSON Schema of plans, models and inventories."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """Which kind of file."""

    PLAN = "plan"
    MODEL = "model"
    INVENTORY = "inventory"


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which kind of file.")] = Kind.PLAN,
) -> None:
    """Print the JSON Schema, for editors that complete YAML."""
    from insitu.orchestrator.plan import json_schema

    of_kind = {
        Kind.PLAN: json_schema.plan_schema,
        Kind.MODEL: json_schema.model_schema,
        Kind.INVENTORY: json_schema.inventory_schema,
    }
    typer.echo(json.dumps(of_kind[kind](), indent=2))
