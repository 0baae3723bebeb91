"""Reads the quantities of the whole node that abort conditions are about; changes nothing."""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

_WINDOW_S = 1.0
"""What *the last second* of a pressure is, at least; at most twice that, else it is not known."""
_LINES = {"pressure": "some", "full_pressure": "full"}
_LOADS = {"host.load1": 0, "host.load5": 1, "host.load15": 2}


class HostState:
    """Reads one node. Pressures over the last second follow from two readings, so it remembers the earlier.

    Parameters
    ----------
    folder
        On the disk whose free space counts.
    proc
        Where the kernel's files are.
    """

    def __init__(
        self, folder: Path, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._proc = proc
        self._clock = clock
        self._stalls: dict[str, deque[tuple[float, float]]] = {}

    def read(self, quantity: str) -> float | None:
        """A quantity in base units; ``None`` for a pressure whose last second is not known yet.

        Raises
        ------
        OSError
            If this node does not have it.
        KeyError
            If there is no such quantity.
        """
        if quantity in _LOADS:
            return float((self._proc / "loadavg").read_text().split()[_LOADS[quantity]])
        _, subject, what = quantity.split(".")
        if subject == "memory" and what in ("available", "available_share"):
            available, total = self._memory()
            return available if what == "available" else available / total
        if subject == "disk":
            status = os.statvfs(self._folder)
            if what == "free":
                return float(status.f_bavail * status.f_frsize)
            return status.f_bavail / status.f_blocks if status.f_blocks else 1.0
        kind, _, span = what.partition("_avg")
        return self._pressure(subject, _LINES[kind], span)

    def _memory(self) -> tuple[float, float]:
        fields = dict(line.split(":", 1) for line in (self._proc / "meminfo").read_text().splitlines())
        try:
            available, total = (float(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
        except KeyError as exc:
            raise FileNotFoundError(errno.ENOENT, f"no {exc} in it", str(self._proc / "meminfo")) from exc
        return available, total

    @cached_property
    def total_memory_bytes(self) -> float:
        """All memory of the node."""
        return self._memory()[1]

    def _pressure(self, resource: str, line: str, span: str) -> float | None:
        text = (self._proc / "pressure" / resource).read_text()
        words = next((found.split()[1:] for found in text.splitlines() if found.startswith(line)), [])
        fields = dict(word.split("=") for word in words)  # avg10=0.00 avg60=0.00 avg300=0.00 total=0
        if span:
            return float(fields[f"avg{span}"]) / 100
        return self._over_last_second(f"{resource} {line}", float(fields["total"]) / 1e6)

    def _over_last_second(self, which: str, stalled_s: float) -> float | None:
        now = self._clock()
        past = self._stalls.setdefault(which, deque())
        past.append((now, stalled_s))
        while now - past[0][0] > 2 * _WINDOW_S or (len(past) > 1 and now - past[1][0] >= _WINDOW_S):
            past.popleft()
        began, before_s = past[0]
        if now - began < _WINDOW_S:
            return None
        return min(1.0, (stalled_s - before_s) / (now - began))


def why_unwatchable(state: HostState, quantity: str) -> tuple[str, str]:
    """Why this node does not have a quantity, and the remedy; both empty if it has."""
    try:
        state.read(quantity)
    except (OSError, KeyError) as exc:
        if "pressure" not in quantity:
            return f"it cannot be read ({exc})", "leave the condition out"
        reason = "this kernel gives no pressure information (PSI)"
        if isinstance(exc, OSError) and exc.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            reason += f": {exc.strerror}"
        return reason, "boot a kernel with CONFIG_PSI=y and psi=1 on its command line, or leave the condition out"
    return "", ""
