"""YAML text as a tree that remembers where everything stands.

The tree is built from PyYAML's event stream, not from its constructors: no tag is resolved, no object is
made, and depth and size are bounded before anything is allocated for an alias. Scalars stay as written, so
that ``no``, ``1:30`` and ``010`` mean what they look like; the schema decides their type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from insitu.orchestrator.errors import Fault, FaultyFile
from insitu.orchestrator.printable import printable

MAX_DEPTH = 32
MAX_MESSAGE = 300
"""Characters of a fault's message, which may quote the file."""
MAX_NODES = 5_000
"""Nodes of a file after its aliases are written out."""

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchor and tag in front of a value."""
_NULLS = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts.

    Attributes
    ----------
    text
        As written, without quotes and escapes; ``None`` for an empty value and ``null``.
    raw, raw_line, raw_column
        The source between the quotes, with its line breaks, and where that starts.
    """

    text: str | None
    line: int
    column: int
    raw: str = ""
    raw_line: int = 0
    raw_column: int = 0
    size: int = 1

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character of `raw`."""
        return advance(self.raw, offset, self.raw_line, self.raw_column)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    line: int
    column: int
    size: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with values, each key once."""

    entries: tuple[Entry, ...]
    line: int
    column: int
    size: int = 1

    def entry(self, key: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.key.text == key), None)

    def keys(self) -> tuple[str, ...]:
        return tuple(entry.key.text or "" for entry in self.entries)


Node = Scalar | Sequence | Mapping
Plain = str | None | list["Plain"] | dict[str, "Plain"]


def advance(text: str, offset: int, line: int, column: int) -> tuple[int, int]:
    """Line and column of ``text[offset]``, if ``text[0]`` stands at `line` and `column`."""
    before = text[:offset]
    breaks = before.count("\n")
    return (line + breaks, offset - before.rfind("\n")) if breaks else (line, column + offset)


def plain(node: Node) -> Plain:
    """Drop the positions: text, lists and dicts."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {entry.key.text or "": plain(entry.value) for entry in node.entries}


def describe(node: Node) -> str:
    """What a node is, for a message: ``a list``."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    return "nothing" if node.text is None else f"'{node.text}'"


@dataclass(slots=True)
class FaultList:
    """Faults of one file, collected until all of it has been read.

    Each is there once: an anchor's fault is met again at each of its aliases.
    """

    path: Path
    faults: dict[Fault, None] = field(default_factory=dict)

    def at(self, node: Node, message: str, hint: str | None = None) -> None:
        self.add(node.line, node.column, message, hint)

    def add(self, line: int, column: int, message: str, hint: str | None = None) -> None:
        fault = Fault(self.path, line, column, _shown(message), hint and _shown(hint))
        self.faults[fault] = None


def _shown(text: str) -> str:
    """Escape what could steer the reader's terminal, and cut what would flood it."""
    cut = text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."
    return printable(cut)


def raise_all(*lists: FaultList) -> None:
    """Raise one `FaultyFile` with the faults of all lists, if there are any."""
    faults = tuple(fault for one in lists for fault in one.faults)
    if faults:
        raise FaultyFile(faults=faults)


