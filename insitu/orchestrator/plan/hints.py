"""The nearest valid name, for the hints of faults."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterable

_SHOWN = 12
_PLAIN = re.compile(
    r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z_/.][\w/.+=-]*|--?[A-Za-z][\w=-]*", re.IGNORECASE
)
"""Words that are the same text in YAML without quotation marks."""
_FOR_A_SHELL = re.compile(r"[|&;<>()$`*?~]")


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name most like `name`, or ``None`` if none is at least `cutoff` alike (0 to 1)."""
    candidates = list(names)
    exact = {candidate.casefold(): candidate for candidate in candidates}
    if name.casefold() in exact:
        return exact[name.casefold()]
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=cutoff)
    return found[0] if found else None


def suggest(name: str, names: Iterable[str]) -> str | None:
    """Write the hint for a name that is not among `names`; ``None`` if there is nothing to choose from."""
    candidates = list(names)
    near = nearest(name, candidates)
    if near is not None:
        return f"did you mean '{near}'?"
    if not candidates:
        return None
    more = ", ..." if len(candidates) > _SHOWN else ""
    return "valid here: " + ", ".join(candidates[:_SHOWN]) + more


def as_list(command: str) -> str:
    """Write the hint for a command that was given as one text: the list of its arguments, in YAML."""
    try:
        words = ["sh", "-c", command] if _FOR_A_SHELL.search(command) else shlex.split(command)
    except ValueError:  # a quotation mark that is never closed
        words = []
    example = ", ".join(word if _PLAIN.fullmatch(word) else json.dumps(word, ensure_ascii=False) for word in words)
    return f"a command is a list: [{example}]" if words else "a command is a list of its arguments"
