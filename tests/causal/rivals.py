"""Two models that agree on all data without intervention and differ in an effect that is not identified.

The construction of I. Shpitser and J. Pearl (Identification of joint interventional distributions, 2006): within a
hedge every variable is the parity of its parents and of its hidden causes. In the one model the variables of the
inner part take notice of the outer part, in the other they do not; the parity of the inner part is the same in
both until something of the outer part is set. A second bit of each variable carries that parity to the outcomes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import product

import numpy as np

from insitu.orchestrator.causal.discrete import DiscreteModel, Table
from insitu.orchestrator.causal.mixed_graph import MixedGraph

_NOISE = 0.1
"""Chance that a bit is turned over, so that every combination of levels occurs."""


@dataclass(frozen=True, slots=True)
class Hedge:
    """`inner` is a district of the effect; `outer` is one district around it, all of which leads to it."""

    inner: frozenset[str]
    outer: frozenset[str]


def find_hedge(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> Hedge | None:
    """A hedge against P(outcomes | do(causes)), by trying every set of vertices."""
    from tests.causal.graphs import subsets

    rest = frozenset(graph.vertices).difference(causes)
    for inner in graph.districts(graph.ancestors(outcomes, rest)):
        for more in subsets(frozenset(graph.vertices) - inner):
            outer = inner | more
            whole = more and graph.district(inner, outer) == outer
            if whole and graph.ancestors(inner, outer) == outer:
                return Hedge(inner, outer)
    return None


def rival_models(graph: MixedGraph, outcomes: Collection[str], causes: Collection[str]) -> list[DiscreteModel]:
    """Two models that differ in P(outcomes | do(causes)); the effect must not be identified."""
    hedge = find_hedge(graph, causes, outcomes)
    assert hedge is not None, "the effect is identified"
    return [_model(graph, hedge, outcomes, causes, notices) for notices in (True, False)]


def _model(
    graph: MixedGraph, hedge: Hedge, outcomes: Collection[str], causes: Collection[str], notices: bool
) -> DiscreteModel:
    toward_inner = _toward(graph, hedge.inner, hedge.outer)
    within = frozenset(graph.vertices).difference(causes)
    toward_outcome = _toward(graph, frozenset(outcomes), graph.ancestors(outcomes, within))
    shared = _spanning_tree(graph, hedge)
    mechanisms = {f"{a}~{b}": Table((f"{a}~{b}",), np.full(2, 0.5)) for a, b in shared}
    noisy = min(hedge.inner)
    for vertex in graph.vertices:
        ignored = frozenset() if notices or vertex not in hedge.inner else hedge.outer - hedge.inner
        above = [one for one, below in toward_inner.items() if below == vertex and one not in ignored]
        bits = [f"{a}~{b}" for a, b in shared if vertex in (a, b) and ignored.isdisjoint((a, b))]
        carried = [one for one, below in toward_outcome.items() if below == vertex]
        names = (*dict.fromkeys([*above, *carried]), *bits)
        table = np.zeros([*(2 if "~" in name else 4 for name in names), 4])
        for levels in product(*(range(size) for size in table.shape[:-1])):
            level = dict(zip(names, levels, strict=True))
            role = sum(level[one] % 2 for one in above) + sum(level[one] for one in bits)
            carry = sum(level[one] // 2 + (level[one] % 2 if one in hedge.inner else 0) for one in carried)
            turned = _NOISE if vertex == noisy else 0.0 if vertex in hedge.outer else 0.5
            for own, moved in product(range(2), range(2)):
                odds = turned if own != role % 2 else 1 - turned
                table[(*levels, 2 * moved + own)] = odds * (_NOISE if moved != carry % 2 else 1 - _NOISE)
        mechanisms[vertex] = Table((*names, vertex), table)
    return DiscreteModel(mechanisms, frozenset(f"{a}~{b}" for a, b in shared))


def _toward(graph: MixedGraph, ends: frozenset[str], within: frozenset[str]) -> dict[str, str]:
    """Of each vertex within but the ends: one child, so that following these leads to an end."""
    found: dict[str, str] = {}
    waiting = sorted(ends)
    for below in waiting:
        for above in sorted((graph.parents[below] & within) - ends - found.keys()):
            found[above] = below
            waiting.append(above)
    return found


def _spanning_tree(graph: MixedGraph, hedge: Hedge) -> list[tuple[str, str]]:
    """Pairs with a hidden cause that link all of the hedge, and of which some link all of its inner part."""
    tree: list[tuple[str, str]] = []
    linked = {min(hedge.inner)}
    for part in (hedge.inner, hedge.outer):
        while not linked >= part:
            pair = next((a, b) for a in sorted(linked) for b in sorted((graph.siblings[a] & part) - linked))
            tree.append(pair)
            linked.add(pair[1])
    return tree
