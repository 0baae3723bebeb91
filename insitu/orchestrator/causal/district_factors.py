"""The factor of each district of an effect, from the distribution of the data: the complete algorithm."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from insitu.orchestrator.causal.estimand import Estimand, Probability, product, quotient, summed
from insitu.orchestrator.causal.mixed_graph import MixedGraph


def districts_of_effect(
    graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]
) -> tuple[frozenset[str], ...]:
    """The parts into which P(outcomes | do(causes)) falls: it is known exactly if the factor of each is.

    Notes
    -----
    P(y | do(x)) is the sum of the product of the factors, over all in them but y: J. Tian and J. Pearl, 2002, with
    the completeness by I. Shpitser and J. Pearl, and Y. Huang and M. Valtorta, 2006.
    """
    rest = frozenset(graph.vertices).difference(causes)
    return graph.districts(graph.ancestors(outcomes, rest))


def hull(graph: MixedGraph, district: AbstractSet[str], within: AbstractSet[str]) -> frozenset[str]:
    """The largest part of `within` that is one district and of which every vertex leads to `district`, through it.

    If that is the district itself, its factor can be told from data in which only `within` is left alone. If it is
    more, the two are a hedge, and there are two models that agree on those data and not on the factor.
    """
    current = frozenset(within)
    while True:
        reached = graph.district(district, graph.ancestors(district, current))
        if reached == current:
            return current
        current = reached


def factor(graph: MixedGraph, district: AbstractSet[str], held: tuple[str, ...] = ()) -> Estimand | None:
    """P(district | do(all else)), from the distribution over the whole graph; ``None`` if a hedge forbids it.

    Parameters
    ----------
    graph
        Over the variables that the trials which set `held` leave alone.

    Notes
    -----
    Algorithm "identify" of J. Tian and J. Pearl, On the identification of causal effects, 2003: the factor of an
    ancestral set is a marginal, and that of a district a product of conditionals, until the set is the district.
    """
    known = _Factor(graph, frozenset(graph.vertices), held)
    while True:
        above = graph.ancestors(district, known.variables)
        known = known.marginal(above)
        if above == district:
            return known.estimand
        reached = graph.district(district, above)
        if reached == above:
            return None
        known = known.part(reached)
        if reached == district:
            return known.estimand


class _Factor:
    """The factor of some variables; without an estimand it is the distribution of the data itself."""

    def __init__(
        self,
        graph: MixedGraph,
        variables: frozenset[str],
        held: tuple[str, ...],
        derived: Estimand | None = None,
    ) -> None:
        self.graph = graph
        self.variables = variables
        self.held = held
        self.derived = derived

    @property
    def estimand(self) -> Estimand:
        return self.derived or Probability(self.graph.ordered(self.variables), held=self.held)

    def marginal(self, ancestral: frozenset[str]) -> _Factor:
        """The factor of an ancestral part of the variables."""
        gone = self.graph.ordered(self.variables - ancestral)
        derived = self.derived and summed(gone, self.derived)
        return _Factor(self.graph, ancestral, self.held, derived)

    def part(self, district: frozenset[str]) -> _Factor:
        """The factor of one of the districts of the variables."""
        order = self.graph.ordered(self.variables)
        conditionals = [
            self._given_earlier(order, place) for place, vertex in enumerate(order) if vertex in district
        ]
        return _Factor(self.graph, district, self.held, product(conditionals))

    def _given_earlier(self, order: tuple[str, ...], place: int) -> Estimand:
        """The conditional of one variable on those before it."""
        vertex, later = order[place], order[place + 1 :]
        if self.derived is None:
            before = frozenset(order[: place + 1])
            near = self.graph.district([vertex], before)
            blanket = near.union(*(self.graph.parents[one] for one in near)) - {vertex}
            return Probability((vertex,), self.graph.ordered(blanket), self.held)
        upto = summed(later, self.derived)
        return quotient(upto, summed([vertex], upto)) if place else upto
