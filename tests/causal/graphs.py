"""Graphs for tests: a short notation, random ones, and checks by brute force with no code of the product."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, combinations, pairwise

import numpy as np
from hypothesis import strategies as st

from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph

_SEEDS = st.integers(0, 2**32 - 1)
_ARROW = re.compile(r"\s*(<->|->|<-)\s*")


def drawn(text: str) -> MixedGraph:
    """A graph from ``"z -> x -> y, x <-> y"``; ``<->`` is a hidden common cause."""
    vertices: dict[str, None] = {}
    edges: list[Edge] = []
    confounded: list[tuple[str, str]] = []
    for part in text.split(","):
        names_and_arrows = _ARROW.split(part.strip())
        names, arrows = names_and_arrows[::2], names_and_arrows[1::2]
        vertices.update(dict.fromkeys(names))
        for first, arrow, second in zip(names, arrows, names[1:], strict=False):
            if arrow == "<->":
                confounded.append((first, second))
            else:
                edges.append(Edge(first, second) if arrow == "->" else Edge(second, first))
    return mixed_graph(vertices, edges, confounded)


def random_graph(rng: np.random.Generator, size: int) -> MixedGraph:
    """A graph over the first letters, whose edges lead down the alphabet; sparse, dense and in between."""
    names = "abcdefgh"[:size]
    directed, hidden = rng.uniform(0.2, 0.8), rng.uniform(0.0, 0.6)
    pairs = list(combinations(names, 2))
    edges = [Edge(*pair) for pair in pairs if rng.random() < directed]
    return mixed_graph(names, edges, [pair for pair in pairs if rng.random() < hidden])


def mixed_graphs(least: int = 2, most: int = 6) -> st.SearchStrategy[MixedGraph]:
    """Small random graphs. Drawn from a seed, since choices made one by one come out nearly empty too often."""
    return st.builds(
        lambda seed, size: random_graph(np.random.default_rng(seed), size), _SEEDS, st.integers(least, most)
    )


def subsets(names: Collection[str]) -> Iterator[frozenset[str]]:
    """All subsets, in sizes rising."""
    ordered = sorted(names)
    found = chain.from_iterable(combinations(ordered, size) for size in range(len(ordered) + 1))
    return (frozenset(one) for one in found)


def paths(graph: MixedGraph, start: str, end: str) -> Iterator[list[tuple[str, str, str]]]:
    """Every path as (vertex, mark at its near end, mark at its far end): the marks of the edges, ``>`` or ``-``.

    Each entry is one edge: the vertex that it leads to, the mark at the vertex it comes from, the mark there.
    """

    def extended(at: str, seen: frozenset[str]) -> Iterator[list[tuple[str, str, str]]]:
        if at == end:
            yield []
            return
        steps = [
            *((one, "-", ">") for one in graph.children[at]),
            *((one, ">", "-") for one in graph.parents[at]),
            *((one, ">", ">") for one in graph.siblings[at]),
        ]
        for one, near, far in steps:
            if one not in seen:
                for rest in extended(one, seen | {one}):
                    yield [(one, near, far), *rest]

    yield from extended(start, frozenset([start]))


def is_open(graph: MixedGraph, path: list[tuple[str, str, str]], given: Collection[str]) -> bool:
    """Whether a path is open while `given` is held equal, by the definition."""
    for (vertex, _, into), (_, out, _) in pairwise(path):
        if into == out == ">":
            if not any(vertex == one or _leads(graph, vertex, one) for one in given):
                return False
        elif vertex in given:
            return False
    return True


def _leads(graph: MixedGraph, start: str, end: str) -> bool:
    return any(child == end or _leads(graph, child, end) for child in graph.children[start])


def connected_by_paths(
    graph: MixedGraph, first: Collection[str], second: Collection[str], given: Collection[str]
) -> bool:
    """Whether some path from the one to the other is open, by trying all of them."""
    return any(
        is_open(graph, path, given)
        for start in set(first) - set(given)
        for end in set(second) - set(given)
        for path in paths(graph, start, end)
    )
