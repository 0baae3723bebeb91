"""Files to located trees, and trees to schema documents; every fault is kept with its place."""

from __future__ import annotations

import typing
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import as_list, nearest, suggest
from insitu.orchestrator.plan.located import (
    FaultList,
    Mapping,
    Node,
    Plain,
    Scalar,
    Sequence,
    advance,
    compose,
    describe,
    plain,
)
from insitu.orchestrator.plan.regular_file import read_regular

MAX_BYTES = 256 * 1024
"""A plan is written by hand; more than this is another file."""

T = TypeVar("T", bound=BaseModel)
Place = tuple[int | str, ...]


def read_file(path: Path, what: str) -> bytes:
    """Read a file of at most `MAX_BYTES`.

    Raises
    ------
    InputError
        If there is no such file, it cannot be read, or it is too large.
    """
    try:
        if not path.is_file() and path.exists():
            kind = "a directory" if path.is_dir() else "not a regular file"
            raise InputError(f"{path} is {kind}, not a {what} file", hint=_instead(path), path=str(path))
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"there is no {what} file {path}", hint=_neighbour(path), path=str(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"the {what} file {path} cannot be read: {reason}",
            hint="check the path, and the permissions of the file and of its folders",
            path=str(path),
        ) from error
    if len(content) > MAX_BYTES:
        raise InputError(
            f"{path} is larger than {MAX_BYTES // 1024} KiB, too large for a {what} file",
            hint=f"is this the right file? a {what} is YAML of a few lines",
            path=str(path),
        )
    return content


def _instead(path: Path) -> str | None:
    found = sorted(path.glob("*.y*ml"))[:1] if path.is_dir() else []
    return f"name a file in it, such as {found[0]}" if found else "name a YAML file"


