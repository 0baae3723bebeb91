"""``cpu.set``: how many whole processors the subject may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from insitu.injectors.binding import starved_s
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Setting, Treatment
from insitu.injectors.cpu import natural_rate
from insitu.injectors.demand import Demand
from insitu.injectors.placement import COLUMN, Placement
from insitu.injectors.processors import spell_list

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

_IN_USE = 0.97
"""Share of the processors above which they count as used up."""


class CpuSet(Injector):
    """The cpuset controller; without it the processes' affinity, which a subject may change.

    Which processors is decided by the machine alone: the first of `Node.processors`, where siblings of one
    physical core come last.
    """

    variable: ClassVar[str] = "cpu.set"
    unit: ClassVar[str] = "core"
    tolerance: ClassVar[float] = 1e-3
    controllers: ClassVar[tuple[str, ...]] = ("cpuset",)

    def capability(self, node: Node) -> Capability:
        mechanism, weaker, reason, remedy = "sched-affinity", True, node.hierarchies.problem("cpuset"), ""
        if node.hierarchies.usable("cpuset"):
            mechanism, weaker, reason = f"cgroup{node.hierarchies.version['cpuset']}.cpuset", False, ""
        else:
            remedy = f"for a set that the subject cannot leave: {node.hierarchies.remedy('cpuset')}"
        high = float(len(_processors(node)))
        capability = Capability(self.variable, self.unit, mechanism, 1.0, high, weaker, reason, remedy, step=1.0)
        return capability.capped(node)

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        chosen = tuple(sorted(_processors(node)[: int(level)]))
        if not node.hierarchies.usable("cpuset"):
            return Treatment(parts=(Placement(chosen, pinned=True),))
        text = spell_list(chosen)
        file = "cpuset.cpus"
        effective = "cpuset.effective_cpus" if node.hierarchies.version["cpuset"] == 1 else "cpuset.cpus.effective"
        return Treatment((Setting("cpuset", file, text, reads_back_in=effective),), parts=(Placement(chosen),))

    def demand(self, level: float) -> Demand:
        """The processors that the subject may use up."""
        return Demand() if level == self.rest else Demand(cores=level)

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        """How many processors the subject's threads were allowed; it binds while they use them up."""
        time_s, cpu_s = samples["time_s"], samples["cpu_s"]
        if len(time_s) < 2:
            return Achieved(None, 0.0, 0.0, note="too short to sample")
        step_s, wall_s = np.diff(time_s), float(time_s[-1] - time_s[0])
        starved = starved_s(samples, min(level, node.cpus)) > 0.05 * wall_s
        used_up = np.diff(cpu_s) >= _IN_USE * level * step_s
        seen = samples[COLUMN][np.isfinite(samples[COLUMN])] if COLUMN in samples else np.array([level])
        if not seen.size:
            return Achieved(None, 0.0, 0.0, starved, "ended before its processors could be read")
        # a thread that is just ending may still show what it was allowed before: one sample alone is no evidence
        allowed = float((np.minimum(seen[:-1], seen[1:]) if len(seen) > 1 else seen).max())
        if level != self.rest and allowed > level:
            return Achieved(allowed, 1.0, 0.0, starved, "the subject changed its own affinity")
        if not used_up.any():
            return Achieved(natural_rate(samples), 0.0, 0.0, starved, "" if level == self.rest else _note(starved))
        return Achieved(allowed, float(step_s[used_up].sum()) / wall_s, 0.0, starved)


def _note(starved: bool) -> str:
    """What is recorded of a set that was never used up is a rate, and not how many processors there were."""
    others = ", while others took the resource for a part of the trial" if starved else ""
    return f"what the subject used, which was never all of its processors{others}"


def _processors(node: Node) -> tuple[int, ...]:
    return node.processors or tuple(range(node.cpus))
