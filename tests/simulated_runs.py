"""Run directories that the real loop filled on a node whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.simulated import SimulatedNode, Truth
from insitu.injectors.confinement import NO_CAPS
from insitu.injectors.demand import Demand
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.cli import execution
from insitu.orchestrator.execution.orders import TrialOrder, TrialOutcome
from insitu.orchestrator.plan.blast_radius import allowed
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.radius import Radius
from insitu.orchestrator.steering.choice import most_trials
from insitu.orchestrator.steering.endings import Outcome
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import LevelVerdict, TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.injectors import nodes
from tests.told_node import Watcher

MODEL = """\
variables:
  size: {unit: B, role: parameter}
  disk_kind: {role: parameter, categories: [ssd, hdd]}
  cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + seek * is(disk_kind, hdd) + b * size / cores
parameters:
  b: {unit: core*s/MB}
"""
PLAN = """\
name: simulated
subject: {command: [sleep, "{size}", "{disk_kind}"]}
model: model.yaml
factors:
  cores: {range: [0.2, 1.0]}
  disk_kind: {levels: [ssd, hdd]}
  size: {levels: [8 MB, 16 MB, 32 MB]}
goal: {effect: cores -> runtime, relative_half_width: 0.1}
design: {kind: sequential, seed: 3}
budget: {trials: 60}
"""
"""A plan with categories among its factors."""
GOAL = "{effect: cores -> runtime, relative_half_width: 0.1}"


def truth(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    """What the law says, with c = 0.1 s, seek = 0.5 s and b = 0.03 core s/MB, and noise of 0.02 s."""
    work_s = 0.1 + 0.5 * levels["disk_kind"] + 0.03e-6 * levels["size"] / levels["cores"]
    return {"wall_time": work_s + rng.normal(0, 0.02)}


def bent(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    """More than the law says, at few cores."""
    missing_s = 0.3 / levels["cores"] ** 2 * (levels["size"] / 1.6e7) ** 2
    return {"wall_time": truth(levels, rng)["wall_time"] + missing_s}


class BrokenNode(SimulatedNode):
    """None of its trials holds its levels."""

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        levels = tuple(
            replace(one, achieved=1.3 * one.requested, verdict=LevelVerdict.MISSED)
            if one.verdict is LevelVerdict.HELD
            else one
            for one in outcome.record.levels
        )
        reasons = ("cores: 30 % above what was asked",)
        record = replace(outcome.record, state=TrialState.INVALID, levels=levels, reasons=reasons)
        return replace(outcome, record=record)


def with_goal(goal: str, plan: str = PLAN) -> str:
    """A plan with another question."""
    assert GOAL in plan
    return plan.replace(GOAL, goal)


def prepared(plan: Plan, blueprint: Blueprint) -> experiment.Experiment:
    """A plan as if this machine could set everything."""
    radius = Radius(allowed(plan.blast_radius, None), NO_CAPS, Demand())
    return experiment.Experiment(plan, blueprint, (), (), most_trials(plan, 0), radius, nodes.node())


def execute(
    folder: Path,
    plan: str = PLAN,
    model: str = MODEL,
    truth: Truth = truth,
    kind: type[SimulatedNode] = SimulatedNode,
    watcher: loop.Watcher | None = None,
) -> Path:
    """Execute a plan on a simulated node, and write its results; gives the run directory."""
    loaded, blueprint = experiment.read(plans.write(folder / "plan", plan, model))
    node = kind(blueprint.variables, truth, np.random.default_rng(11))
    directory = folder / "run"
    facts: dict[str, Json] = {"name": loaded.name, "status": "running", "seed": loaded.design.seed}
    with RunStore.create(directory, loaded.plan_source, loaded.model_source, facts) as store:
        outcome: Outcome = loop.execute(
            prepared(loaded, blueprint),
            store,
            node,  # type: ignore[arg-type]
            watcher or Watcher(),
            node.clock,
            node.pause,
        )
        execution.store_results(store, outcome)
    return directory
