"""Several interventions on one subject: their treatments, joined into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from insitu.injectors.contract import Injector, Part, Treatment
from insitu.injectors.demand import Demand
from insitu.injectors.errors import NotSettable
from insitu.injectors.placement import Placement


@dataclass(frozen=True, slots=True)
class Intervention:
    """do(variable := level) by one injector; the injector's `rest` asks for nothing."""

    injector: Injector
    level: float

    @property
    def at_rest(self) -> bool:
        return self.level == self.injector.rest

    @property
    def demand(self) -> Demand:
        """The most that it takes of the node."""
        return Demand() if self.at_rest else self.injector.demand(self.level)

    @property
    def preparation_s(self) -> float:
        """The most time that it takes to be brought about, where that is more than a moment."""
        return 0.0 if self.at_rest else self.injector.preparation_s(self.level)


def demand_of_trial(interventions: Iterable[Intervention]) -> Demand:
    """What all interventions of a trial take together."""
    return reduce(add, (intervention.demand for intervention in interventions), Demand())


def joined(treatments: Sequence[Treatment]) -> Treatment:
    """All treatments at once, with one part of each type.

    Raises
    ------
    NotSettable
        If two contradict each other.
    """
    cycles = [treatment.stop_and_go for treatment in treatments if treatment.stop_and_go is not None]
    if len(cycles) > 1:
        raise NotSettable("two variables ask for a duty cycle of the same subject")
    shares = {t.input_in_memory for t in treatments if t.input_in_memory is not None}
    if len(shares) > 1:
        raise NotSettable("two variables ask for different shares of the input in memory")
    parts = _joined_parts(part for treatment in treatments for part in treatment.parts)
    for part in parts:
        if isinstance(part, Placement) and any(cycle.cpus > len(part.processors) for cycle in cycles):
            text = (
                f"a duty cycle over {cycles[0].cpus} processors of a subject that may use {len(part.processors)}"
            )
            raise NotSettable(f"two variables ask for {text}", "choose levels of cpu.cores up to cpu.set")
    host_values = tuple(value for treatment in treatments for value in treatment.host_values)
    if len({value.path for value in host_values}) < len(host_values):
        raise NotSettable("two variables set the same value of the host")
    return Treatment(
        settings=tuple(setting for treatment in treatments for setting in treatment.settings),
        stop_and_go=cycles[0] if cycles else None,
        host_values=host_values,
        parts=parts,
        input_in_memory=shares.pop() if shares else None,
        synchronous_scratch=any(treatment.synchronous_scratch for treatment in treatments),
    )


def _joined_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    by_type: dict[type[Part], Part] = {}
    for part in parts:
        kind = type(part)
        by_type[kind] = by_type[kind].joined(part) if kind in by_type else part
    return tuple(by_type.values())
