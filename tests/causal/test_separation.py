"""Separation against all paths, and smallest separators against all sets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.separation import connected, nearest_separator, separated, smallest_separator
from insitu.orchestrator.causal.vertex_cut import smallest_cut
from tests.causal.graphs import connected_by_paths, drawn, mixed_graphs, subsets


@pytest.mark.parametrize(
    ("text", "given_", "open_"),
    [
        ("x -> m -> y", "", True),
        ("x -> m -> y", "m", False),
        ("x <- z -> y", "", True),
        ("x <- z -> y", "z", False),
        ("x -> c <- y", "", False),
        ("x -> c <- y", "c", True),
        ("x -> c <- y, c -> d", "d", True),
        ("x <-> m <-> y", "", False),
        ("x <-> m <-> y", "m", True),
        ("x <-> m -> y", "", True),
        ("x <-> m -> y", "m", False),
        ("x <-> y", "", True),
        ("x -> a <-> b <- y", "ab", True),
        ("x -> a <-> b <- y", "a", False),
    ],
)
def test_by_the_book(text: str, given_: str, open_: bool) -> None:
    assert separated(drawn(text), ["x"], ["y"], given_) is not open_


@given(mixed_graphs(2, 6), st.data())
@settings(deadline=None)
def test_separation_is_that_no_path_is_open(graph: MixedGraph, data: st.DataObject) -> None:
    first, second, *rest = data.draw(st.permutations(graph.vertices))
    given_ = data.draw(st.sampled_from(list(subsets(rest))))
    assert separated(graph, [first], [second], given_) is not connected_by_paths(graph, [first], [second], given_)
    both = connected(graph, [first, second], given_)
    assert both == {one for one in set(rest) - given_ if connected_by_paths(graph, [first, second], [one], given_)}


@given(mixed_graphs(2, 6), st.data())
@settings(deadline=None)
def test_a_smallest_separator_separates_and_nothing_smaller_does(graph: MixedGraph, data: st.DataObject) -> None:
    first, second, *rest = data.draw(st.permutations(graph.vertices))
    allowed = data.draw(st.sampled_from(list(subsets(rest))))
    found = smallest_separator(graph, [first], [second], allowed)
    valid = [one for one in subsets(allowed) if not connected_by_paths(graph, [first], [second], one)]
    if found is None:
        assert not valid
    else:
        assert found in valid
        assert len(found) == len(valid[0])


@given(mixed_graphs(2, 6), st.data())
@settings(deadline=None)
def test_a_nearest_separator_separates_if_anything_does(graph: MixedGraph, data: st.DataObject) -> None:
    near, far, *rest = data.draw(st.permutations(graph.vertices))
    allowed = data.draw(st.sampled_from(list(subsets(rest))))
    found = nearest_separator(graph, near, far, allowed)
    valid = [one for one in subsets(allowed) if not connected_by_paths(graph, [near], [far], one)]
    assert (found in valid) if found is not None else not valid


def test_of_equally_small_separators_the_nearest_to_the_first() -> None:
    chain = drawn("x -> a -> b -> c -> y")
    assert smallest_separator(chain, ["x"], ["y"], "abc") == frozenset("a")
    assert smallest_separator(chain, ["y"], ["x"], "abc") == frozenset("c")
    assert smallest_separator(chain, ["y"], ["x"], "ab") == frozenset("b")
    assert nearest_separator(chain, "y", "x", "abc") == frozenset("c")


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=2, max_size=4), max_size=8), st.data())
def test_a_cut_is_the_smallest(cliques: list[set[str]], data: st.DataObject) -> None:
    cuttable = data.draw(st.sets(st.sampled_from("bcdefg")))
    found = smallest_cut(cliques, ["a"], ["h"], cuttable)
    valid = [one for one in subsets(cuttable) if not _joined(cliques, one)]
    if found is None:
        assert not valid
    else:
        assert found in valid
        assert len(found) == len(valid[0])


def _joined(cliques: list[set[str]], cut: frozenset[str]) -> bool:
    reached = {"a"}
    for _ in range(8):
        for clique in cliques:
            if reached & clique - cut:
                reached |= clique
    return "h" in reached
