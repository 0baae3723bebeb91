"""Trials until a goal is reached: chosen as needed, beside random ones, a grid and one factor at a time.

Five laws, whose subjects are simulated with noise of known size, each from many seeds. All four ways are judged
by the same rule at the same numbers of trials: the interval of the goal, widened for repeated looks, is within
10 % of the estimate. What differs is which trials are executed.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.benchmarks.claims import Claim
from experiments.simulated import SimulatedNode
from insitu.orchestrator import experiment
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.design.space import Space, space_of
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.choice import steering_of
from insitu.orchestrator.steering.endings import Ending
from insitu.orchestrator.steering.sequential import SequentialSteering
from insitu.orchestrator.steering.state import knowledge_of
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import Assignment, PlannedTrial, StoredTrial

SEEDS = 15
MOST_TRIALS = 400
TARGET = 4.0

MODEL = """
variables:
  size: {{unit: '', role: parameter}}
  rate: {{unit: '', role: parameter}}
  cpu: {{unit: '', role: parameter}}
  runtime: {{unit: s, measured_by: wall_time}}
laws:
  runtime: {law}
"""
PLAN = """
name: {name}
subject: {{command: [sleep, "{{size}}{{rate}}{{cpu}}"]}}
model: model.yaml
factors:
  size: {{levels: [1, 2, 4, 8]}}
  rate: {{levels: [1, 2, 4]}}
  cpu: {{levels: [1, 2, 4]}}
