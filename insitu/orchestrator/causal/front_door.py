"""Front-door: mediators that carry the whole effect and share no hidden cause with what they carry it from."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.separation import connected


def front_door_set(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> frozenset[str] | None:
    """Mediators of which none can be left out; ``None`` if there are none.

    Notes
    -----
    The largest set that meets the criterion but for the first condition is unique, since a path that is open while
    more edges are cut is open while fewer are. So a set within `allowed` exists exactly if that largest one
    meets the first condition too: H. Jeong, J. Tian, E. Bareinboim, Finding and listing front-door adjustment
    sets, NeurIPS 2022; M. Wienobst, B. van der Zander, M. Liskiewicz, Linear-time algorithms for front-door
    adjustment in causal graphs, AAAI 2024.
    """
    others = frozenset(graph.vertices).difference(causes, outcomes)
    found = _largest(graph, causes, outcomes, others)
    if found is None:
        return None
    if (nearer := _largest(graph, causes, outcomes, found & graph.ancestors(outcomes))) is not None:
        found = nearer
    for vertex in reversed(graph.ordered(found)):
        if vertex in found and (fewer := _largest(graph, causes, outcomes, found - {vertex})) is not None:
            found = fewer
    return found


def is_front_door_set(
    graph: MixedGraph, causes: Collection[str], outcomes: Collection[str], mediators: Collection[str]
) -> bool:
    """Whether `mediators` meet the criterion: J. Pearl, Causality (2nd edition), definition 3.3.3."""
    return _largest(graph, causes, outcomes, frozenset(mediators)) == frozenset(mediators)


def _largest(
    graph: MixedGraph, causes: Collection[str], outcomes: Collection[str], allowed: frozenset[str]
) -> frozenset[str] | None:
    """The largest set within `allowed` that meets the criterion."""
    found = allowed - connected(graph.without_edges(causes), causes, ())
    while True:
        open_to_outcome = connected(graph.without_edges(found), outcomes, causes)
        if found.isdisjoint(open_to_outcome):
            break
        found -= open_to_outcome
    carried = graph.descendants(causes, frozenset(graph.vertices) - found)
    return found if carried.isdisjoint(outcomes) else None
