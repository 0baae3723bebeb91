"""A run's session: helpers that a foreign library (ray) starts for it, with a folder of their own.

They are ours if their environment says so: whatever ray starts inherits it, and nothing else does. Somebody
who only looks into the folder, with a pager or an editor, is not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from insitu.injectors.contract import Ownership
from insitu.injectors.processes import Process, all_pids, environment_of
from insitu.injectors.undo import Undo, UndoKind, carry_out_all

VARIABLE = "INSITU_SESSION"
"""Names the session's folder in the environment of its helpers."""
_QUIET_ROUNDS, _ROUND_S = 4, 0.1
"""How long a dead owner's helpers must stay away before they count as gone."""


@contextmanager
def inherited(folder: Path) -> Iterator[None]:
    """Mark processes that are started inside this context, and those that they start, as the session's."""
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def members(folder: Path) -> list[Process]:
    """The session's processes."""
    found: list[Process] = []
    for pid in all_pids():
        process = Process.of(pid)  # before the look: whoever has the pid later is not meant
        if f"{VARIABLE}={folder}" in environment_of(pid) and pid != os.getpid():
            found.append(process)
    return found


def end(
    folder: Path, owner: Ownership, *, quiet_rounds: int = _QUIET_ROUNDS, within_s: float = 8.0
) -> tuple[str, ...]:
    """End the session's processes and delete its folder, until neither has come back; gives the failures.

    Parameters
    ----------
    quiet_rounds
        How often in a row there must be nothing: a helper that is being started while the others are ended is
        seen only in the next round, and may have made the folder again. Once is enough after an orderly end.
    """
    if not owner.owns(folder):
        return (f"{folder} does not carry the mark {owner.prefix}; left alone",)
    failures: tuple[str, ...] = ()
    deadline = time.monotonic() + within_s
    quiet = 0
    while True:
        left = members(folder)
        quiet = quiet + 1 if not left and not folder.exists() else 0
        if quiet == quiet_rounds:
            return ()
        undos = [Undo(UndoKind.PROCESS, f"/proc/{process.pid}", process.started) for process in left]
        failures = carry_out_all([*undos, Undo(UndoKind.FOLDER, str(folder))], owner)
        if time.monotonic() > deadline:
            return failures or (f"processes of {folder} come back as often as they are ended",)
        if left or quiet:
            time.sleep(_ROUND_S)
