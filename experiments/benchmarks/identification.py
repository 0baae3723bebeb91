"""How long does it take to say whether an effect can be told, in a graph with 200 variables and 2,000 edges?

Random graphs with few and with many hidden causes, and random questions; then graphs made so that the smallest set
of interventions is hard to prove.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from experiments.benchmarks.claims import Claim
from insitu.orchestrator.causal.answers import Answer, FromData, NeedsIntervention
from insitu.orchestrator.causal.explanation import explain
from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.independencies import implied_independencies
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph

VARIABLES, EDGES, QUESTIONS = 200, 2000, 400
HIDDEN_CAUSES = (20, 60, 150, 300)
TARGET_S = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and how long its answer and the words for it took."""

    answer: Answer
    took_s: float

    @property
    def kind(self) -> str:
        if isinstance(self.answer, FromData):
            return f"told by {self.answer.method}"
        if isinstance(self.answer, NeedsIntervention):
            return f"needs interventions, {'smallest' if self.answer.proven_smallest else 'perhaps not smallest'}"
        return "cannot be told"


def main() -> list[Claim]:
    """Print the times by kind of answer."""
    rng = np.random.default_rng(4)
    graphs = [_random_graph(rng, hidden) for hidden in HIDDEN_CAUSES]
    asked = [_ask_at_random(graphs[number % len(graphs)], rng) for number in range(QUESTIONS)]
    asked += [_ask_what_is_hard(rng, variables) for variables in (6, 9, 12)]
    by_kind: dict[str, list[float]] = defaultdict(list)
    for one in asked:
        by_kind[one.kind].append(one.took_s)
    print(f"{'answer':42} {'times':>6} {'median':>10} {'longest':>10}")
    for kind, took_s in sorted(by_kind.items()):
        print(f"{kind:42} {len(took_s):6} {np.median(took_s) * 1e3:7.1f} ms {max(took_s) * 1e3:7.1f} ms")
    started = time.perf_counter()
    found = implied_independencies(graphs[0], graphs[0].vertices)
    took_ms = (time.perf_counter() - started) * 1e3
    print(f"{len(found.statements)} independencies in {took_ms:.0f} ms, {found.left_out} pairs left out")
    longest_s = max(one.took_s for one in asked)
    what = f"identify, {VARIABLES} variables, {EDGES} edges"
    return [Claim(what, f"{TARGET_S:g} s", f"{longest_s:.2f} s, the longest", longest_s <= TARGET_S)]


def _random_graph(rng: np.random.Generator, hidden_causes: int) -> MixedGraph:
    names = [f"v{number}" for number in range(VARIABLES)]
    pairs = [(first, second) for place, first in enumerate(names) for second in names[place + 1 :]]
    edges = [Edge(*pairs[index]) for index in rng.choice(len(pairs), EDGES, replace=False)]
    return mixed_graph(
        names, edges, [pairs[index] for index in rng.choice(len(pairs), hidden_causes, replace=False)]
    )


def _ask_at_random(graph: MixedGraph, rng: np.random.Generator) -> Asked:
    *others, outcome = graph.vertices
    causes = [str(name) for name in rng.choice(others, int(rng.integers(1, 5)), replace=False)]
    return _ask(graph, causes, outcome, [name for name in others if rng.random() < 0.5])


def _ask_what_is_hard(rng: np.random.Generator, settable: int) -> Asked:
    """Causes that cannot be set, each mixed with the outcome by way of three variables that can."""
    threes = [tuple(f"{kind}{rng.integers(settable)}" for kind in "abc") for _ in range(5 * settable)]
    edges: set[Edge] = set()
    hidden: set[tuple[str, str]] = set()
    for number, (first, second, third) in enumerate(threes):
        cause = f"cause{number}"
        edges |= {Edge(one, cause) for one in (first, second, third)} | {Edge(cause, "outcome")}
        hidden |= {("outcome", first), (first, second), (second, third), (third, cause)}
    able = sorted({one for three in threes for one in three})
    causes = [f"cause{number}" for number in range(len(threes))]
    spare = [f"v{number}" for number in range(VARIABLES - len(able) - len(causes) - 1)]
    pairs = [Edge(one, other) for one in spare for other in able + causes]
    edges |= {pairs[index] for index in rng.choice(len(pairs), EDGES - len(edges), replace=False)}
    graph = mixed_graph([*spare, *able, *causes, "outcome"], sorted(edges, key=repr), sorted(hidden))
    return _ask(graph, causes, "outcome", able)


def _ask(graph: MixedGraph, causes: list[str], outcome: str, settable: list[str]) -> Asked:
    started = time.perf_counter()
    answer = identify(graph, causes, [outcome], measured=graph.vertices, settable=settable)
    explain(graph, answer)
    return Asked(answer, time.perf_counter() - started)
