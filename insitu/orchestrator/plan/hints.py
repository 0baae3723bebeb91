"""The nearest valid name, for the hints of faults."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 12


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