goal: {goal}
design: {{kind: sequential, seed: {seed}}}
budget: {{trials: {trials}}}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A law with its true parameters, a goal, and the noise of one trial."""

    name: str
    law: str
    goal: str
    truth: Callable[[Mapping[str, float]], float]
    noise_s: float


def _effect(cause: str) -> str:
    return f"{{effect: {cause} -> runtime, between: [1, 4], relative_half_width: 0.1}}"


CASES = (
    Case(
        "read and compute",
        "c + size * rate * r + size * cpu * a",
        _effect("rate"),
        lambda v: 1 + 0.3 * v["size"] * v["rate"] + 0.2 * v["size"] * v["cpu"],
        0.5,
    ),
    Case(
        "work over cores",
        "c + a * size / cpu + b * rate",
        _effect("cpu"),
        lambda v: 0.5 + 2.0 * v["size"] / v["cpu"] + 0.4 * v["rate"],
        0.8,
    ),
    Case(
        "scale out",
        "c + a * size / cpu + l * log(cpu) + m * cpu",
        "{prediction: runtime, at: {size: 8, rate: 1, cpu: 4}, relative_half_width: 0.1}",
        lambda v: 1 + 1.5 * v["size"] / v["cpu"] + 0.5 * np.log(v["cpu"]) + 0.2 * v["cpu"],
        1.0,
    ),
    Case(
        "all parameters",
        "c + a * size + b * rate + d * cpu",
        "{parameters: runtime, relative_half_width: 0.1}",
        lambda v: 3 + 0.5 * v["size"] + 1.0 * v["rate"] + 1.0 * v["cpu"],
        0.5,
    ),
    Case(
        "with an interaction",
        "c + a * size + b * rate + d * size * rate + e * cpu",
        _effect("rate"),
        lambda v: 1 + 0.5 * v["size"] + 0.3 * v["rate"] + 0.25 * v["size"] * v["rate"] + 0.2 * v["cpu"],
        0.6,
    ),
)

Order = Iterator[Assignment]


def at_random(space: Space, rng: np.random.Generator) -> Order:
    while True:
        yield space.assignment(int(rng.integers(len(space))))


def on_a_grid(space: Space, rng: np.random.Generator) -> Order:
    while True:
        yield from (space.assignment(int(number)) for number in rng.permutation(len(space)))


def one_at_a_time(space: Space, rng: np.random.Generator) -> Order:
    centre = space.levels[space.centre()]
    columns = [np.unique(column) for column in space.levels.T]
    places = [
        np.where(np.arange(len(centre)) == factor, level, centre)
        for factor, levels in enumerate(columns)
        for level in levels
    ]
    while True:
        for index in rng.permutation(len(places)):
            levels = zip(space.names, map(float, places[index]), strict=True)
            yield Assignment((*levels, *space.free))


RIVALS = {"random": at_random, "grid": on_a_grid, "one at a time": one_at_a_time}


def main() -> list[Claim]:
    """Print the table, and the claim that it is to meet."""
    ways = ("sequential", *RIVALS)
    print(f"{'median trials':>20}" + "".join(f"{way:>15}" for way in ways) + f"{'random : ours':>15}")
    ratios: list[float] = []
    for case in CASES:
        found = {way: [_trials(case, way, seed) for seed in range(SEEDS)] for way in ways}
        own = [theirs / ours for theirs, ours in zip(found["random"], found["sequential"], strict=True)]
        ratios += own
        shown = "".join(f"{statistics.median(found[way]):15g}" for way in ways)
        print(f"{case.name:>20}{shown}{statistics.median(own):15.2f}", flush=True)
    median = statistics.median(ratios)
    print(f"not within {MOST_TRIALS} trials counts as {MOST_TRIALS}; {SEEDS} seeds each")
    what = "trials to a 10 % half width: random over sequential"
    return [Claim(what, f"{TARGET:g}, at the median", f"{median:.2f} over five laws", median >= TARGET)]


def _trials(case: Case, way: str, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        plan, blueprint = _loaded(Path(folder), case, seed)
    rng = np.random.default_rng([seed, 17])

    def truth(levels: Mapping[str, float], noise: np.random.Generator) -> dict[str, float]:
        return {"wall_time": float(case.truth(levels)) + noise.normal(0, case.noise_s)}

    node = SimulatedNode(blueprint.variables, truth, rng)
    if way == "sequential":
        return _sequential(plan, blueprint, node)
    return _in_order(plan, blueprint, node, RIVALS[way](space_of(plan), np.random.default_rng([seed, 5])))


def _loaded(folder: Path, case: Case, seed: int) -> tuple[Plan, Blueprint]:
    (folder / "model.yaml").write_text(MODEL.format(law=case.law))
    text = PLAN.format(name="simulated", goal=case.goal, seed=seed, trials=MOST_TRIALS)
    for name in ("size", "rate", "cpu"):
        if name not in case.law:
            text = text.replace(f"{{{name}}}", "").replace(f"  {name}: {{levels: [1, 2, 4]}}\n", "")
            text = text.replace(f"{name}: 1, ", "")
    (folder / "plan.yaml").write_text(text)
    return experiment.read(folder / "plan.yaml")


def _sequential(plan: Plan, blueprint: Blueprint, node: SimulatedNode) -> int:
    steering = steering_of(plan, blueprint, MOST_TRIALS)
    trials: list[StoredTrial] = []
    while (step := steering.advance(Ledger(trials), partial(tuple, trials), 0.0)).outcome is None:
        trials += [node.stored(planned) for planned in step.trials]
    if step.outcome.ending is not Ending.REACHED:
        return MOST_TRIALS
    return len(trials)


def _in_order(plan: Plan, blueprint: Blueprint, node: SimulatedNode, order: Order) -> int:
    """Executes trials as they come, and judges at the same looks as a sequential design does."""
    steering = steering_of(plan, blueprint, MOST_TRIALS)
    assert isinstance(steering, SequentialSteering)
    assert plan.goal is not None
    goal, looks = plan.goal, steering.looks
    trials: list[StoredTrial] = []
    for count in itertools.chain(looks.trials, range(looks.trials[-1] + 2, MOST_TRIALS + 1, 2)):
        while len(trials) < count:
            number = len(trials) + 1
            trials.append(node.stored(PlannedTrial(number, 1, next(order))))
        answer = knowledge_of(plan, blueprint, goal, trials).answer(goal.confidence, looks.inflation)
        if answer is not None and answer.half_width <= (goal.relative_half_width or 0.0):
            return count
    return MOST_TRIALS


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
