"""How processes that add load are tied to those that want them."""

from __future__ import annotations

import ctypes
import math
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Be sent a signal when the parent ends; end at once, if it has already.

    The kernel takes the thread that has forked for the parent.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def end_after(seconds: float) -> None:
    """Be ended by the kernel's timer, whatever this process does or waits for then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class OwnWaiting:
    """Time that the calling process has waited for a processor; not a number where nobody counts it."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def __call__(self) -> float:
        if self._file < 0:
            return math.nan
        words = os.pread(self._file, 256, 0).split()
        return int(words[1]) / 1e9 if len(words) > 1 else math.nan


def wake_on_time() -> None:
    """Ask for timers without slack (50 microseconds by default)."""
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
