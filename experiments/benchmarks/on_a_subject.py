"""Trials until a goal is reached on a real subject: chosen as needed, at random, on a grid, one factor at a time.

GNU sort under throttles, as in ``configs/goal.yaml``; asked is what a disk of half the rate costs, which is little
beside what processors do to it, so that some dozens of trials are needed. The sequential design is executed
several times. Of each other way so many trials are executed once, and the order in which they are looked at is
drawn many times: trials of theirs do not depend on what came before. They are executed between those of the
sequential designs, one of each way in turn, since the machine has better and worse minutes. Trials that neighbours
slowed are set aside, for all ways alike, and executed again.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.benchmarks.claims import Claim
from experiments.benchmarks.ways import RIVALS, Range, executed, in_order, sequential
from insitu.injectors.contract import new_run_id
from insitu.orchestrator import experiment
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.execution.cluster import LocalCluster, local_cluster
from insitu.orchestrator.execution.orders import data_programs, order_for
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.endings import pause_after
from insitu.orchestrator.store.ledger import was_disturbed
from insitu.orchestrator.store.records import PlannedTrial, StoredTrial

RUNS, ORDERS, MOST_TRIALS = 3, 25, 120
TARGET = 4.0
RANGES = {"disk_read_rate": Range(20e6, 40e6, log=True), "cpu_cores": Range(0.3, 0.9)}
_ATTEMPTS = 3

MODEL = """
variables:
  input_size:     {unit: B, role: parameter, levels: [12 MB, 24 MB]}
  disk_read_rate: {unit: B/s, set_by: disk.read_rate, range: [20 MB/s, 40 MB/s], scale: log}
  cpu_cores:      {unit: core, set_by: cpu.cores, range: [0.3 core, 0.9 core]}
  runtime:        {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * input_size / disk_read_rate + (d + b * input_size) / cpu_cores
"""
PLAN = f"""
name: sort-goal
subject:
  data:
    text: ["{{python}}", -m, insitu.workloads.python_sources, "24000000"]
  prepare: [head, -c, "{{input_size}}", "{{data}}/text"]
  command: [sort, --parallel=1, -o, "{{scratch}}/out", "{{scratch}}/in"]
model: model.yaml
goal: {{effect: disk_read_rate -> runtime, relative_half_width: 0.1}}
budget: {{trials: {MOST_TRIALS}, time: 2 h}}
tolerated_slowdown: 15 %
"""


@dataclass(frozen=True, slots=True)
class RealNode:
    """This machine; a trial that others disturbed is executed again after a while."""

    cluster: LocalCluster
    plan: Plan

    def stored(self, planned: PlannedTrial) -> StoredTrial:
        for attempt in itertools.count(1):
            record = self.cluster.run_trial(order_for(self.plan, planned)).record
            if not was_disturbed(record) or attempt == _ATTEMPTS:
                break
            time.sleep(pause_after(attempt))
        return StoredTrial(planned, record.state, record)


@dataclass(frozen=True, slots=True)
class SharedNode:
    """The same machine, on which other ways have their turn before each trial.

    Attributes
    ----------
    others
        Way to its trials to come, which are executed when they are taken.
    taken
        Way to those that were.
    """

    node: RealNode
    others: Mapping[str, Iterator[StoredTrial]]
    taken: dict[str, list[StoredTrial]]

    def stored(self, planned: PlannedTrial) -> StoredTrial:
        self.turn()
        return self.node.stored(planned)

    def turn(self) -> bool:
        """Execute one trial of each other way that has not had all of its own; whether there was one."""
        waiting = [way for way in self.others if len(self.taken[way]) < MOST_TRIALS]
        for way in waiting:
            self.taken[way].append(next(self.others[way]))
        return bool(waiting)


_WHAT = "the same on a real subject (GNU sort)"


def main() -> list[Claim]:
    """Print the table, and the claim that it is to meet."""
    if os.geteuid() != 0:
        return [Claim(_WHAT, f"{TARGET:g}, at the median", "needs root, to throttle a disk", None)]
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        found = _all_ways(Path(folder))
    print(f"{'':>15}{'trials, median':>16}{'lowest':>8}{'highest':>9}{'beside ours':>13}")
    ours = statistics.median(found["sequential"])
    for way, counts in found.items():
        middle = statistics.median(counts)
        print(f"{way:>15}{middle:>16g}{min(counts):>8}{max(counts):>9}{middle / ours:>13.2f}")
    print(
        f"not within {MOST_TRIALS} trials counts as {MOST_TRIALS}; {RUNS} executions of ours, "
        f"{ORDERS} orders of each other"
    )
    theirs = statistics.median(found["random"])
    ratio, at_least = theirs / ours, theirs >= MOST_TRIALS > ours
    text = f"{ratio:.2f}{' or more: at random it was not reached' if at_least else ''}"
    met = True if ratio >= TARGET else None if at_least else False
    return [Claim(_WHAT, f"{TARGET:g}, at the median", text, met)]


def _all_ways(folder: Path) -> dict[str, list[int]]:
    """Way to trials until the goal was reached, one number per execution or order."""
    (folder / "model.yaml").write_text(MODEL)
    (folder / "plan.yaml").write_text(PLAN)
    loaded, blueprint = experiment.read(folder / "plan.yaml")
    plan = experiment.prepare(loaded, blueprint, folder).plan
    found: dict[str, list[int]] = {"sequential": []}
    with local_cluster(new_run_id(), folder / "work", folder) as cluster:
        cluster.make_data(data_programs(plan), plan.guards)
        alone = RealNode(cluster, plan)
        others = {
            way: executed(alone, ordered(space_of(plan), RANGES, np.random.default_rng(5)))
            for way, ordered in RIVALS.items()
        }
        node = SharedNode(alone, others, {way: [] for way in RIVALS})
        for seed in range(RUNS):
            seeded = replace(plan, design=replace(plan.design, seed=seed))
            found["sequential"].append(sequential(seeded, blueprint, node, MOST_TRIALS))
            print(f"sequential: {found['sequential'][-1]} trials", flush=True)
        while node.turn():
            pass
    for way, trials in node.taken.items():
        rng = np.random.default_rng(5)
        found[way] = [in_order(plan, blueprint, _renumbered(trials, rng), MOST_TRIALS) for _ in range(ORDERS)]
    return found


def _renumbered(trials: list[StoredTrial], rng: np.random.Generator) -> list[StoredTrial]:
    """The same trials in a random order, numbered in that order."""
    drawn = (trials[int(index)] for index in rng.permutation(len(trials)))
    return [replace(one, planned=replace(one.planned, trial=number)) for number, one in enumerate(drawn, start=1)]


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
