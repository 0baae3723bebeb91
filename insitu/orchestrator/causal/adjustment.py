"""Back-door: what to hold equal so that what is left of an association is the effect."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.separation import separated, smallest_separator


def adjustment_set(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> frozenset[str] | None:
    """Fewest variables to adjust for, of equally few those nearest to the outcomes; ``None`` if none suffice.

    Nearest to the outcomes they take most of the spread away that the causes do not make.

    Notes
    -----
    Complete: if any set is valid by the adjustment criterion (I. Shpitser, T. VanderWeele, J. Robins, 2010), one
    is found. By the constructive form of B. van der Zander, M. Liskiewicz, J. Textor, Separators and adjustment
    sets in causal graphs, Artificial Intelligence 270 (2019). It takes the time of a maximal flow.
    """
    usable = frozenset(graph.vertices) - _spoiling(graph, causes, outcomes) - {*causes, *outcomes}
    return smallest_separator(_back_door_graph(graph, causes, outcomes), outcomes, causes, usable)


def is_adjustment_set(
    graph: MixedGraph, causes: Collection[str], outcomes: Collection[str], equal: Collection[str]
) -> bool:
    """Whether adjusting for `equal` gives the effect in every model with this graph."""
    if not _spoiling(graph, causes, outcomes).isdisjoint(equal):
        return False
    return separated(_back_door_graph(graph, causes, outcomes), causes, outcomes, equal)


def on_causal_paths(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> frozenset[str]:
    """The vertices behind the first on directed paths from a cause to an outcome that pass no other cause."""
    rest = frozenset(graph.vertices).difference(causes)
    below = frozenset().union(*(graph.children[cause] for cause in causes))
    return graph.descendants(below & rest, rest) & graph.ancestors(frozenset(outcomes) & rest, rest)


def _spoiling(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> frozenset[str]:
    """What no adjustment set may have: it lies on a causal path, or follows from what does."""
    return graph.descendants(on_causal_paths(graph, causes, outcomes))


def _back_door_graph(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> MixedGraph:
    """The graph less the first edge of each causal path: every path that is left is a back door."""
    return graph.without_edges(causes, on_causal_paths(graph, causes, outcomes))
