"""Instruments: where laws are linear, an effect from data in which a hidden cause mixes with it."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.separation import nearest_separator, separated


@dataclass(frozen=True, slots=True)
class Instrument:
    """A variable that moves the outcome through the cause alone, while others are held equal.

    The effect per unit of the cause is cov(outcome, variable | given) / cov(cause, variable | given).
    """

    variable: str
    given: tuple[str, ...]


def find_instrument(graph: MixedGraph, cause: str, outcome: str) -> Instrument | None:
    """An instrument for the total effect of `cause`, with few variables held equal; ``None`` if none is found.

    Notes
    -----
    The outcome less the effect is what it would be with the edges out of the cause cut. So an instrument must be
    separated from the outcome in that graph, and not from the cause, by variables that do not follow from the
    cause: J. Pearl, Causality (2nd edition), definition 7.4.1; C. Brito and J. Pearl, 2002. Held equal is the
    separator nearest to the outcome, which leaves most of the connection to the cause.
    """
    cut = graph.without_edges([cause])
    able = frozenset(graph.vertices) - graph.descendants([cause]) - {outcome}
    found: list[Instrument] = []
    for variable in graph.ordered(able):
        given = nearest_separator(cut, outcome, variable, able - {variable})
        if given is not None and not separated(graph, [variable], [cause], given):
            found.append(Instrument(variable, graph.ordered(given)))
    return min(found, key=lambda instrument: len(instrument.given), default=None)
