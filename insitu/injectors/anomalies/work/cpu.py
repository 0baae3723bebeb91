"""Processor time, and nothing else if it can be helped."""

from __future__ import annotations

import numpy as np

from insitu.injectors.anomalies.load import BIGROOTS

_IN_CACHE = 256
_BIGROOTS_NUMBERS = 1_000_000
_BIGROOTS_SLICE = 2_000


class Powers:
    """Powers of random numbers.

    Parameters
    ----------
    preset
        ``default`` stays within the first-level cache, so that other processors notice nothing. ``bigroots``
        goes through a million numbers.

    Notes
    -----
    The second is the generator of Zhou et al., "BigRoots: An Effective Approach for Root-cause Analysis of
    Stragglers in Big Data System" (section IV.A): a million random numbers, a power of each in a loop, eight
    processes. Theirs writes one result to the disk now and then, to keep the compiler from leaving the rest
    out; here nothing would leave it out.
    """

    size = 0.0
    by_processor = True

    def __init__(self, preset: str, seed: int) -> None:
        length, part = (_BIGROOTS_NUMBERS, _BIGROOTS_SLICE) if preset == BIGROOTS else (_IN_CACHE, _IN_CACHE)
        numbers = np.random.default_rng(seed).random(length)
        results = np.empty(part)
        self._parts = [(numbers[first : first + part], results) for first in range(0, length, part)]
        self._next = 0

    def step(self) -> None:
        numbers, results = self._parts[self._next]
        np.power(numbers, 2.7, out=results)
        self._next = (self._next + 1) % len(self._parts)
