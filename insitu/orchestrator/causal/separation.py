"""Which variables are separated by which others, and the smallest sets that separate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.vertex_cut import smallest_cut


def connected(graph: MixedGraph, start: Collection[str], given: Collection[str]) -> frozenset[str]:
    """Every vertex, beside `start` and `given`, to which a path is open from `start` while `given` is held equal.

    Notes
    -----
    A walk over pairs of a vertex and of how it was entered, each visited once: R. Shachter, Bayes-ball, 1998, with
    hidden causes as arrowheads at both ends (m-separation: T. Richardson, 2003). Linear in the edges.
    """
    equal = frozenset(given)
    by_arrowhead: set[str] = set()
    by_tail = set(start) - equal
    waiting = [(vertex, False) for vertex in by_tail]
    while waiting:
        vertex, into = waiting.pop()
        if into is (vertex in equal):  # what is held equal below a collider sends the walk back up through it
            above = graph.parents[vertex] - by_tail
            by_tail |= above
            beside = graph.siblings[vertex] - by_arrowhead
            by_arrowhead |= beside
            waiting += [(one, False) for one in above]
            waiting += [(one, True) for one in beside]
        if vertex not in equal:
            below = graph.children[vertex] - by_arrowhead
            by_arrowhead |= below
            waiting += [(one, True) for one in below]
    return frozenset(by_arrowhead | by_tail).difference(start, equal)


def separated(graph: MixedGraph, first: Collection[str], second: Collection[str], given: Collection[str]) -> bool:
    """Whether every path between the two is blocked while `given` is held equal (m-separation)."""
    return connected(graph, first, given).isdisjoint(second)


def smallest_separator(
    graph: MixedGraph, first: Collection[str], second: Collection[str], allowed: Collection[str]
) -> frozenset[str] | None:
    """Fewest `allowed` vertices that separate `first` from `second`; of equally few the nearest to `first`.

    Returns
    -------
    frozenset or None
        ``None`` if nothing allowed separates them.

    Notes
    -----
    A smallest separator lies among the ancestors of the two, and is a smallest cut of their moral graph: B. van
    der Zander, M. Liskiewicz, J. Textor, Separators and adjustment sets in causal graphs, Artificial Intelligence
    270 (2019). In a moral graph with hidden causes, each district and its parents are all adjacent.
    """
    ends = frozenset(first).union(second)
    ancestral = graph.ancestors(ends)
    return smallest_cut(moral_cliques(graph, ancestral), first, second, (ancestral & frozenset(allowed)) - ends)


def moral_cliques(graph: MixedGraph, within: frozenset[str]) -> tuple[frozenset[str], ...]:
    """The moral graph of an ancestral set, by sets that are all adjacent: each district with its parents."""
    return tuple(
        district.union(*(graph.parents[vertex] for vertex in district)) for district in graph.districts(within)
    )


def nearest_separator(graph: MixedGraph, near: str, far: str, allowed: Collection[str]) -> frozenset[str] | None:
    """The `allowed` vertices that separate the two and lie nearest to `near`; ``None`` if nothing allowed does.

    Notes
    -----
    B. van der Zander, J. Textor, M. Liskiewicz, Efficiently finding conditional instruments for causal inference,
    IJCAI 2015: what it leaves connected to `far` is what any separator would.
    """
    ancestral = graph.ancestors([near, far])
    neighbours: dict[str, set[str]] = {vertex: set() for vertex in ancestral}
    for clique in moral_cliques(graph, ancestral):
        for vertex in clique:
            neighbours[vertex] |= clique
    outer = _reached(neighbours, near, frozenset(allowed) - {near, far})
    if far in outer:
        return None
    return _reached(neighbours, far, outer & frozenset(allowed)) & outer & frozenset(allowed)


def _reached(neighbours: Mapping[str, AbstractSet[str]], start: str, stops: frozenset[str]) -> frozenset[str]:
    """Every vertex that is reached from `start` without passing one of `stops`; these may be reached, too."""
    found = {start}
    waiting = [start]
    while waiting:
        vertex = waiting.pop()
        if vertex not in stops:
            fresh = neighbours[vertex] - found
            found |= fresh
            waiting.extend(fresh)
    return frozenset(found)
