"""``cache.page``: which share of the subject's input is in memory when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from insitu.injectors.contract import Achieved, Capability, Injector, Node, Treatment

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples


class InputInMemory(Injector):
    """Pages of ``{scratch}/in`` alone: the file is dropped from memory (posix_fadvise), and its first part read.

    Read by another process than the subject, so that the pages do not count as the subject's memory. There is no
    level that asks for nothing: an input is always in memory to some share.
    """

    variable: ClassVar[str] = "cache.page"
    unit: ClassVar[str] = "fraction"
    tolerance: ClassVar[float] = 0.02
    least_tolerance: ClassVar[float] = 0.02
    rest: ClassVar[float | None] = None
    words: ClassVar[Mapping[str, float]] = MappingProxyType({"cold": 0.0, "warm": 1.0})

    def capability(self, node: Node) -> Capability:
        return Capability(self.variable, self.unit, "fadvise", 0.0, 1.0)

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment(input_in_memory=level)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """As mincore(2) saw it just before the subject's start."""
        shares = samples.get("input_in_memory")
        if shares is None or not len(shares):
            return Achieved(None, 0.0, 0.0, note="there was no input")
        return Achieved(min(1.0, float(shares[0])), 1.0, 0.0)
