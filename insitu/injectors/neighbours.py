"""Other runs that execute on this node now, by their journals. Two runs on one node disturb each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from insitu.injectors import journal, recovery
from insitu.injectors.errors import ForeignState
from insitu.injectors.journal import Header


def other_runs(run: str, folder: Path | None = None) -> tuple[Header, ...]:
    """One header per other run of this user whose owner is alive, the one that began first in front."""
    found: dict[str, Header] = {}
    for path in recovery.journals(folder):
        try:
            header = journal.read(path).header
        except (ForeignState, FileNotFoundError):  # not ours to read, or gone meanwhile
            continue
        if header is not None and header.run != run and header.owner_is_alive():
            found.setdefault(header.run, header)
    return tuple(sorted(found.values(), key=_began))


def before(own: Header, others: Sequence[Header]) -> tuple[Header, ...]:
    """Those of `others` that go first: of two that begin at the same time, only one may go on."""
    return tuple(other for other in others if _began(other) < _began(own))


def _began(header: Header) -> tuple[int, int]:
    return int(header.owner_start or 0), header.owner_pid
