"""The JSON Schemas of plans, models and inventories, for editors."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from insitu.orchestrator.plan.schema import (
    INVENTORY_REQUIRED,
    MODEL_REQUIRED,
    PLAN_REQUIRED,
    Document,
    InventoryDocument,
    ModelDocument,
    PlanDocument,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """JSON Schema without ``null``: a key that has no value is left out of the file."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def plan_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of plan files, for editors."""
    return _schema(PlanDocument, PLAN_REQUIRED)


def model_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of model files, for editors."""
    return _schema(ModelDocument, MODEL_REQUIRED)


def inventory_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of inventories, for editors."""
    return _schema(InventoryDocument, INVENTORY_REQUIRED)


def _schema(document: type[Document], required: tuple[str, ...]) -> dict[str, Any]:
    schema = document.model_json_schema(schema_generator=_Generator)
    version = {"const": 1, "default": 1, "description": "Version of this format.", "title": "Version"}
    schema["properties"]["version"] = version
    for name, field in document.model_fields.items():  # some are lost where a key refers to a definition
        schema["properties"][name]["description"] = field.description
    return {"$schema": DIALECT, **schema, "required": list(required)}
