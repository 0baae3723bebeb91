"""The guard: a small process per journal that undoes everything when whoever ran trials is gone, or silent.

Its lease ends with the holder's end (its pipe closes), with the owner's end (the process that the user
started), with that of its keeper (the process that takes the holder's results), when the holder has not renewed
it for a period (it is stopped, hung or starved), and when a deadline that the holder has set passes. The guard
then ends the holder, so that it cannot wake up and apply levels to a node that is called clean, and undoes what
the journal holds. When the owner is gone, it goes on with the owner's other journals, whose guards may have been
killed with it: of all guards of a command and its agents, one is enough.

It is started by `insitu.injectors.lease`, twice removed from the holder, so that nobody who cleans up the
holder's children ends it, too. Run as ``python -m insitu.injectors.guard``; imports nothing beyond the standard
library and this package.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import select
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import journal as journals
from insitu.injectors import recovery
from insitu.injectors.errors import ForeignState
from insitu.injectors.processes import Process

LEASE_S = 2.0
"""How long a holder may be silent; everything is undone one second later at the latest."""
RENEW, LIMIT, UNLIMIT, ENDURE, FAREWELL = "renew", "limit", "unlimit", "endure", "farewell"
"""What a holder says, one word per line; ``limit`` is followed by a time on the monotonic clock, and after
``endure`` silence means nothing."""
_LATE_S = 0.25
"""A guard that wakes so much later than it wanted to was itself stopped or starved."""
_UNDO_S = 60.0


class End(StrEnum):
    """Why a lease has ended, for the user."""

    HOLDER = "it ended by itself"
    OWNER = "the command that it worked for ended"
    KEEPER = "the part of ray that takes its results ended"
    SILENCE = f"it gave no sign of life for {LEASE_S:g} s: stopped, hung, or starved of processor time or memory"
    DEADLINE = "it was still at a trial after the time by which every trial has ended"


@dataclass(slots=True)
class Term:
    """How long the holder may go on; all times are on the monotonic clock, in seconds.

    That clock stands still while the machine sleeps, for the holder's own timeouts as for this.

    Attributes
    ----------
    period_s
        Longest silence; infinite where the holder's silence means nothing.
    """

    period_s: float
    renewed_at: float
    limit: float = math.inf
    _spared_until: float = -math.inf
    _spared: bool = False

    @property
    def end(self) -> float:
        """When the lease ends if nothing more is heard."""
        return max(min(self.renewed_at + self.period_s, self.limit), self._spared_until)

    def hear(self, words: list[str], now: float) -> None:
        """Take what the holder has said; anything is a sign of life."""
        for word in words:
            verb, _, argument = word.partition(" ")
            if verb == LIMIT:
                self.limit = float(argument)
            elif verb == UNLIMIT:
                self.limit = math.inf
            elif verb == ENDURE:
                self.period_s = math.inf
        if words:
            self.renewed_at = now
            self._spared = False

    def over(self, now: float, *, woke_late: bool) -> End | None:
        """Why the lease has ended, if it has.

        A guard that was late has no right to blame the holder: whatever held it up may have held up both. It
        grants one more period, once until it hears something.
        """
        if now < self.end:
            return None
        if woke_late and not self._spared:
            self._spared, self._spared_until = True, now + LEASE_S
            return None
        return End.DEADLINE if now >= self.limit else End.SILENCE


def watch(
    pipe: int, holder: Process, owner: Process, period_s: float, keeper: Process | None = None
) -> End | None:
    """Wait for the end of the lease; ``None`` after a farewell.

    Parameters
    ----------
    pipe
        Read end, nonblocking.
    period_s
        See `Term`.
    keeper
        Another process that the holder is of no use without.
    """
    ends = [(holder, End.HOLDER), (owner, End.OWNER), *([(keeper, End.KEEPER)] if keeper is not None else [])]
    poller = select.poll()
    poller.register(pipe, select.POLLIN | select.POLLHUP)
    with contextlib.ExitStack() as stack:
        watched: dict[int, End] = {}
        gone: End | None = None
        for process, end_of in ends:
            if (descriptor := process.open()) is None:
                gone = end_of
                continue
            stack.callback(os.close, descriptor)
            poller.register(descriptor, select.POLLIN)
            watched[descriptor] = end_of
        term = Term(period_s, time.monotonic())
        unread = ""
        while True:
            planned = term.end
            ready = {descriptor for descriptor, _ in poller.poll(_milliseconds(planned - time.monotonic(), gone))}
            now = time.monotonic()
            text, closed = _drain(pipe)  # before any judgement: it may have come while we slept
            *words, unread = (unread + text).split("\n")
            if FAREWELL in words:
                return None
            term.hear(words, now)
            gone = gone or next((watched[one] for one in ready if one in watched), None)
            if gone is None and closed:
                gone = End.HOLDER
            if (end := gone or term.over(now, woke_late=now > planned + _LATE_S)) is not None:
                return end


def _milliseconds(seconds: float, gone: End | None) -> int | None:
    if gone is not None:
        return 0
    return None if math.isinf(seconds) else max(0, math.ceil(seconds * 1000))


def _drain(pipe: int) -> tuple[str, bool]:
    """All that there is to read, and whether the other end is closed."""
    text = ""
    while True:
        try:
            part = os.read(pipe, 4096)
        except BlockingIOError:
            return text, False
        if not part:
            return text, True
        text += part.decode()


def undo(journal: Path, owner: Process) -> None:
    """Carry out what the owner's journal holds, again and again while something cannot be undone, for a minute."""
    deadline = time.monotonic() + _UNDO_S
    pause_s = 0.02
    while recovery.recover_journal(journal, even_if_alive=owner).fate is not recovery.Fate.CLEAN:
        if time.monotonic() > deadline:
            return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)


def undo_others(journal: Path, header: journals.Header) -> None:
    """Carry out the other journals of the run whose owner is the one that has ended."""
    with contextlib.suppress(OSError):  # whoever recovers finds them later
        for path in recovery.journals(journal.parent):
            if path != journal and header.ownership.owns(path) and _owner_of(path) == header.owner:
                undo(path, header.owner)


def _owner_of(journal: Path) -> Process | None:
    try:
        header = journals.read(journal).header
    except (ForeignState, OSError):  # not ours to read, or gone meanwhile
        return None
    return header.owner if header is not None else None


def _leave_notice(path: Path, end: End) -> None:
    """Tell the owner, in a folder of its own, why its agent will be found dead."""
    with contextlib.suppress(OSError):  # the folder is gone, and with it whoever would read
        path.write_text(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipe", type=int)
    parser.add_argument("journal", type=Path)
    parser.add_argument("period_s", type=float)
    parser.add_argument("--notice", type=Path)
    parser.add_argument("--keeper", nargs=2, metavar=("PID", "STARTED"))
    chosen = parser.parse_args()
    header = journals.read(chosen.journal).header
    if header is None:
        parser.error(f"{chosen.journal} has no header")
    if os.fork():
        os._exit(0)  # the holder waits for this one; the guard itself becomes a child of process 1
    os.setsid()
    with open(os.devnull, "r+b") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    keeper = Process(int(chosen.keeper[0]), chosen.keeper[1]) if chosen.keeper else None
    end = watch(chosen.pipe, header.holder, header.owner, chosen.period_s, keeper)
    if end is None:
        return
    if end in (End.SILENCE, End.DEADLINE, End.KEEPER) and chosen.notice is not None:
        _leave_notice(chosen.notice, end)
    undo(chosen.journal, header.owner)
    if not header.owner.alive():
        undo_others(chosen.journal, header)


if __name__ == "__main__":
    main()
