"""Variables without data, taken out of a graph so that what they do among the others stays."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph
from insitu.orchestrator.plan.types import Role


def graph_of(blueprint: Blueprint) -> MixedGraph:
    """The graph of a blueprint over its variables that are not latent.

    A latent variable is given by its law alone, without noise of its own: its children have its parents instead,
    and share its hidden causes if it has any.

    Raises
    ------
    InputError
        If `Blueprint.confounded` names an unknown variable, or a variable twice, or the laws have a cycle.
    """
    whole = mixed_graph(blueprint.variables, blueprint.edges(), blueprint.confounded)
    latent = {
        name
        for name, variable in blueprint.variables.items()
        if variable.role is Role.LATENT and name in blueprint.laws
    }
    return project(whole, frozenset(whole.vertices) - latent, exact=latent)


def project(graph: MixedGraph, observed: Collection[str], exact: Collection[str] = ()) -> MixedGraph:
    """Project the graph onto the observed variables.

    Two variables share a hidden cause in the projection if hidden variables lead from one source to both.

    Parameters
    ----------
    exact
        Hidden variables without noise of their own, which are no source unless they have a hidden cause.

    Notes
    -----
    The latent projection of T. Verma and J. Pearl (Equivalence and synthesis of causal models, 1990). It has the
    same separations among the observed variables, and the same effects can be told from data on them.
    """
    kept = frozenset(observed)
    if kept.issuperset(graph.vertices):
        return graph
    surface = _surface(graph, kept)
    vertices = graph.ordered(kept)
    parents: dict[str, set[str]] = {vertex: set() for vertex in vertices}
    siblings: dict[str, set[str]] = {vertex: set() for vertex in vertices}
    for vertex in graph.vertices:
        if vertex in kept:
            for child in graph.children[vertex]:
                for reached in surface[child]:
                    parents[reached].add(vertex)
        elif vertex not in exact or graph.siblings[vertex]:
            for reached in surface[vertex]:
                siblings[reached] |= surface[vertex]
        for other in graph.siblings[vertex]:
            for reached in surface[vertex]:
                siblings[reached] |= surface[other]
    return MixedGraph(
        vertices,
        {vertex: frozenset(found) for vertex, found in parents.items()},
        {vertex: frozenset(found) - {vertex} for vertex, found in siblings.items()},
    )


def _surface(graph: MixedGraph, kept: frozenset[str]) -> dict[str, frozenset[str]]:
    """Of each vertex: itself if it is kept, else the first kept vertices on the paths that leave it."""
    surface: dict[str, frozenset[str]] = {}
    for vertex in reversed(graph.vertices):
        below = frozenset().union(*(surface[child] for child in graph.children[vertex]))
        surface[vertex] = frozenset([vertex]) if vertex in kept else below
    return surface


def common_source(graph: MixedGraph, hidden: Collection[str], first: str, second: str) -> str | None:
    """The nearest hidden variable from which both follow through hidden ones alone; ``None`` if there is none."""
    able = frozenset(hidden)
    for source in reversed(graph.ordered(able)):
        through = graph.descendants([source], able)
        reached = frozenset().union(*(graph.children[one] for one in through))
        if first in reached and second in reached:
            return source
    return None