class _UnreadableError(Exception):
    """The rest of the file cannot be read; the fault is already in the list."""


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been met."""

    start: yaml.Event
    children: list[Node] = field(default_factory=list)


def compose(source: str, faults: FaultList) -> Node | None:
    """Read the one YAML document in `source`.

    Returns
    -------
    Node or None
        ``None`` if it cannot be read; what is wrong is then in `faults`. Duplicate keys, tags and merge keys
        are put into `faults` too, but reading goes on.
    """
    builder = _Builder(source, faults)
    try:
        for event in yaml.parse(source, Loader=yaml.SafeLoader):
            builder.take(event)
    except _UnreadableError:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        faults.add(line, column, f"not valid YAML: {what}", _syntax_hint(what))
        return None
    except yaml.reader.ReaderError as error:
        line, column = advance(source, error.position, 1, 1)
        faults.add(line, column, f"the character {error.character!r} is not allowed in YAML", "remove it")
        return None
    return builder.root


def _syntax_hint(what: str) -> str:
    if "\\t" in what:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in what:
        return "put text that contains ': ' in quotes, and check the indentation"
    return "check brackets, quotes and the indentation near here"


def _mark(mark: Any) -> yaml.Mark:
    """The place of an event; only an event that was made by hand has none."""
    if not isinstance(mark, yaml.Mark):
        raise TypeError("an event without a place")
    return mark


class _Builder:
    """Turns events into nodes without recursion."""

    def __init__(self, source: str, faults: FaultList) -> None:
        self.root: Node | None = None
        self._source = source
        self._faults = faults
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._take_node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            node = self._close(done)
            anchor = getattr(done.start, "anchor", None)
            if anchor is not None:
                self._anchors[anchor] = node
            self._place(node)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            self._stop(event, "a second document starts here", "one file holds one document; remove '---'")

    def _take_node(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._place(self._alias(event))
            return
        if (tag := getattr(event, "tag", None)) is not None:
            self._fault(event, f"the tag '{tag}' is not supported", "remove it; tags are never executed")
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = node
            self._place(node)
            return
        if len(self._open) >= MAX_DEPTH:
            self._stop(event, f"nested more than {MAX_DEPTH} deep", "check the brackets")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(event))

    def _alias(self, event: yaml.AliasEvent) -> Node:
        if event.anchor not in self._anchors:
            self._stop(event, f"the alias '*{event.anchor}' has no anchor", f"define '&{event.anchor}' above")
        node = self._anchors[event.anchor]
        if node is None:
            self._stop(event, f"the alias '*{event.anchor}' contains itself", "write the value out")
        self._count(event, node.size)
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        self._count(event, 1)
        text = None if event.style is None and event.value in _NULLS else event.value
        start, end = _mark(event.start_mark), _mark(event.end_mark)
        line, column = start.line + 1, start.column + 1
        raw = self._source[start.index : end.index]
        if event.anchor is not None or event.tag is not None:
            properties = _PROPERTIES.match(raw)
            before = properties.end() if properties else 0
            line, column = advance(raw, before, line, column)
            raw = raw[before:]
        raw_line, raw_column = line, column
        if event.style in ("'", '"'):
            raw, raw_column = raw[1:-1], column + 1
            if "\\" in raw or "''" in raw:
                raw = event.value
        elif event.style in ("|", ">"):
            raw, raw_line, raw_column = raw.partition("\n")[2], line + 1, 1
        raw_line, raw_column = advance(raw, len(raw) - len(raw.lstrip()), raw_line, raw_column)
        return Scalar(text, line, column, raw.strip(), raw_line, raw_column)

    def _close(self, done: _Open) -> Node:
        self._count(done.start, 1)
        mark = _mark(done.start.start_mark)
        size = 1 + sum(child.size for child in done.children)
        if isinstance(done.start, yaml.SequenceStartEvent):
            return Sequence(tuple(done.children), mark.line + 1, mark.column + 1, size)
        return Mapping(tuple(self._entries(done.children)), mark.line + 1, mark.column + 1, size)

    def _entries(self, children: list[Node]) -> Iterator[Entry]:
        seen: dict[str, Scalar] = {}
        for key, value in zip(children[::2], children[1::2], strict=True):
            if not isinstance(key, Scalar) or key.text is None:
                self._faults.at(
                    key, f"a key must be a name, not {describe(key)}", "put text with braces in quotes"
                )
            elif key.text == "<<":
                self._faults.at(key, "merge keys are not supported", "write the keys out")
            elif key.text in seen:
                first = seen[key.text]
                self._faults.at(
                    key, f"the key '{key.text}' appears twice", f"first on line {first.line}; keep one"
                )
            else:
                seen[key.text] = key
                yield Entry(key, value)

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node

    def _count(self, event: yaml.Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._stop(event, f"more than {MAX_NODES} values, counting aliases", "write fewer, or no aliases")

    def _fault(self, event: yaml.Event, message: str, hint: str) -> None:
        mark = _mark(event.start_mark)
        self._faults.add(mark.line + 1, mark.column + 1, message, hint)

    def _stop(self, event: yaml.Event, message: str, hint: str) -> NoReturn:
        self._fault(event, message, hint)
        raise _UnreadableError
