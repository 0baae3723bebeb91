"""The words that a variable has in the place of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.measurements import NODE
from insitu.orchestrator.plan.model_types import Category
from insitu.orchestrator.plan.values import CATEGORY, MAX_CATEGORIES

_WORD = re.compile(CATEGORY)
_TAKEN = "unlimited"


def resolve_categories(entry: located.Entry, source: str | None, faults: FaultList) -> tuple[Category, ...]:
    """Read the categories of a variable; empty with a fault.

    Parameters
    ----------
    source
        The measurement that gives the variable; ``None`` for a parameter of the subject.
    """
    before = len(faults.faults)
    found = tuple(_categories(entry.value, source, faults))
    if len(faults.faults) == before and not 2 <= len(found) <= MAX_CATEGORIES:
        message = f"{len(found)} categor{'y is' if len(found) == 1 else 'ies are'} not 2 to {MAX_CATEGORIES}"
        faults.at(entry.value, message, "a variable with one value is no variable")
    return found if len(faults.faults) == before else ()


def _categories(node: located.Node, source: str | None, faults: FaultList) -> Iterator[Category]:
    seen: set[str] = set()
    if isinstance(node, located.Sequence):
        for item in node.items:
            if (word := _word(item, seen, faults)) is not None:
                yield Category(word)
    elif isinstance(node, located.Mapping) and source == NODE:
        for one in node.entries:
            word = _word(one.key, seen, faults)
            members = tuple(_members(one.value, seen, faults))
            if word is not None:
                yield Category(word, members)
    else:
        hint = "as in [ssd, hdd]" if source != NODE else "as in [worker-1, worker-2], or {large: [worker-1]}"
        faults.at(node, f"categories are a list, not {located.describe(node)}", hint)


def _word(node: located.Node, seen: set[str], faults: FaultList) -> str | None:
    text = node.text if isinstance(node, located.Scalar) else None
    if text is None or not _WORD.match(text) or text == _TAKEN:
        hint = "letters, digits, '.', '_' and '-', at most 64; 'unlimited' has its meaning already"
        faults.at(node, f"{located.describe(node)} is not a word for a category", hint)
        return None
    return _once(text, node, seen, faults)


def _members(node: located.Node, seen: set[str], faults: FaultList) -> Iterator[str]:
    if not isinstance(node, located.Sequence) or not node.items:
        faults.at(node, f"expected a list of nodes, found {located.describe(node)}", "as in [worker-1, worker-2]")
        return
    for item in node.items:
        text = item.text if isinstance(item, located.Scalar) else None
        if not text:
            faults.at(item, f"expected the name of a node, found {located.describe(item)}", "as in worker-1")
        elif (name := _once(text, item, seen, faults)) is not None:
            yield name


def _once(text: str, node: located.Node, seen: set[str], faults: FaultList) -> str | None:
    if text in seen:
        faults.at(node, f"'{text}' appears twice", "each word and each node belongs to one category")
        return None
    seen.add(text)
    return text
