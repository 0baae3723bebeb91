"""Signals that ask a command to end: all taken as Ctrl-C is, and none lost."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While it lasts, the first of the signals raises `KeyboardInterrupt`, and `check` does so again.

    Those that follow raise nothing: they would break off the clean-up that the first has begun.

    Python drops an exception that is raised in a callback from compiled code or while an object is deleted, which
    a signal may well find it at; so whoever waits for long asks `check` now and then. A signal that was ignored
    before, as SIGINT is in the background of a script, stays so.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has come."""
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            return
        self._asked = True
        raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
