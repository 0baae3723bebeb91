"""Ways to choose trials until a goal is reached: sequential, random, a grid, one factor at a time.

All are judged by the same rule, at the looks that the sequential design has: the interval of the goal, widened for
repeated looks, is as narrow as the goal asks for. What differs is which trials are executed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.choice import steering_of
from insitu.orchestrator.steering.endings import Ending
from insitu.orchestrator.steering.sequential import SequentialSteering
from insitu.orchestrator.steering.state import knowledge_of
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import Assignment, PlannedTrial, StoredTrial

SEQUENTIAL = "sequential"


class Node(Protocol):
    """Where trials are executed."""

    def stored(self, planned: PlannedTrial) -> StoredTrial:
        """Execute one trial."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """What a variable may be set to; `log` where its logarithm is what is spread evenly."""

    low: float
    high: float
    log: bool = False

    @property
    def yaml(self) -> str:
        return f"{{range: [{self.low:g}, {self.high:g}]{', scale: log' if self.log else ''}}}"

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a level, each as likely as any other."""
        if self.log:
            return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        return float(rng.uniform(self.low, self.high))


Ranges = Mapping[str, Range]
Order = Iterator[Assignment]


def at_random(space: Space, ranges: Ranges, rng: np.random.Generator) -> Order:
    """Every variable by itself, evenly over its range; a variable without a range at one of its levels."""
    while True:
        drawn = space.levels[int(rng.integers(len(space)))]
        levels = (
            (name, ranges[name].draw(rng) if name in ranges else float(level))
            for name, level in zip(space.names, drawn, strict=True)
        )
        yield Assignment((*levels, *space.free))


def on_a_grid(space: Space, _: Ranges, rng: np.random.Generator) -> Order:
    """Every combination of levels, in random order, again and again."""
    while True:
        yield from (space.assignment(int(number)) for number in rng.permutation(len(space)))


def one_at_a_time(space: Space, _: Ranges, rng: np.random.Generator) -> Order:
    """Every level of one variable while the others stand in the middle, in random order, again and again."""
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


RIVALS: Mapping[str, Callable[[Space, Ranges, np.random.Generator], Order]] = {
    "random": at_random,
    "grid": on_a_grid,
    "one at a time": one_at_a_time,
}
WAYS = (SEQUENTIAL, *RIVALS)


def sequential(plan: Plan, blueprint: Blueprint, node: Node, most: int) -> int:
    """Execute trials as the plan's design chooses them; how many until the goal is reached, or `most`."""
    steering = steering_of(plan, blueprint, most)
    trials: list[StoredTrial] = []
    while (step := steering.advance(Ledger(trials), partial(tuple, trials), 0.0)).outcome is None:
        trials += [node.stored(planned) for planned in step.trials]
    return len(trials) if step.outcome.ending is Ending.REACHED else most


def executed(node: Node, order: Order) -> Iterator[StoredTrial]:
    """Execute trials in an order that nothing changes, each when it is asked for."""
    for number, assignment in enumerate(order, start=1):
        yield node.stored(PlannedTrial(number, 1, assignment))


def in_order(plan: Plan, blueprint: Blueprint, trials: Iterable[StoredTrial], most: int) -> int:
    """Take trials as they come; how many until the goal is reached, or `most`.

    They are judged at the looks that a sequential design of the same plan has.
    """
    steering = steering_of(plan, blueprint, most)
    assert isinstance(steering, SequentialSteering)
    assert plan.goal is not None
    goal, looks, coming = plan.goal, steering.looks, iter(trials)
    seen: list[StoredTrial] = []
    counts: list[int] = [*map(int, looks.trials), *range(int(looks.trials[-1]) + 2, most + 1, 2)]
    for count in counts:
        seen += itertools.islice(coming, count - len(seen))
        answer = knowledge_of(plan, blueprint, goal, seen).answer(goal.confidence, looks.inflation)
        if answer is not None and answer.half_width <= (goal.relative_half_width or 0.0):
            return count
    return most
