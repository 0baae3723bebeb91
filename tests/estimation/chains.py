"""A model of several laws, with trials simulated from known parameters; for tests of answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.estimation.analysis import fit_all
from insitu.orchestrator.estimation.questions.model import FittedModel, assemble
from insitu.orchestrator.plan.loading import load_model
from insitu.orchestrator.plan.types import Settable
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)

SETTABLE = {
    "cpu.cores": Settable("core"),
    "disk.read_rate": Settable("B/s"),
    "anomaly.cpu": Settable("", 0.0),
    "anomaly.disk": Settable("", 0.0),
}
CHAIN = """
variables:
  size: {unit: B, role: parameter}
  rate: {unit: B/s, set_by: disk.read_rate}
  cores: {unit: core, set_by: cpu.cores}
  work: {unit: s, measured_by: cpu_time}
  runtime: {unit: s, measured_by: wall_time}
laws:
  work: w0 + w1 * size
  runtime: c + a * size / rate + b * work / cores
"""
TRUTH = {"w0": 0.05, "w1": 4e-8, "c": 0.1, "a": 1.0, "b": 1.0}
NATURAL_CORES, NATURAL_RATE = 0.95, 1e9


def blueprint_of(text: str, folder: Path) -> Blueprint:
    path = folder / "model.yaml"
    path.write_text(text)
    return build_blueprint(load_model(path, settable=SETTABLE))


def fitted(blueprint: Blueprint, trials: tuple[StoredTrial, ...], confidence: float = 0.95) -> FittedModel:
    return assemble(blueprint, fit_all(blueprint, trials, confidence))


def work_of(size: float) -> float:
    return TRUTH["w0"] + TRUTH["w1"] * size


def runtime_of(size: float, rate: float, cores: float, work: float | None = None) -> float:
    done = work_of(size) if work is None else work
    return TRUTH["c"] + TRUTH["a"] * size / rate + TRUTH["b"] * done / cores


def chain_trials(
    rng: np.random.Generator,
    count: int = 24,
    *,
    noise_s: float = 0.02,
    work_noise_s: float = 0.01,
    sizes: tuple[float, ...] = (8e6, 16e6),
    extra: Mapping[int, float] | None = None,
) -> tuple[StoredTrial, ...]:
    """Trials of the chain, every sixth a baseline; `extra` adds seconds to the runtime of some."""
    trials = []
    for number in range(1, count + 1):
        baseline = number % 6 == 0
        size = sizes[0] if baseline else float(rng.choice(sizes))
        cores = math.inf if baseline else float(rng.choice([0.3, 0.6, 0.9]))
        rate = math.inf if baseline else float(rng.choice([1e7, 2e7]))
        used = (NATURAL_CORES, NATURAL_RATE) if baseline else (cores, rate)
        work = work_of(size) + float(rng.normal(0, work_noise_s))
        runtime = runtime_of(size, used[1], used[0], work) + float(rng.normal(0, noise_s))
        runtime += (extra or {}).get(number, 0.0)
        levels = (
            LevelRecord("size", size, size, 1.0, 0.0, LevelVerdict.EXACT, "argument", "B"),
            throttle("rate", rate, used[1], "B/s"),
            throttle("cores", cores, used[0], "core"),
        )
        trials.append(trial_of(number, levels, {"wall_time": runtime, "cpu_time": work}, baseline=baseline))
    return tuple(trials)


def throttle(name: str, requested: float, achieved: float, unit: str) -> LevelRecord:
    verdict = LevelVerdict.UNSET if math.isinf(requested) else LevelVerdict.HELD
    return LevelRecord(name, requested, achieved, 0.5, 0.0, verdict, "cgroup1", unit)


def trial_of(
    number: int,
    levels: tuple[LevelRecord, ...],
    measurements: Mapping[str, float],
    *,
    host: Mapping[str, float] | None = None,
    baseline: bool = False,
    state: TrialState = TrialState.VALID,
    reasons: tuple[str, ...] = (),
) -> StoredTrial:
    assignment = Assignment(tuple((level.variable, level.requested) for level in levels))
    record = TrialRecord(
        trial=number,
        state=state,
        node="node-a",
        started_at=1.7e9 + number,
        duration_s=measurements.get("wall_time", 1.0),
        exit_status=0,
        measurements=dict(measurements),
        levels=levels,
        reasons=reasons,
        host=dict(host or {}),
    )
    return StoredTrial(PlannedTrial(number, 1, assignment, baseline), state, record)


def parameter_trials(
    rng: np.random.Generator,
    levels: Sequence[Mapping[str, float]],
    measure: Callable[[Mapping[str, float], np.random.Generator], Mapping[str, float]],
) -> tuple[StoredTrial, ...]:
    """Trials whose variables are all the subject's own parameters, and measurements by a rule."""
    return tuple(
        trial_of(
            number,
            tuple(
                LevelRecord(name, level, level, 1.0, 0.0, LevelVerdict.EXACT, "argument", "")
                for name, level in at.items()
            ),
            measure(at, rng),
        )
        for number, at in enumerate(levels, start=1)
    )
