"""Who guards the guards: the command looks, while it waits, whether its agent still has one.

An agent replaces a guard that was killed or stopped, and a guard ends an agent that was stopped. If both happen at
once, neither can help the other, and nothing would end the trial. The command is alive, so it does.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import inventory, recovery
from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState
from insitu.injectors.guard import LEASE_S
from insitu.injectors.journal import Header, read
from insitu.injectors.processes import Process, is_stopped

_HUNG_S = 4 * LEASE_S
"""An agent that is not stopped has had time for another guard after so long, on a starved machine, too."""


@dataclass(slots=True)
class _Ward:
    """A journal whose guard is looked after.

    Attributes
    ----------
    guard
        The one that was last seen at work.
    unguarded_since
        On the monotonic clock; infinite while a guard is at work, or before the first one is.
    """

    guard: Process | None = None
    unguarded_since: float = math.inf


class Oversight:
    """Looks after the journals of a run's agents.

    Parameters
    ----------
    mark
        The run's. A copy of the run may be executed by another command; its agents have the same.
    command
        The owner of the agents' journals.
    own_journal
        The command's, which has no agent.
    notice
        Takes the reason why an agent was ended.
    """

    def __init__(self, mark: Ownership, command: Process, own_journal: Path, notice: Path) -> None:
        self._mark = mark
        self._command = command
        self._own_journal = own_journal
        self._notice = notice
        self._wards: dict[Path, _Ward] = {}

    def look(self) -> None:
        """Undo what an agent holds that can do nothing any more, and has no guard; a few system calls else."""
        with contextlib.suppress(OSError):  # what cannot be looked at now is looked at again soon
            for journal in recovery.journals(self._own_journal.parent):
                if self._is_ward(journal):
                    self._look_at(journal, self._wards.setdefault(journal, _Ward()))

    def _is_ward(self, journal: Path) -> bool:
        if journal in self._wards:
            return True
        if not self._mark.owns(journal) or journal == self._own_journal:
            return False
        header = _header_of(journal)
        return header is not None and header.owner == self._command

    def _look_at(self, journal: Path, ward: _Ward) -> None:
        now = time.monotonic()
        if not _at_work(ward.guard):
            found = next(
                (one for one, guarded in inventory.guards() if guarded == journal and _at_work(one)), None
            )
            # one that was never seen may be about to start, but not by an agent that is stopped
            if found is None and (ward.guard is not None or _holder_is_stopped(journal)):
                ward.unguarded_since = min(ward.unguarded_since, now)
            ward.guard = found or ward.guard
        if _at_work(ward.guard):
            ward.unguarded_since = math.inf
        if now - ward.unguarded_since > (LEASE_S if _holder_is_stopped(journal) else _HUNG_S):
            with contextlib.suppress(OSError):  # a full disk must not keep anybody from the undo
                self._notice.write_text("it was stopped, and its guard had been ended or stopped")
            recovery.recover_journal(journal, even_if_alive=self._command)


def _at_work(guard: Process | None) -> bool:
    return guard is not None and guard.alive() and not is_stopped(guard.pid)


def _holder_is_stopped(journal: Path) -> bool:
    header = _header_of(journal)
    return header is not None and header.holder.alive() and is_stopped(header.holder.pid)


def _header_of(journal: Path) -> Header | None:
    try:
        return read(journal).header
    except (ForeignState, OSError):
        return None
