"""What a graph says must be independent: the statements by which data can contradict it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.projection import project
from insitu.orchestrator.causal.separation import smallest_separator

MOST_PAIRS = 500
"""Pairs of variables that are looked at; all of them in a graph of up to 32 variables."""


@dataclass(frozen=True, slots=True)
class Independence:
    """Two variables that tell nothing of each other while some others are held equal."""

    first: str
    second: str
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        held = f", at equal {_listed(self.given)}" if self.given else ""
        return f"{self.first} and {self.second} are independent{held}"


@dataclass(frozen=True, slots=True)
class Independencies:
    """The statements of a graph.

    Attributes
    ----------
    statements
        At most one for each pair of variables, with the fewest variables held equal.
    left_out
        Pairs that were not looked at, since there are more than `MOST_PAIRS`.
    """

    statements: tuple[Independence, ...]
    left_out: int


def implied_independencies(
    graph: MixedGraph, measured: Collection[str], set_before: Collection[str] = ()
) -> Independencies:
    """Find what must be independent in data of trials that set some variables.

    For each pair without an edge the smallest set that separates it; some pairs have none, since hidden causes
    link them. Of many pairs, those with the fewest causes are looked at, whose tests have the most power. Two
    variables that the trials set are no pair: whether they are independent says something of the design alone.

    Notes
    -----
    The statements are those whose tests hold the fewest variables equal; a graph makes more than can be told from
    them. With hidden causes it also restricts its data in ways that are no independence (T. Verma and J. Pearl,
    1990); these are not among them.
    """
    held = frozenset(set_before)
    seen = project(graph.do(held), held.union(measured))
    pairs = [
        (first, second)
        for first, second in combinations(seen.vertices, 2)
        if not seen.adjacent(first, second) and not held >= {first, second}
    ]
    pairs.sort(key=lambda pair: len(seen.parents[pair[0]] | seen.parents[pair[1]]))
    statements = []
    for first, second in pairs[:MOST_PAIRS]:
        given = smallest_separator(seen, [second], [first], seen.vertices)
        if given is not None:
            statements.append(Independence(first, second, seen.ordered(given)))
    return Independencies(tuple(statements), max(0, len(pairs) - MOST_PAIRS))


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
