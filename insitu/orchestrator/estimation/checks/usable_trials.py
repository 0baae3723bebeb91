"""Which trials can show an independence that a graph implies, when some variables were set in some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.causal.independencies import Independence
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph
from insitu.orchestrator.causal.separation import separated

_DESIGN = "the design"
"""A vertex that no variable is named like: whoever chose the levels chose them all."""
_MOST_LEFT_OUT = 3
"""Variables whose trials are left out together, at most, to find trials that can be used."""


@dataclass(frozen=True, slots=True, eq=False)
class Usable:
    """Trials in which an independence must hold if the graph is right.

    Attributes
    ----------
    trials
        Which of all, shape (n,).
    given
        What is held equal: the causes of the later one if these separate the two, else as the statement has it,
        with what else the design sets if need be.
    """

    trials: npt.NDArray[np.bool_]
    given: tuple[str, ...]


def usable_trials(graph: MixedGraph, statement: Independence, held: Sequence[frozenset[str]]) -> Usable | None:
    """Find the most trials that can show an independence; ``None`` if none can.

    Parameters
    ----------
    held
        What was set in each trial.

    Notes
    -----
    In a trial that sets a variable the graph holds without the arrows into it. Its level was chosen together with
    those of the others, so what is set has the design as a common cause, that nobody measured. Trials of several
    kinds are taken together only if the independence holds in that graph: a variable that all of them set has lost
    its causes, one that some set has the design as a further one.
    """
    kinds = Counter(held)
    for left_out in _choices(kinds):
        pool = [kind for kind in kinds if kind.isdisjoint(left_out)]
        if not pool:
            continue
        given = _separating(graph, statement, pool)
        if given is not None:
            return Usable(np.array([one.isdisjoint(left_out) for one in held], dtype=np.bool_), given)
    return None


def _choices(kinds: Counter[frozenset[str]]) -> Iterator[frozenset[str]]:
    """Sets of variables whose trials to leave out: none first, then those that leave the most trials."""
    ever = frozenset().union(*kinds)
    always = frozenset.intersection(*kinds) if kinds else frozenset()
    droppable = sorted(ever - always)
    yield frozenset()
    for size in range(1, _MOST_LEFT_OUT + 1):
        some = [frozenset(names) for names in combinations(droppable, size)]
        some.sort(key=lambda names: -sum(count for kind, count in kinds.items() if kind.isdisjoint(names)))
        yield from some


def _separating(
    graph: MixedGraph, statement: Independence, pool: Sequence[frozenset[str]]
) -> tuple[str, ...] | None:
    """What to hold equal so that the statement holds in all of these kinds of trial; ``None`` for nothing."""
    ever, always = frozenset().union(*pool), frozenset.intersection(*pool)
    cut = graph.do(always)
    with_design = mixed_graph(
        (_DESIGN, *cut.vertices),
        [
            *(Edge(parent, child) for child in cut.vertices for parent in cut.parents[child]),
            *(Edge(_DESIGN, name) for name in cut.ordered(ever)),
        ],
        [(one, other) for one in cut.vertices for other in cut.siblings[one] if one < other],
    )
    first, second = cut.ordered((statement.first, statement.second))
    own, ends = frozenset(statement.given), {first, second}
    causes = cut.parents[second] - ends
    # its causes first: what they leave of the later one is the least, so that the test sees the most
    for given in (causes, own | causes, own, own | (ever - ends)):
        if separated(with_design, [first], [second], given):
            return graph.ordered(given)
    return None
