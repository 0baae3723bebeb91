"""Kin, districts and surgery of graphs with hidden common causes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.causal.graph import Edge
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph
from insitu.orchestrator.errors import InputError
from tests.causal.graphs import drawn, mixed_graphs, subsets

GRAPH = drawn("w -> r -> x -> y, w <-> x, w <-> y, v <-> r")


def test_kin() -> None:
    assert GRAPH.ancestors(["x"]) == {"w", "r", "x"}
    assert GRAPH.descendants(["r", "v"]) == {"r", "x", "y", "v"}
    assert GRAPH.district(["y"]) == {"w", "x", "y"}
    assert GRAPH.districts() == (frozenset("wxy"), frozenset("vr"))
    assert GRAPH.adjacent("w", "y")
    assert GRAPH.adjacent("y", "x")
    assert not GRAPH.adjacent("w", "v")


def test_kin_within_a_part() -> None:
    part = frozenset("wxy")
    assert GRAPH.ancestors(["y"], part) == {"x", "y"}
    assert GRAPH.descendants(["w"], part) == {"w"}
    assert GRAPH.district(["x"], frozenset("xy")) == {"x"}
    assert GRAPH.districts(frozenset("xyv")) == (frozenset("v"), frozenset("x"), frozenset("y"))
    assert GRAPH.ancestors(["r"], part) == frozenset()


def test_vertices_come_causes_first_and_else_as_given() -> None:
    assert mixed_graph("dcba", [Edge("a", "c"), Edge("b", "c")]).vertices == ("d", "b", "a", "c")


def test_do_cuts_what_leads_in() -> None:
    held = GRAPH.do(["x"])
    assert held.parents["x"] == frozenset()
    assert held.siblings == {"w": {"y"}, "y": {"w"}, "x": frozenset(), "r": {"v"}, "v": {"r"}}
    assert held.children["x"] == {"y"}
    assert held.children["r"] == frozenset()


def test_edges_out_can_be_cut() -> None:
    cut = GRAPH.without_edges(["r", "x"], ["x"])
    assert cut.children["r"] == frozenset()
    assert cut.children["x"] == {"y"}
    assert cut.siblings == GRAPH.siblings
    assert GRAPH.without_edges(["r", "x"]).children["x"] == frozenset()


def test_taking_out_and_keeping_are_the_same_thing() -> None:
    assert GRAPH.without(["v", "r"]) == GRAPH.subgraph(["y", "x", "w"]) == drawn("w <-> x -> y, w <-> y")


@pytest.mark.parametrize(
    ("edges", "confounded", "message"),
    [
        ([Edge("a", "b"), Edge("b", "a")], [], "the model has a cycle"),
        ([Edge("a", "a")], [], "the model has a cycle"),
        ([Edge("a", "d")], [], "the model has no variable 'd'"),
        ([], [("a", "d")], "the model has no variable 'd'"),
        ([], [("a", "a")], "'a' cannot share a hidden cause with itself"),
    ],
)
def test_what_is_no_such_graph_is_refused(
    edges: list[Edge], confounded: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        mixed_graph("abc", edges, confounded)


def test_a_question_about_an_unknown_variable_names_the_nearest() -> None:
    graph = mixed_graph(["runtime", "cpu_cores"], [Edge("cpu_cores", "runtime")])
    with pytest.raises(InputError) as caught:
        graph.check(["cpu_core"])
    assert caught.value.hint == "did you mean 'cpu_cores'?"


@given(mixed_graphs(), st.data())
def test_a_part_is_the_subgraph(graph: MixedGraph, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(list(subsets(graph.vertices))))
    start = data.draw(st.sampled_from(graph.vertices))
    sub = graph.subgraph(part)
    for walk in ("ancestors", "descendants", "district"):
        expected = getattr(sub, walk)([start]) if start in part else frozenset()
        assert getattr(graph, walk)([start], part) == expected
    assert graph.districts(part) == sub.districts()


@given(mixed_graphs())
def test_causes_come_before_effects(graph: MixedGraph) -> None:
    place = {vertex: index for index, vertex in enumerate(graph.vertices)}
    assert all(place[parent] < place[vertex] for vertex in place for parent in graph.parents[vertex])
    assert all(vertex in graph.children[parent] for vertex in place for parent in graph.parents[vertex])
