import re

from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.report.graph import NODE_HEIGHT, NODE_WIDTH, lay_out
from insitu.orchestrator.report.summary import EdgeSummary

NAMES = [f"v{number}" for number in range(9)]
graphs = st.sets(
    st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1]), max_size=20
).map(lambda pairs: [EdgeSummary(NAMES[a], NAMES[b]) for a, b in sorted(pairs)])


@given(graphs)
def test_causes_stand_left_of_effects_and_nothing_overlaps(edges: list[EdgeSummary]) -> None:
    layout = lay_out(NAMES, edges)
    spots = {node.name: node for node in layout.nodes}
    assert set(spots) == set(NAMES)
    assert len(layout.edges) == len(edges)
    for edge in edges:
        assert spots[edge.cause].x < spots[edge.effect].x
    for first in layout.nodes:
        assert NODE_WIDTH / 2 <= first.x <= layout.width - NODE_WIDTH / 2
        assert NODE_HEIGHT / 2 <= first.y <= layout.height - NODE_HEIGHT / 2
        for second in layout.nodes:
            if first is not second and first.x == second.x:
                assert abs(first.y - second.y) >= NODE_HEIGHT


def test_parallel_causes_do_not_cross() -> None:
    edges = [EdgeSummary("a", "d"), EdgeSummary("b", "c"), EdgeSummary("c", "e"), EdgeSummary("d", "e")]
    spots = {node.name: node.y for node in lay_out(["a", "b", "c", "d", "e"], edges).nodes}
    assert (spots["a"] - spots["b"]) * (spots["d"] - spots["c"]) > 0


def test_a_long_edge_passes_beside_the_nodes_between() -> None:
    edges = [EdgeSummary("a", "b"), EdgeSummary("b", "c"), EdgeSummary("a", "c")]
    layout = lay_out(["a", "b", "c"], edges)
    middle = next(node.y for node in layout.nodes if node.name == "b")
    long_path = next(edge.path for edge in layout.edges if edge.effect == "c" and edge.cause == "a")
    passage = float(long_path.split("L")[1].split("C")[0].split(",")[1])
    assert abs(passage - middle) >= NODE_HEIGHT


def test_hidden_causes_are_arcs_within_the_picture_and_move_nobody() -> None:
    edges = [EdgeSummary("a", "c"), EdgeSummary("b", "c")]
    plain = lay_out(["a", "b", "c"], edges)
    layout = lay_out(["a", "b", "c"], edges, [("c", "a"), ("a", "b")])
    assert [(arc.cause, arc.effect) for arc in layout.arcs] == [("c", "a"), ("a", "b")]
    lower = layout.height - plain.height
    assert lower > 0
    assert [(node.x, node.y - lower) for node in layout.nodes] == [(node.x, node.y) for node in plain.nodes]
    for arc in layout.arcs:
        numbers = [float(number) for number in re.findall(r"-?\d+", arc.path)]
        assert all(0 <= x <= layout.width for x in numbers[::2])
        assert all(0 <= y <= layout.height for y in numbers[1::2])


def test_nothing_is_laid_out_for_nothing() -> None:
    assert lay_out([], []).nodes == ()
