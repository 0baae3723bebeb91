"""What trials show: the graph over what they measure and leave alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from insitu.orchestrator.causal.district_factors import districts_of_effect, hull
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.projection import project


class Observation:
    """A model's graph, seen through the variables that are measured.

    Parameters
    ----------
    measured
        In every trial. What a trial sets is known in that trial too.
    """

    def __init__(self, graph: MixedGraph, measured: Collection[str]) -> None:
        self.graph = graph
        self.measured = frozenset(measured)
        self._projected: dict[frozenset[str], MixedGraph] = {}
        self._left_alone: dict[frozenset[str], MixedGraph] = {}

    def over(self, known: frozenset[str]) -> MixedGraph:
        """The graph over what is measured, and `known` beside."""
        beside = known - self.measured
        if beside not in self._projected:
            self._projected[beside] = project(self.graph, self.measured | beside)
        return self._projected[beside]

    def left_alone(self, held: frozenset[str]) -> MixedGraph:
        """The graph over what trials measure that set `held`, and `held` itself taken out."""
        if held not in self._left_alone:
            self._left_alone[held] = self.over(held).without(held)
        return self._left_alone[held]


@dataclass(frozen=True, slots=True)
class Piece:
    """A district of an effect, and what a trial must do to show its factor.

    Attributes
    ----------
    must_set
        Causes that act on it and are known only where they are set.
    must_not_set
        Variables that act on it and are no part of the question: the trial leaves them as they are.
    """

    district: frozenset[str]
    must_set: frozenset[str]
    must_not_set: frozenset[str]

    def shown_by(self, observation: Observation, held: frozenset[str]) -> bool:
        """Whether trials that set exactly `held` show the factor."""
        if not held.isdisjoint(self.district | self.must_not_set):
            return False
        return self.must_set <= held and self.hull(observation, held) == self.district

    def hull(self, observation: Observation, held: frozenset[str]) -> frozenset[str]:
        """What hidden causes make inseparable from the district in trials that set `held`; itself if nothing."""
        graph = observation.over(held)
        return hull(graph, self.district, frozenset(graph.vertices) - held)

    def hidden_behind(self, observation: Observation, hedge: frozenset[str]) -> frozenset[str]:
        """Variables that are not measured and may be what links a hedge to the district."""
        linked = hedge | self.district
        whole = observation.graph
        hidden = frozenset(whole.vertices) - observation.measured
        return (whole.ancestors(linked, hidden | linked) & hidden) - linked - self.must_not_set

    def settable_part(self, held: frozenset[str]) -> frozenset[str]:
        """What of `held` a trial for this piece may set: the more it sets, the more it shows."""
        return held - self.district - self.must_not_set


def pieces_of(observation: Observation, causes: frozenset[str], outcomes: Collection[str]) -> tuple[Piece, ...]:
    """The districts of P(outcomes | do(causes)).

    Notes
    -----
    Each factor must be shown by one kind of trial, not all by the same: S. Lee, J. Correa, E. Bareinboim, General
    identifiability with arbitrary surrogate experiments, UAI 2019.
    """
    whole = observation.graph
    graph = observation.over(causes)
    unknown = frozenset(whole.vertices).difference(graph.vertices)
    found = []
    for district in districts_of_effect(graph, causes, outcomes):
        acting = frozenset().union(*(graph.parents[vertex] for vertex in district))
        found.append(
            Piece(
                district=district,
                must_set=(acting & causes) - observation.measured,
                must_not_set=whole.ancestors(district, unknown | district) - district,
            )
        )
    return tuple(found)
