"""Back-door and front-door sets, and instruments, against all sets by brute force."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.adjustment import adjustment_set, is_adjustment_set, on_causal_paths
from insitu.orchestrator.causal.front_door import front_door_set, is_front_door_set
from insitu.orchestrator.causal.instruments import find_instrument
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from tests.causal.graphs import connected_by_paths, drawn, is_open, mixed_graphs, paths, subsets


def is_causal(path: list[tuple[str, str, str]]) -> bool:
    return all((near, far) == ("-", ">") for _, near, far in path)


def adjusts(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str], equal: frozenset[str]) -> bool:
    """The adjustment criterion by its definition, over all proper paths."""
    for cause in causes:
        for outcome in outcomes:
            for path in paths(graph, cause, outcome):
                visited = [vertex for vertex, _, _ in path]
                if set(visited) & set(causes):
                    continue
                if is_causal(path):
                    if equal & graph.descendants(visited):
                        return False
                elif is_open(graph, path, equal):
                    return False
    return True


@st.composite
def questions(draw: st.DrawFn) -> tuple[MixedGraph, list[str], list[str], list[str]]:
    graph = draw(mixed_graphs(2, 6))
    names = draw(st.permutations(graph.vertices))
    causes = draw(st.integers(1, 2)) if len(names) > 3 else 1
    outcomes = draw(st.integers(1, 2)) if len(names) > 4 else 1
    return graph, names[:causes], names[causes : causes + outcomes], names[causes + outcomes :]


@given(questions())
@settings(deadline=None, max_examples=200)
def test_an_adjustment_set_is_valid_and_the_smallest(
    question: tuple[MixedGraph, list[str], list[str], list[str]],
) -> None:
    graph, causes, outcomes, rest = question
    found = adjustment_set(graph, causes, outcomes)
    valid = [one for one in subsets(rest) if adjusts(graph, causes, outcomes, one)]
    if found is None:
        assert not valid
    else:
        assert found in valid
        assert len(found) == len(valid[0])
        assert is_adjustment_set(graph, causes, outcomes, found)


@given(questions())
@settings(deadline=None)
def test_the_criterion_is_its_definition(question: tuple[MixedGraph, list[str], list[str], list[str]]) -> None:
    graph, causes, outcomes, rest = question
    for equal in subsets(rest):
        assert is_adjustment_set(graph, causes, outcomes, equal) == adjusts(graph, causes, outcomes, equal)


def test_of_equally_small_sets_the_one_next_to_the_outcome() -> None:
    assert adjustment_set(drawn("x <- a <- b -> y, x -> y"), ["x"], ["y"]) == frozenset("b")
    assert adjustment_set(drawn("x <- a -> b -> y, x -> y"), ["x"], ["y"]) == frozenset("b")


def test_on_causal_paths() -> None:
    graph = drawn("x -> a -> b -> y, a -> c, d -> b, x -> v -> y")
    assert on_causal_paths(graph, ["x"], ["y"]) == {"a", "b", "v", "y"}
    assert on_causal_paths(graph, ["x", "a"], ["y"]) == {"b", "v", "y"}
    assert on_causal_paths(graph, ["y"], ["x"]) == frozenset()


def is_front_door(
    graph: MixedGraph, causes: Collection[str], outcomes: Collection[str], through: frozenset[str]
) -> bool:
    """Pearl's criterion by its definition, over all paths; of a set, the paths that pass no other of it."""
    for cause in causes:
        for outcome in outcomes:
            for path in paths(graph, cause, outcome):
                if is_causal(path) and not through & {vertex for vertex, _, _ in path}:
                    return False
    into_causes = graph.without_edges(causes)
    into_mediators = graph.without_edges(through)
    return not (
        connected_by_paths(into_causes, causes, through, ())
        or connected_by_paths(into_mediators, through, outcomes, causes)
    )


@given(questions())
@settings(deadline=None, max_examples=200)
def test_a_front_door_set_is_valid_and_none_can_be_left_out(
    question: tuple[MixedGraph, list[str], list[str], list[str]],
) -> None:
    graph, causes, outcomes, rest = question
    found = front_door_set(graph, causes, outcomes)
    valid = [one for one in subsets(rest) if is_front_door(graph, causes, outcomes, one)]
    if found is None:
        assert not valid
    else:
        assert found in valid
        assert not any(one < found for one in valid)
    for one in subsets(rest):
        assert is_front_door_set(graph, causes, outcomes, one) == (one in valid)


def is_instrument(graph: MixedGraph, variable: str, equal: frozenset[str]) -> bool:
    """Of the effect of ``a`` on ``b``."""
    if graph.descendants(["a"]) & {variable, *equal}:
        return False
    left = connected_by_paths(graph.without_edges(["a"]), [variable], ["b"], equal)
    return not left and connected_by_paths(graph, [variable], ["a"], equal)


@given(mixed_graphs(3, 6))
@settings(deadline=None, max_examples=200)
def test_an_instrument_is_valid_and_found_if_there_is_one(graph: MixedGraph) -> None:
    found = find_instrument(graph, "a", "b")
    rest = sorted(set(graph.vertices) - {"a", "b"})
    if found is not None:
        assert is_instrument(graph, found.variable, frozenset(found.given))
    else:
        assert not any(is_instrument(graph, z, w) for z in rest for w in subsets(set(rest) - {z}))


def test_instruments() -> None:
    found = find_instrument(drawn("z -> x -> y, x <-> y, w -> z, w -> y"), "x", "y")
    assert found is not None
    assert (found.variable, found.given) == ("z", ("w",))
    # moved by what is set, not a cause of it: a proxy will do
    proxy = find_instrument(drawn("p <- z -> x -> y, x <-> y, z <-> y, p <-> x"), "x", "y")
    assert proxy is None or proxy.variable != "z"
    assert find_instrument(drawn("z -> x -> y, x <-> y, z -> y"), "x", "y") is None
    assert find_instrument(drawn("x -> z -> y, x <-> y"), "x", "y") is None
