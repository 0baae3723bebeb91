"""What was added beside the subject, as its own columns of the samples tell: never counted as somebody else's.

A column of what is added is called by the injector's variable, a colon and a counter: ``anomaly.cpu:cpu_s``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

COUNTERS = ("cpu_s", "read_bytes", "write_bytes", "write_ops", "sent_bytes", "moved_bytes")
"""Counters of what was really taken."""


def added(samples: Samples, counter: str) -> float:
    """How much all that was added took between the first and the last sample."""
    return sum(totals(samples, (counter,)).values())


def totals(samples: Samples, counters: tuple[str, ...] = COUNTERS) -> dict[str, float]:
    """The same by column."""
    return {
        name: float(column[-1] - column[0])
        for name, column in samples.items()
        if name.partition(":")[2] in counters and len(column) > 1
    }