def _neighbour(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no folder {path.parent} either" if not path.parent.exists() else "check the path"
    near = nearest(path.name, names)
    return f"did you mean {path.parent / near}?" if near else "check the path"


BEGIN = "write one with `insitu new`"
"""What to do about a plan or a model that is empty."""


def decode(content: bytes, faults: FaultList, begin: str = BEGIN) -> str:
    """Decode a file's text; a fault says where it is not UTF-8, or that it is empty."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        line, column = advance(before, len(before), 1, 1)
        faults.add(line, column, "not UTF-8 text", "save the file as UTF-8")
        return ""
    if not text.strip():
        faults.add(0, 0, "the file is empty", begin)
    return text


def read_root(text: str, what: str, faults: FaultList, begin: str = BEGIN) -> Mapping | None:
    """Compose a file's text into its top-level mapping."""
    if faults.faults:
        return None
    root = compose(text, faults)
    if isinstance(root, Mapping):
        return root
    if root is not None:
        article = "an" if what[0] in "aeiou" else "a"
        faults.at(root, f"{article} {what} is a mapping of keys to values, not {describe(root)}")
    elif not faults.faults:
        faults.add(0, 0, "the file is empty", begin)
    return None


def read_document(root: Mapping, document: type[T], required: tuple[str, ...], faults: FaultList) -> T | None:
    """Validate a tree against a document class.

    Every fault is reported. The parts that have one are left out of the result (which is why the top-level
    keys of a document are optional), so that the other parts can still be checked.

    Parameters
    ----------
    required
        Top-level keys that must be there, and not be empty.
    """
    for key in required:
        entry = root.entry(key)
        if entry is None:
            faults.at(root, f"the key '{key}' is missing", _about(document, key))
        elif plain(entry.value) is None:
            faults.at(entry.key, f"'{key}' has no value", _about(document, key))
    data: Plain = plain(root)
    for attempt in range(100):
        try:
            return document.model_validate(data)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                if attempt == 0:
                    _report(root, document, detail, faults)
                data = _without(data, _cut(detail))
    return None  # pragma: no cover - each attempt removes at least one key


def _about(document: type[BaseModel], key: str) -> str | None:
    return document.model_fields[key].description if key in document.model_fields else None


def _cut(detail: ErrorDetails) -> Place:
    """The innermost key that must go for this error to vanish."""
    place = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == "missing":
        place = place[:-1]
    while place and not isinstance(place[-1], str):
        place = place[:-1]
    return place


def _without(data: Plain, place: Place) -> Plain:
    if not isinstance(data, dict) or not place or place[0] not in data:
        return data
    head = str(place[0])
    if len(place) == 1:
        return {key: value for key, value in data.items() if key != head}
    return {key: _without(value, place[1:]) if key == head else value for key, value in data.items()}


def _report(root: Mapping, document: type[BaseModel], detail: ErrorDetails, faults: FaultList) -> None:
    place, kind = detail["loc"], detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "missing":
        node = _find(root, place[:-1])
        inner = _document_at(document, place[:-1])
        faults.at(node, f"the key '{place[-1]}' is missing", _about(inner, str(place[-1])) if inner else None)
        return
    if kind == "extra_forbidden":
        holder = _find(root, place[:-1])
        entry = holder.entry(str(place[-1])) if isinstance(holder, Mapping) else None
        inner = _document_at(document, place[:-1])
        names = [field.alias or one for one, field in inner.model_fields.items()] if inner else []
        faults.at(entry.key if entry else holder, f"unknown key '{place[-1]}'", suggest(str(place[-1]), names))
        return
    node = _find(root, place)
    if place == ("version",):
        faults.at(node, f"version {describe(node)} of this format is not known", "this insitu reads version 1")
        return
    if place and place[-1] == "[key]":
        holder = _find(root, place[:-2])
        entry = holder.entry(str(place[-2])) if isinstance(holder, Mapping) else None
        node = entry.key if entry else holder
    message, hint = _explain(node, kind, context, detail["msg"])
    if kind == "tuple_type" and isinstance(node, Scalar) and _is_command(place):
        hint = as_list(node.text or "")
    if message.startswith("must"):
        message = f"'{next((part for part in reversed(place) if isinstance(part, str)), 'it')}' {message}"
    faults.at(node, message, hint)


def _is_command(place: Place) -> bool:
    return place[-1] in ("command", "prepare") or place[-2:-1] == ("data",)


def _explain(node: Node, kind: str, context: dict[str, Any], message: str) -> tuple[str, str | None]:
    """Say in the words of the file what pydantic found, with a hint."""
    found = describe(node)
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {found}", None
    if kind == "literal_error":
        names = [name.strip("'") for name in str(context["expected"]).replace(" or ", ", ").split(", ")]
        return f"must be {context['expected']}, not {found}", suggest(found.strip("'"), names)
    if kind in _BOUNDS:
        relation, key = _BOUNDS[kind]
        return f"must be {relation} {context[key]:g}, not {found}", None
    if kind == "finite_number":
        return f"must be a finite number, not {found}", None
    if kind == "string_pattern_mismatch":
        if "->" in str(context["pattern"]):
            return f"must read 'cause -> outcome', not {found}", "as in 'cpu_cores -> runtime'"
        return f"must be letters, digits, '.', '_' and '-', not {found}", "start with a letter or a digit"
    if kind in ("too_short", "too_long"):
        bound = "at least" if kind == "too_short" else "at most"
        number = context["min_length" if kind == "too_short" else "max_length"]
        size = len(node.items) if isinstance(node, Sequence) else 0
        return f"must have {bound} {number} value{'s' if number != 1 else ''}, not {size}", None
    if kind == "string_too_short":
        return "must not be empty", None
    return message.removeprefix("Value error, "), None


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _find(node: Node, place: Place) -> Node:
    """The node at a place, or the innermost one on the way to it."""
    for part in place:
        if isinstance(node, Mapping):
            entry = node.entry(str(part))
            if entry is None:
                break
            node = entry.value
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            break
    return node


def _document_at(document: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """The document class that validates a place."""
    here: Any = document
    for part in place:
        if isinstance(here, type) and issubclass(here, BaseModel):
            if part not in here.model_fields:
                return None
            here = _bare(here.model_fields[str(part)].annotation)
        else:
            arguments = typing.get_args(here)
            here = _bare(arguments[1]) if typing.get_origin(here) is dict else None
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _bare(annotation: Any) -> Any:
    """Drop ``Annotated`` and ``| None``."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (UnionType, typing.Union):
        return _bare(next(arm for arm in typing.get_args(annotation) if arm is not type(None)))
    return annotation
