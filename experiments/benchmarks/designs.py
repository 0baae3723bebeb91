"""Trials until a goal is reached: chosen as needed, beside random ones, a grid and one factor at a time.

Five laws, whose subjects are simulated with noise of known size, each from many seeds. Variables have ranges, as
in a plan of a goal alone. Random trials are spread evenly over the ranges; the grid and one factor at a time have
five levels of each. The noise is such that some dozens of trials are needed: with less, all end at the first look.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.benchmarks.claims import Claim
from experiments.benchmarks.ways import RIVALS, SEQUENTIAL, WAYS, Range, Ranges, executed, in_order, sequential
from experiments.simulated import SimulatedNode
from insitu.orchestrator import experiment
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.plan.types import Plan

SEEDS = 15
MOST_TRIALS = 400
TARGET = 4.0

MODEL = """
variables:
{variables}
  runtime: {{unit: s, measured_by: wall_time}}
laws:
  runtime: {law}
"""
PLAN = """
name: simulated
subject: {{command: [sleep, "{placeholders}"]}}
model: model.yaml
factors:
{factors}
goal: {goal}
design: {{kind: sequential, seed: {seed}}}
budget: {{trials: {trials}}}
"""

SIZE, RATE, CPU = Range(1, 8), Range(1, 4), Range(1, 4)


@dataclass(frozen=True, slots=True)
class Case:
    """A law with its true parameters, what trials may set, a goal, and the noise of one trial."""

    name: str
    law: str
    ranges: Ranges
    goal: str
    truth: Callable[[Mapping[str, float]], float]
    noise_s: float


def _effect(cause: str, of: Range) -> str:
    return f"{{effect: {cause} -> runtime, between: [{of.low:g}, {of.high:g}], relative_half_width: 0.1}}"


CASES = (
    Case(
        "read and compute",
        "c + size * rate * r + size * cpu * a",
        {"size": SIZE, "rate": RATE, "cpu": CPU},
        _effect("rate", RATE),
        lambda v: 1 + 0.3 * v["size"] * v["rate"] + 0.2 * v["size"] * v["cpu"],
        1.0,
    ),
    Case(
        "work over cores",
        "c + a * size / cores + b * rate",
        {"size": SIZE, "rate": RATE, "cores": Range(0.5, 4)},
        _effect("cores", Range(0.5, 4)),
        lambda v: 0.5 + 2.0 * v["size"] / v["cores"] + 0.4 * v["rate"],
        2.5,
    ),
    Case(
        "scale out",
        "c + a * size / machines + l * log(machines) + m * machines",
        {"size": SIZE, "machines": Range(1, 16)},
        "{prediction: runtime, at: {size: 8, machines: 16}, relative_half_width: 0.1}",
        lambda v: 1 + 1.5 * v["size"] / v["machines"] + 0.5 * np.log(v["machines"]) + 0.2 * v["machines"],
        1.5,
    ),
    Case(
        "all parameters",
        "c + a * size + b * rate + d * cpu",
        {"size": SIZE, "rate": RATE, "cpu": CPU},
        "{parameters: runtime, relative_half_width: 0.1}",
        lambda v: 3 + 0.5 * v["size"] + 1.0 * v["rate"] + 1.0 * v["cpu"],
        0.5,
    ),
    Case(
        "with an interaction",
        "c + a * size + b * rate + d * size * rate + e * cpu",
        {"size": SIZE, "rate": RATE, "cpu": CPU},
        _effect("rate", RATE),
        lambda v: 1 + 0.5 * v["size"] + 0.3 * v["rate"] + 0.25 * v["size"] * v["rate"] + 0.2 * v["cpu"],
        0.3,
    ),
)


def main() -> list[Claim]:
    """Print the table, and the claim that it is to meet."""
    print(f"{'median trials':>20}" + "".join(f"{way:>15}" for way in WAYS) + f"{'random : ours':>15}")
    ratios: list[float] = []
    for case in CASES:
        found = {way: [_trials(case, way, seed) for seed in range(SEEDS)] for way in WAYS}
        own = [theirs / ours for theirs, ours in zip(found["random"], found[SEQUENTIAL], strict=True)]
        ratios += own
        shown = "".join(f"{statistics.median(found[way]):15g}" for way in WAYS)
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
    if way == SEQUENTIAL:
        return sequential(plan, blueprint, node, MOST_TRIALS)
    order = RIVALS[way](space_of(plan), case.ranges, np.random.default_rng([seed, 5]))
    return in_order(plan, blueprint, executed(node, order), MOST_TRIALS)


def _loaded(folder: Path, case: Case, seed: int) -> tuple[Plan, Blueprint]:
    variables = "\n".join(f"  {name}: {{unit: '', role: parameter}}" for name in case.ranges)
    factors = "\n".join(f"  {name}: {own.yaml}" for name, own in case.ranges.items())
    placeholders = "".join(f"{{{name}}}" for name in case.ranges)
    (folder / "model.yaml").write_text(MODEL.format(variables=variables, law=case.law))
    values = {"placeholders": placeholders, "factors": factors, "goal": case.goal, "seed": seed}
    (folder / "plan.yaml").write_text(PLAN.format(trials=MOST_TRIALS, **values))
    return experiment.read(folder / "plan.yaml")


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
