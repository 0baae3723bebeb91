"""Hand-made laws and trials for tests of rooms that only need something shaped like them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Method, Noise
from insitu.orchestrator.plan.types import PriorText, Role, Variable
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)

Levels = Mapping[str, float]


@dataclass(frozen=True)
class StandInLaw:
    """Quacks like the blueprint's law; typed as Any below, since it is none."""

    variable: str
    text: str
    terms: dict[str, Callable[[Levels], float]]
    parents: tuple[str, ...]
    parameter_units: dict[str, str]
    parameter_scales: dict[str, float]
    term_texts: dict[str, str]
    offset_of: Callable[[Levels], float] = field(default=lambda levels: 0.0)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    link: Link = Link.IDENTITY
    noise: Noise = Noise.NORMAL
    method: Method = Method.LEAST_SQUARES
    quantile: float = 0.5
    priors: tuple[PriorText, ...] = ()
    linear: bool = True

    @property
    def relative_noise(self) -> bool:
        return self.noise.relative

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.terms)

    def design_row(self, levels: Levels) -> npt.NDArray[np.float64]:
        return np.array([term(levels) for term in self.terms.values()], dtype=float)

    def offset(self, levels: Levels) -> float:
        return self.offset_of(levels)

    def design_matrix(self, levels: Mapping[str, Array]) -> Array:
        rows = [self.design_row(one) for one in _one_by_one(levels)]
        return np.array(rows).reshape(len(rows), len(self.terms))

    def offsets(self, levels: Mapping[str, Array]) -> Array:
        return np.array([self.offset(one) for one in _one_by_one(levels)])

    def mean(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        return self.offsets(levels) + self.design_matrix(levels) @ parameters

    def gradient(self, parameters: Array, levels: Mapping[str, Array]) -> Array:
        return self.design_matrix(levels)

    def without(self, parameters: Collection[str]) -> StandInLaw:
        return replace(self, terms={name: term for name, term in self.terms.items() if name not in parameters})


def _one_by_one(levels: Mapping[str, Array]) -> list[dict[str, float]]:
    return [dict(zip(levels, row, strict=True)) for row in zip(*levels.values(), strict=True)]


@dataclass(frozen=True)
class StandInBlueprint:
    variables: dict[str, Variable]
    laws: dict[str, StandInLaw]
    confounded: tuple[tuple[str, str], ...] = ()

    def edges(self) -> tuple[Edge, ...]:
        return tuple(Edge(parent, law.variable) for law in self.laws.values() for parent in law.parents)

    def reduced(self) -> StandInBlueprint:
        return self

    def parents(self, name: str) -> tuple[str, ...]:
        return self.laws[name].parents if name in self.laws else ()


SORT_LAW: Any = StandInLaw(
    variable="runtime",
    text="c + a * input_size / disk_read_rate + b * input_size / cpu_cores",
    terms={
        "c": lambda v: 1.0,
        "a": lambda v: v["input_size"] / v["disk_read_rate"],
        "b": lambda v: v["input_size"] / v["cpu_cores"],
    },
    parents=("input_size", "disk_read_rate", "cpu_cores"),
    parameter_units={"c": "s", "a": "", "b": "core*s/GB"},
    parameter_scales={"c": 1.0, "a": 1.0, "b": 1e9},
    term_texts={"c": "1", "a": "input_size / disk_read_rate", "b": "input_size / cpu_cores"},
)
SORT_VARIABLES = {
    "input_size": Variable("input_size", "B", Role.PARAMETER),
    "disk_read_rate": Variable("disk_read_rate", "B/s", Role.SET, "disk.read_rate"),
    "cpu_cores": Variable("cpu_cores", "core", Role.SET, "cpu.cores"),
    "runtime": Variable("runtime", "s", Role.MEASURED, "wall_time"),
}
SORT: Any = StandInBlueprint(SORT_VARIABLES, {"runtime": SORT_LAW})
TRUTH = {"c": 0.05, "a": 1.0, "b": 60e-9}
NATURAL = {"disk_read_rate": 1.5e9, "cpu_cores": 1.0}


def line_law(parameters: int = 2) -> Any:
    """y = b0 + b1 x (+ b2 x^2 ...)."""
    return StandInLaw(
        variable="y",
        text=" + ".join(f"b{power} * x**{power}" for power in range(parameters)),
        terms={f"b{power}": _power(power) for power in range(parameters)},
        parents=("x",),
        parameter_units={f"b{power}": "" for power in range(parameters)},
        parameter_scales={f"b{power}": 1.0 for power in range(parameters)},
        term_texts={f"b{power}": "1" if power == 0 else f"x**{power}" for power in range(parameters)},
    )


def _power(power: int) -> Callable[[Levels], float]:
    return lambda levels: float(levels["x"] ** power)


LINE_VARIABLES = {
    "x": Variable("x", "", Role.PARAMETER),
    "z": Variable("z", "", Role.PARAMETER),
    "y": Variable("y", "", Role.MEASURED, "y"),
}


def trial_of(
    number: int,
    levels: tuple[LevelRecord, ...],
    measurements: dict[str, float],
    *,
    block: int = 1,
    baseline: bool = False,
    state: TrialState = TrialState.VALID,
    reasons: tuple[str, ...] = (),
    replaces: int | None = None,
) -> StoredTrial:
    assignment = Assignment(tuple((level.variable, level.requested) for level in levels))
    planned = PlannedTrial(number, block, assignment, baseline, replaces)
    wall = measurements.get("wall_time", 1.0)
    record = TrialRecord(
        trial=number,
        state=state,
        node="node-a",
        started_at=1.7e9 + number,
        duration_s=wall,
        exit_status=0 if state is not TrialState.FAILED else 1,
        measurements=measurements,
        levels=levels,
        reasons=reasons,
        sandbox="namespaces,overlay",
    )
    return StoredTrial(planned, state, record)


def exact(variable: str, level: float, unit: str = "") -> LevelRecord:
    return LevelRecord(variable, level, level, 1.0, 0.0, LevelVerdict.EXACT, "argument", unit)


def xy_trials(xs: list[float], ys: list[float], **others: list[float]) -> tuple[StoredTrial, ...]:
    return tuple(
        trial_of(
            number + 1,
            (exact("x", x), *(exact(name, column[number]) for name, column in others.items())),
            {"y": y},
        )
        for number, (x, y) in enumerate(zip(xs, ys, strict=True))
    )


def sort_trials(
    rng: np.random.Generator,
    *,
    noise_s: float = 0.02,
    replicates: int = 2,
    extra: Callable[[Levels], float] = lambda levels: 0.0,
) -> tuple[StoredTrial, ...]:
    """A factorial of the sort study with baselines, achieved levels a little off and noisy runtimes."""
    trials: list[StoredTrial] = []
    for block in range(1, replicates + 1):
        cells: list[tuple[float, float, float, bool]] = [
            (cpu, disk, size, False) for cpu, disk, size in product((0.3, 0.5, 0.9), (6e6, 20e6), (4e6, 8e6))
        ]
        cells.append((math.inf, math.inf, 4e6, True))
        for index in rng.permutation(len(cells)):
            cpu, disk, size, baseline = cells[index]
            achieved = {
                "input_size": size,
                "disk_read_rate": NATURAL["disk_read_rate"] if math.isinf(disk) else disk * rng.normal(1, 0.004),
                "cpu_cores": NATURAL["cpu_cores"] if math.isinf(cpu) else cpu * rng.normal(1, 0.006),
            }
            runtime = float(SORT_LAW.design_row(achieved) @ np.array(list(TRUTH.values())))
            runtime += extra(achieved) + rng.normal(0, noise_s)
            trials.append(
                trial_of(
                    len(trials) + 1,
                    (
                        exact("input_size", size, "B"),
                        _throttled("disk_read_rate", disk, achieved, "B/s", "cgroup1.blkio.throttle"),
                        _throttled("cpu_cores", cpu, achieved, "core", "cgroup1.cpu.cfs"),
                    ),
                    {"wall_time": runtime, "cpu_time": runtime / 2},
                    block=block,
                    baseline=baseline,
                )
            )
    return tuple(trials)


def _throttled(name: str, requested: float, achieved: dict[str, float], unit: str, how: str) -> LevelRecord:
    unset = math.isinf(requested)
    return LevelRecord(
        variable=name,
        requested=requested,
        achieved=achieved[name],
        bound_share=0.0 if unset else 0.6,
        uncertainty=0.01 * achieved[name],
        verdict=LevelVerdict.UNSET if unset else LevelVerdict.HELD,
        mechanism="none" if unset else how,
        unit=unit,
    )
