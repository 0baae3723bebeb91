"""Single values as YAML has them: quantities, commands, names and categories, each with its JSON Schema."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
from insitu.orchestrator.units import UnitError, dimension_of, parse_quantity

_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"


def _argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("an argument must not contain a NUL character")
    return text


def _file_name(text: str) -> str:
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        raise ValueError(f"'{text}' is not a plain file name")
    return text


def _environment_name(text: str) -> str:
    if not text or "=" in text or "\0" in text:
        raise ValueError(f"'{text}' is not a name for an environment variable")
    return text


def _unit(text: str) -> str:
    try:
        dimension_of(text)
    except UnitError as error:
        raise ValueError(f"'{text}' is not a unit") from error
    return text


def quantity_of(text: str, unit: str) -> float:
    """Read a quantity as YAML has it: a bare number is in `unit`.

    Raises
    ------
    UnitError
        As `insitu.orchestrator.units.parse_quantity`.
    """
    return parse_quantity(float(text) if is_bare(text) else text, unit)


def is_bare(text: str) -> bool:
    """Whether a quantity is a number without a unit."""
    return re.fullmatch(_NUMBER, text.strip()) is not None


def _positive(unit: str) -> AfterValidator:
    def check(text: str) -> str:
        try:
            value = quantity_of(text, unit)
        except UnitError as error:
            raise ValueError(str(error)) from error
        if not 0 < value < float("inf"):
            raise ValueError(f"'{text}' is not above zero and finite")
        return text

    return AfterValidator(check)


_AS_QUANTITY = WithJsonSchema({"type": ["number", "string"]})
Quantity = Annotated[str, _AS_QUANTITY]
Duration = Annotated[str, _positive("s"), _AS_QUANTITY]
Share = Annotated[str, _positive("fraction"), _AS_QUANTITY]
Size = Annotated[str, _positive("B"), _AS_QUANTITY]
_AS_CONDITION = WithJsonSchema(
    {
        "type": "string",
        "pattern": rf"^\s*({'|'.join(map(re.escape, HOST_QUANTITIES))})\s*[<>]=?\s*[^<>=\s]",
        "examples": ["host.cpu.pressure_avg10 > 80%", "host.memory.available < 2 GB"],
    }
)
CATEGORY = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
MAX_CATEGORIES = 100
_WORD = {"type": ["string", "number"], "pattern": CATEGORY}
_AS_CATEGORIES = WithJsonSchema(
    {
        "anyOf": [
            {"type": "array", "items": _WORD, "minItems": 2, "maxItems": MAX_CATEGORIES},
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "minProperties": 2,
                "maxProperties": MAX_CATEGORIES,
            },
        ],
        "examples": [["ssd", "hdd"], {"large": ["worker-1", "worker-2"], "small": ["worker-3"]}],
    }
)
Argument = Annotated[str, AfterValidator(_argument), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Command = Annotated[tuple[Argument, ...], Field(min_length=1)]
Unit = Annotated[str, AfterValidator(_unit)]
EnvironmentName = Annotated[str, AfterValidator(_environment_name)]
FileName = Annotated[str, AfterValidator(_file_name)]
Cores = Annotated[str, _positive("core"), _AS_QUANTITY]
DiskRate = Annotated[str, _positive("B/s"), _AS_QUANTITY]
ConditionText = Annotated[str, _AS_CONDITION]
Categories = Annotated[object, _AS_CATEGORIES]
