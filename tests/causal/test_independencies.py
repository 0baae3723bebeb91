"""Statements of independence that a graph makes about its data."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from insitu.orchestrator.causal import independencies
from insitu.orchestrator.causal.discrete import Table, random_model
from insitu.orchestrator.causal.independencies import Independence, implied_independencies
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from tests.causal.graphs import connected_by_paths, drawn, mixed_graphs, subsets


def statements(text: str, hidden: str = "", set_before: str = "") -> set[str]:
    graph = drawn(text)
    found = implied_independencies(graph, set(graph.vertices) - set(hidden), set_before)
    assert found.left_out == 0
    return {str(one) for one in found.statements}


def test_statements() -> None:
    assert statements("x -> m -> y") == {"x and y are independent, at equal m"}
    assert statements("x -> c <- y") == {"x and y are independent"}
    assert statements("a -> b -> c -> d, b <-> d") == {"a and c are independent, at equal b"}
    assert statements("x -> a -> y, x -> b -> y") == {
        "a and b are independent, at equal x",
        "x and y are independent, at equal a and b",
    }


def test_hidden_variables_leave_what_they_cannot_touch() -> None:
    assert statements("x <- h -> m -> y, x", hidden="h") == {"x and y are independent, at equal m"}
    assert statements("x -> h -> y", hidden="h") == set()


def test_what_is_set_is_independent_of_its_causes_and_not_of_what_else_is_set() -> None:
    assert statements("z -> x -> y, x <-> y", set_before="x") == {
        "z and x are independent",
        "z and y are independent",
    }
    assert statements("x -> y, z -> y", set_before="xz") == set()


@given(mixed_graphs(2, 6))
@settings(deadline=None)
def test_each_pair_that_can_be_separated_has_its_smallest_set(graph: MixedGraph) -> None:
    found = {
        frozenset([one.first, one.second]): one for one in implied_independencies(graph, graph.vertices).statements
    }
    for first in graph.vertices:
        for second in graph.vertices:
            if first < second:
                rest = set(graph.vertices) - {first, second}
                valid = [one for one in subsets(rest) if not connected_by_paths(graph, [first], [second], one)]
                statement = found.get(frozenset([first, second]))
                if statement is None:
                    assert not valid
                else:
                    assert frozenset(statement.given) in valid
                    assert len(statement.given) == len(valid[0])


@given(mixed_graphs(3, 5))
@settings(deadline=None, max_examples=20)
def test_each_statement_holds_in_a_model_with_that_graph(graph: MixedGraph) -> None:
    joint = random_model(graph, np.random.default_rng(2)).distribution()
    for one in implied_independencies(graph, graph.vertices).statements:
        names = (one.first, one.second, *one.given)
        table = joint.summed(set(joint.names) - set(names))
        both = table.divided_by(table.summed([one.first, one.second]))
        apart = both.summed([one.second]).times(both.summed([one.first]))
        assert np.abs(apart.ordered(names).values - both.ordered(names).values).max() < 1e-12


def test_a_model_with_another_graph_breaks_a_statement() -> None:
    joint = random_model(drawn("x -> m -> y, x -> y"), np.random.default_rng(2)).distribution()
    both = joint.divided_by(joint.summed("xy"))
    apart: Table = both.summed("y").times(both.summed("x"))
    assert np.abs(apart.ordered("xmy").values - both.ordered("xmy").values).max() > 1e-3


def test_of_many_pairs_those_with_few_causes_come_first(monkeypatch: object) -> None:
    graph = drawn("a -> b -> c -> d -> e, a -> c, b -> d, f")
    everything = implied_independencies(graph, graph.vertices)
    independencies.MOST_PAIRS, before = 4, independencies.MOST_PAIRS
    try:
        some = implied_independencies(graph, graph.vertices)
    finally:
        independencies.MOST_PAIRS = before
    assert len(everything.statements) == some.left_out + len(some.statements)
    assert Independence("a", "f") in some.statements
