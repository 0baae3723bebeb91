"""What a reader of a plan's check is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.explanation import explain
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from tests.causal.graphs import drawn, mixed_graphs, subsets

READING = (
    "cpu_cores -> reading_time -> runtime, cpu_cores -> runtime, reading_time <-> cpu_cores, input_size -> runtime"
)


def say(
    text: str,
    causes: str = "x",
    outcomes: str = "y",
    *,
    settable: str = "",
    set_before: str = "",
    hidden: str = "",
    linear: bool = False,
) -> list[str]:
    graph = drawn(text)
    answer = identify(
        graph,
        causes.split(),
        outcomes.split(),
        measured=set(graph.vertices) - set(hidden.split()),
        settable=settable.split(),
        set_before=set_before.split(),
        linear=linear,
    )
    return list(explain(graph, answer))


def test_an_intervention() -> None:
    assert say(READING, "cpu_cores", "runtime", settable="cpu_cores", set_before="input_size") == [
        "runtime follows from cpu_cores directly and through reading_time.",
        "cpu_cores and reading_time share a hidden cause, so that data alone mix the effect with it; "
        "setting cpu_cores itself always removes that.",
        "Smallest set of interventions: cpu_cores.",
        "The answer is for given levels of input_size.",
    ]


def test_earlier_trials() -> None:
    assert say(READING, "cpu_cores", "runtime", set_before="cpu_cores input_size") == [
        "runtime follows from cpu_cores directly and through reading_time.",
        "Trials that set cpu_cores and input_size answer this as they are: "
        "nothing else stands behind what was set.",
        "The answer is for given levels of input_size.",
    ]


def test_nothing_to_be_done() -> None:
    assert say("z -> x -> y, x <-> y", settable="z") == [
        "y follows from x directly.",
        "x and y share a hidden cause, and nothing that can be set removes that.",
        "It could be answered if x could be set.",
        "Were every law linear, data would answer this without: z is linked to y through x alone (an instrument).",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "x -> m -> y",
            [
                "y follows from x through m.",
                "Data without intervention answer this as they are: nothing else links x with y.",
                "P(y | do(x)) = P(y | x)",
            ],
        ),
        (
            "x <- z -> y, x -> y",
            [
                "y follows from x directly.",
                "Data without intervention answer this, compared at equal z: "
                "that closes every other way (back-door).",
                "P(y | do(x)) = sum_z P(y | x, z) P(z)",
            ],
        ),
        (
            "x -> m -> y, x <-> y",
            [
                "y follows from x through m.",
                "Data without intervention answer this in two steps, "
                "from x to m, and from there to y (front-door).",
                "P(y | do(x)) = sum_m P(m | x) sum_x' P(y | x', m) P(x')",
            ],
        ),
        (
            "w -> r -> x -> y, w <-> x, w <-> y",
            [
                "y follows from x directly.",
                "Data without intervention answer this, by a formula that is neither back-door nor front-door.",
                "P(y | do(x)) = [sum_w P(x, y | w, r) P(w)] / [sum_w P(w) P(x | w, r)]",
            ],
        ),
        ("y -> x", ["y does not follow from x.", "So x cannot have an effect on y."]),
    ],
)
def test_data_alone(text: str, lines: list[str]) -> None:
    assert say(text) == lines


def test_another_variable_than_the_cause() -> None:
    assert say("w -> x -> y, w <-> x, w <-> y", settable="w") == [
        "y follows from x directly.",
        "x and w share a hidden cause, and w and y share a hidden cause, "
        "so that data alone mix the effect with them; setting w removes that.",
        "Smallest set of interventions: w.",
        "Trials that set w answer this as they are: nothing else links x with y.",
        "P(y | do(x)) = P(y | do(w), x)",
    ]


def test_trials_of_two_kinds() -> None:
    """The sum's own x is not the x that is set."""
    lines = say("m -> y, x -> v -> y, y <-> x, x <-> m, m <-> v", "x v", settable="m")
    assert lines[0] == "y does not follow from x while v stays set."
    assert lines[-2] == (
        "Data without intervention, together with trials that set m answer this, by a formula that is neither "
        "back-door nor front-door."
    )
    assert lines[-1] == "P(y | do(x, v)) = sum_m P(m) sum_x' P(x' | do(m)) P(y | do(m), x', v)"


def test_a_hidden_cause_with_a_name() -> None:
    assert say("contention -> x -> y, contention -> y", hidden="contention", settable="x")[1] == (
        "x and y both follow from contention, which is not measured, so that data alone mix the effect with it; "
        "setting x itself always removes that."
    )


def test_what_is_not_measured() -> None:
    assert say("x -> y", hidden="x", settable="x")[1:] == [
        "x is not measured: only trials that set it show the effect.",
        "Smallest set of interventions: x.",
    ]
    assert say("x -> y", hidden="x")[1] == "x can neither be measured nor set, so that no trial shows the effect."
    assert say("x -> y", hidden="y")[1:] == ["y is not measured, so that no trial shows the effect."]


def test_what_was_never_left_alone() -> None:
    assert say("x -> m -> y", set_before="m")[1:3] == [
        "Every earlier trial set m: only trials that leave it alone show the effect.",
        "No other intervention is needed.",
    ]


def test_an_instrument() -> None:
    assert say("z -> x -> y, x <-> y, w -> z, w -> y", linear=True)[1] == (
        "Data without intervention answer this, since laws are linear: z is linked to y through x alone "
        "(an instrument), compared at equal w."
    )


def test_long_lists_and_chains_are_cut() -> None:
    chain = ", ".join(f"m{i} <-> m{i + 1}" for i in range(8))
    inside = ", ".join(f"m{i} -> x" for i in range(9))
    lines = say(f"x -> y, y <-> m0, {chain}, m8 <-> x, {inside}")
    assert lines[1].startswith("10 hidden causes link x to y, by way of m8, m7, m6, m5 and 5 more, and nothing")
    many = ", ".join(f"x -> m{i} -> y" for i in range(9))
    assert say(many)[0] == "y follows from x through m0, m1, m2, m3 and 5 more."


def test_long_formulas_are_counted() -> None:
    lines = say("a -> b -> c -> d -> e -> f -> g -> y, a <-> c, b <-> d, c <-> e, d <-> f, e <-> g", "a")
    assert lines[-1].startswith("The formula is made of ")


@given(mixed_graphs(3, 6), st.data())
@settings(deadline=None)
def test_every_answer_has_words(graph: MixedGraph, data: st.DataObject) -> None:
    names = graph.vertices
    parts = st.sampled_from(list(subsets(names)))
    answer = identify(
        graph,
        [names[0]],
        [names[-1]],
        measured=data.draw(parts),
        settable=data.draw(parts),
        set_before=data.draw(parts) - {names[-1]},
        linear=data.draw(st.booleans()),
    )
    lines = explain(graph, answer)
    assert len(lines) > 1
    for line in lines:
        assert line.endswith(".") or line.startswith("P(")
        assert "None" not in line
        assert "  " not in line
