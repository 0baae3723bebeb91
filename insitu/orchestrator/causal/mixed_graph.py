"""Directed acyclic graphs with hidden common causes: who is kin to whom, and what do() leaves of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest

Kin = Mapping[str, frozenset[str]]
"""Vertex to some of its neighbours."""


@dataclass(frozen=True, slots=True)
class MixedGraph:
    """A directed acyclic graph, and the pairs of its vertices that share a hidden cause.

    The field draws such a pair as a bidirected edge. Every method takes time linear in the edges.

    Attributes
    ----------
    vertices
        Causes before effects.
    parents, children
        Of each vertex.
    siblings
        Of each vertex: those that share a hidden cause with it.
    """

    vertices: tuple[str, ...]
    parents: Kin
    siblings: Kin
    children: Kin = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        children: dict[str, set[str]] = {vertex: set() for vertex in self.vertices}
        for vertex, parents in self.parents.items():
            for parent in parents:
                children[parent].add(vertex)
        object.__setattr__(self, "children", {name: frozenset(found) for name, found in children.items()})

    def ancestors(self, names: Iterable[str], within: AbstractSet[str] | None = None) -> frozenset[str]:
        """`names` and all from which a directed path leads to one of them, through `within` alone."""
        return _closure(names, self.parents, within)

    def descendants(self, names: Iterable[str], within: AbstractSet[str] | None = None) -> frozenset[str]:
        """`names` and all to which a directed path leads from one of them, through `within` alone."""
        return _closure(names, self.children, within)

    def district(self, names: Iterable[str], within: AbstractSet[str] | None = None) -> frozenset[str]:
        """`names` and all that a chain of hidden causes links to one of them, through `within` alone."""
        return _closure(names, self.siblings, within)

    def districts(self, within: AbstractSet[str] | None = None) -> tuple[frozenset[str], ...]:
        """The vertices in parts that share no hidden cause; by the first vertex of each part.

        Notes
        -----
        The c-components of J. Tian and J. Pearl, A general identification condition for causal effects, 2002.
        """
        parts: list[frozenset[str]] = []
        done: set[str] = set()
        for vertex in self.vertices:
            if vertex not in done and (within is None or vertex in within):
                parts.append(self.district([vertex], within))
                done |= parts[-1]
        return tuple(parts)

    def ordered(self, names: Collection[str]) -> tuple[str, ...]:
        """Causes before effects."""
        return tuple(vertex for vertex in self.vertices if vertex in names)

    def adjacent(self, first: str, second: str) -> bool:
        """Whether an edge of any kind joins the two."""
        return second in self.parents[first] or second in self.children[first] or second in self.siblings[first]

    def subgraph(self, names: Collection[str]) -> MixedGraph:
        """These vertices, and the edges among them."""
        kept = frozenset(names)
        vertices = self.ordered(kept)
        return MixedGraph(
            vertices,
            {vertex: self.parents[vertex] & kept for vertex in vertices},
            {vertex: self.siblings[vertex] & kept for vertex in vertices},
        )

    def without(self, names: Collection[str]) -> MixedGraph:
        """The other vertices, and the edges among them."""
        return self.subgraph(frozenset(self.vertices).difference(names))

    def do(self, names: Collection[str]) -> MixedGraph:
        """The graph under intervention: `names` lose their causes, hidden ones too."""
        held = frozenset(names)
        none: frozenset[str] = frozenset()
        return MixedGraph(
            self.vertices,
            {vertex: none if vertex in held else self.parents[vertex] for vertex in self.vertices},
            {vertex: none if vertex in held else self.siblings[vertex] - held for vertex in self.vertices},
        )

    def without_edges(self, causes: Collection[str], effects: Collection[str] | None = None) -> MixedGraph:
        """The graph less the edges that lead from `causes` to `effects`, or to anything."""
        cut = frozenset(causes)
        ends = frozenset(self.vertices if effects is None else effects)
        parents = {v: self.parents[v] - cut if v in ends else self.parents[v] for v in self.vertices}
        return MixedGraph(self.vertices, parents, self.siblings)

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that are no vertices.

        Raises
        ------
        InputError
            With the nearest name.
        """
        _check_known(names, self.parents)


def mixed_graph(
    vertices: Iterable[str], edges: Iterable[Edge], confounded: Iterable[tuple[str, str]] = ()
) -> MixedGraph:
    """Make a graph of its edges and of the pairs that share a hidden cause.

    Raises
    ------
    InputError
        If an edge or a pair names no vertex, a pair is one variable twice, or there is a cycle.
    """
    parents: dict[str, set[str]] = {vertex: set() for vertex in vertices}
    siblings: dict[str, set[str]] = {vertex: set() for vertex in parents}
    for edge in edges:
        _check_known((edge.cause, edge.effect), parents)
        parents[edge.effect].add(edge.cause)
    for first, second in confounded:
        _check_known((first, second), parents)
        if first == second:
            raise InputError(
                f"'{first}' cannot share a hidden cause with itself", hint="name two variables in each pair"
            )
        siblings[first].add(second)
        siblings[second].add(first)
    return MixedGraph(
        _causes_first(parents),
        {vertex: frozenset(found) for vertex, found in parents.items()},
        {vertex: frozenset(found) for vertex, found in siblings.items()},
    )


def _check_known(names: Iterable[str], vertices: Collection[str]) -> None:
    for name in names:
        if name not in vertices:
            raise InputError(f"the model has no variable '{name}'", hint=suggest(name, vertices))


def _causes_first(parents: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """Each vertex as soon as its parents are done; otherwise in the given order."""
    children: dict[str, list[str]] = {vertex: [] for vertex in parents}
    for vertex, above in parents.items():
        for parent in above:
            children[parent].append(vertex)
    missing = {vertex: len(above) for vertex, above in parents.items()}
    order = [vertex for vertex, count in missing.items() if not count]
    place = {vertex: index for index, vertex in enumerate(parents)}
    for vertex in order:  # grows while it is walked
        for child in sorted(children[vertex], key=place.__getitem__):
            missing[child] -= 1
            if not missing[child]:
                order.append(child)
    if len(order) < len(parents):
        raise InputError("the model has a cycle", hint="break it: a cause cannot follow its effect")
    return tuple(order)


def _closure(names: Iterable[str], kin: Kin, within: AbstractSet[str] | None) -> frozenset[str]:
    found = set(names) if within is None else set(names) & within
    waiting = list(found)
    while waiting:
        fresh = kin[waiting.pop()] - found
        if within is not None:
            fresh &= within
        found |= fresh
        waiting.extend(fresh)
    return frozenset(found)
