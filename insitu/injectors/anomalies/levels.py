"""How the level of an anomaly is turned into a load, and the load that there was into a level.

The level is the demand: what the workers asked of the resource while their windows were open, by their own
clock and the kernel's counters, whether or not they got it. What they got is recorded beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from insitu.injectors.anomalies.counters import last_level_cache_bytes
from insitu.injectors.anomalies.in_force import MOVED
from insitu.injectors.anomalies.load import BIGROOTS, DEFAULT, Kind, Load, Loads, period_of
from insitu.injectors.binding import too_brief
from insitu.injectors.contract import Achieved, Capability, Injector, Node, Treatment
from insitu.injectors.demand import Demand
from insitu.injectors.options import Option, OptionKind, Options, Schedule

if TYPE_CHECKING:
    from insitu.injectors.contract import Samples

MOST_PROCESSES = 64
WINDOWS = Option("windows", OptionKind.SCHEDULE, "when it is there, after the subject's start")
PROCESSES = Option("processes", OptionKind.COUNT, "how many share the work", highest=MOST_PROCESSES)
PRESET = Option("preset", OptionKind.WORD, "what the work is like", words=(DEFAULT, BIGROOTS))
TARGET = Option("target", OptionKind.ADDRESS, "an echo server on another machine")

_BUFFERS = {Kind.MEMORY_BANDWIDTH: 4, Kind.CACHE: 1}
"""Memory of a worker, in last-level caches."""
_BY_CACHE = tuple(_BUFFERS)


@dataclass(frozen=True, slots=True)
class How:
    """The options of an anomaly; `processes` is 0 where the plan does not say."""

    preset: str = DEFAULT
    processes: int = 0
    target: str = ""
    windows: Schedule | None = None


class Anomaly(Injector):
    """A load that is added beside the subject.

    Parameters
    ----------
    how
        What the plan says beside the level.
    """

    kind: ClassVar[Kind]
    rest: ClassVar[float] = 0.0
    tolerance: ClassVar[float] = 0.05

    def __init__(self, how: How | None = None) -> None:
        self.how = how or How()

    def load(self, level: float) -> Load:
        """What the level asks for, at all times."""
        raise NotImplementedError

    def reach(self, node: Node) -> tuple[float, float]:
        """Lowest and highest level."""
        raise NotImplementedError

    def edges(self, load: Load) -> float:
        """What the ends of one window may cut off, or add: level times seconds."""
        if load.duty < 1:
            return load.duty * (1 - load.duty) * period_of(self.kind) * load.workers * load.levels_per_unit
        return 0.005 * load.workers * load.levels_per_unit

    def configured(self, options: Options) -> Anomaly:
        given = dict(options)
        if unknown := given.keys() - {option.name for option in self.options}:
            raise ValueError(f"{self.variable} has no option {', '.join(sorted(unknown))}")
        return type(self)(replace(self.how, **given))  # type: ignore[arg-type]  # each of its option's kind

    def capability(self, node: Node) -> Capability:
        low, high = self.reach(node)
        mechanism = f"load.{self.kind}" + (f".{self.how.preset}" if self.how.preset != DEFAULT else "")
        capability = Capability(self.variable, self.unit, mechanism, low, high)
        if self.kind is Kind.DISK and node.device is None:
            remedy = "choose a run directory on a local disk with --out"
            return replace(capability, mechanism="", reason=node.device_problem, remedy=remedy)
        if self.kind in _BY_CACHE and not last_level_cache_bytes():
            return replace(
                capability,
                mechanism="",
                reason="this kernel does not say how large the caches are",
                remedy="use one with /sys/devices/system/cpu/cpu0/cache",
            )
        if not node.hierarchies.usable("cpu"):
            return replace(
                capability,
                weaker=True,
                reason=f"without a control group of its own: {node.hierarchies.problem('cpu')}",
                remedy=node.hierarchies.remedy("cpu"),
            )
        return capability

    def treatment(self, level: float, node: Node) -> Treatment:
        if level == self.rest:
            return Treatment()
        return Treatment(parts=(Loads((self._load_on(node, level),)),))

    def _load_on(self, node: Node, level: float) -> Load:
        load = self.load(level)
        return replace(load, windows=self.how.windows.on(node.name)) if self.how.windows else load

    def achieved(self, level: float, samples: Samples, node: Node) -> Achieved:
        if level == self.rest:
            return Achieved(None, 0.0, 0.0)
        demand, open_s, wall_s = (
            _gain(samples, name) for name in (f"{self.variable}:demand", f"{self.variable}:open_s", "time_s")
        )
        if open_s <= 0 or wall_s <= 0:
            note = "it was not there while the subject ran"
            return Achieved(0.0, 0.0 if self.how.windows else 1.0, 0.0, note=note)
        load = self._load_on(node, level)
        asked = max(0.0, demand) / open_s
        open_share = 1.0 if load.windows is None else min(1.0, open_s / wall_s)
        uncertainty = len(load.windows or (None,)) * self.edges(load) / open_s
        if too_brief(open_share, uncertainty, level):
            return Achieved(asked, 0.0, 0.0, note="it was to be there too briefly to tell")
        # what was hardly there at all is missed, however little the ends of the windows leave to be seen
        return Achieved(asked, open_share, min(uncertainty, 0.5 * level), note=self._took(samples, open_s))

    def _took(self, samples: Samples, open_s: float) -> str:
        """What it really got while it was there."""
        took = f"took {_gain(samples, f'{self.variable}:cpu_s') / open_s:.3g} cores"
        if self.kind in MOVED:
            moved = _gain(samples, f"{self.variable}:{MOVED[self.kind]}")
            took += f" and {moved / open_s / 1e6:.3g} MB/s"
        return took

    def demand(self, level: float) -> Demand:
        if level == self.rest:
            return Demand()
        load = self.load(level)
        buffers = _BUFFERS.get(self.kind, 0) * load.workers * last_level_cache_bytes()
        return Demand(
            cores=0.0 if self.kind is Kind.MEMORY else load.workers * load.duty,
            memory_bytes=load.held_bytes + buffers,
            disk_bytes_per_s=(load.rate or float("inf")) if self.kind is Kind.DISK else 0.0,
        )


def _gain(samples: Samples, column: str) -> float:
    """How much a counter grew over the trial; 0 where there is none."""
    values = samples.get(column)
    return 0.0 if values is None or len(values) < 2 else float(values[-1] - values[0])
