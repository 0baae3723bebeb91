"""Figures that several processes share: a small piece of memory, each figure written by one of them."""

from __future__ import annotations

import mmap
import os
from enum import IntEnum


class Gauge(IntEnum):
    """What there is; those of a direction are next to each other, outwards first."""

    PASSED_OUT = 0
    PASSED_IN = 1
    LOST_OUT = 2
    LOST_IN = 3
    PROBES_OUT = 4
    """Probes that have arrived."""
    PROBES_IN = 5
    TRANSIT_OUT_S = 6
    """How long the latest of them was under way."""
    TRANSIT_IN_S = 7


class Gauges:
    """The figures, as 64-bit floats: each is read and written in one access."""

    def __init__(self, descriptor: int | None = None) -> None:
        size = 8 * len(Gauge)
        if descriptor is None:
            descriptor = os.memfd_create("insitu-gauges", os.MFD_CLOEXEC)
            os.truncate(descriptor, size)
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, size)
        self._figures = memoryview(self._memory).cast("d")

    def __getitem__(self, gauge: int) -> float:
        return self._figures[gauge]

    def __setitem__(self, gauge: int, value: float) -> None:
        self._figures[gauge] = value

    def close(self) -> None:
        self._figures.release()
        self._memory.close()
        os.close(self.descriptor)
