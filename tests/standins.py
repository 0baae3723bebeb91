"""Small laws, and trials made up from them with known noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from insitu.orchestrator.causal.blueprint import Blueprint, Law, build_blueprint
from insitu.orchestrator.plan.types import LawText, ModelText, ParameterText, Role, Variable
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


def law_of(variable: str, text: str, variables: dict[str, Variable], *units: ParameterText) -> Blueprint:
    """The blueprint of a model with one law."""
    return build_blueprint(ModelText(Path("model.yaml"), variables, (LawText(variable, text, 1, 1),), units))


SORT_VARIABLES = {
    "input_size": Variable("input_size", "B", Role.PARAMETER),
    "disk_read_rate": Variable("disk_read_rate", "B/s", Role.SET, "disk.read_rate"),
    "cpu_cores": Variable("cpu_cores", "core", Role.SET, "cpu.cores"),
    "runtime": Variable("runtime", "s", Role.MEASURED, "wall_time"),
}
SORT = law_of(
    "runtime",
    "c + a * input_size / disk_read_rate + b * input_size / cpu_cores",
    SORT_VARIABLES,
    ParameterText("b", "core*s/GB", 1, 1),
)
SORT_LAW = SORT.laws["runtime"]
TRUTH = {"c": 0.05, "a": 1.0, "b": 60e-9}
NATURAL = {"disk_read_rate": 1.5e9, "cpu_cores": 1.0}


def line_law(parameters: int = 2) -> Law:
    """y = b0 + b1 x (+ b2 x^2 ...)."""
    powers = ("1", "x", *(f"x^{power}" for power in range(2, parameters)))[:parameters]
    text = " + ".join(f"b{power}" if not power else f"b{power} * {one}" for power, one in enumerate(powers))
    return law_of("y", text, LINE_VARIABLES).laws["y"]


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
