"""Whatever a file holds, loading ends in a plan or in located faults, and executes nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.errors import Fault, FaultyFile
from insitu.orchestrator.plan.loading import load_plan_text
from insitu.orchestrator.plan.located import FaultList, Mapping, Node, Scalar, Sequence, compose, plain
from insitu.orchestrator.plan.placeholders import placeholders_in, spell_level, substitute
from tests.plan.texts import MODEL, PLAN, SETTABLE

PIECES = st.sampled_from(
    [
        "- ",
        "a: ",
        "[",
        "]",
        "{",
        "}",
        "&x ",
        "*x",
        "!!t ",
        "<<: ",
        "'",
        '"',
        "|\n",
        "\n",
        "  ",
        "#",
        "é",
        "\t",
        ",",
    ]
)
YAML_LIKE = st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join)


def load(plan: str, model: str) -> None:
    load_plan_text(plan, model, plan_path=Path("p"), model_path=Path("m"), settable=SETTABLE)


def faults_in(plan: str, model: str) -> tuple[Fault, ...]:
    try:
        load(plan, model)
    except FaultyFile as error:
        return error.faults
    return ()


@given(YAML_LIKE)
@settings(deadline=None)
def test_any_text_gives_located_faults(text: str) -> None:
    with pytest.raises(FaultyFile) as caught:
        load(text, text)
    lines = text.replace("\r\n", "\n").split("\n")
    for fault in caught.value.faults:
        assert fault.line <= len(lines) + text.count("\r") + sum(map(text.count, "\x85\u2028\u2029"))
        assert (fault.line == 0) == (fault.column == 0)
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_sound_plan_with_a_piece_cut_out_is_a_plan_or_has_faults(data: st.DataObject) -> None:
    which = data.draw(st.sampled_from([PLAN, MODEL]))
    start = data.draw(st.integers(0, len(which)))
    end = data.draw(st.integers(start, min(len(which), start + 30)))
    put = data.draw(PIECES | st.text(max_size=3))
    edited = which[:start] + put + which[end:]
    plan, model = (edited, MODEL) if which is PLAN else (PLAN, edited)
    assert all(fault.line >= 1 for fault in faults_in(plan, model))


def scalars(node: Node) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node]
    children = node.items if isinstance(node, Sequence) else tuple(entry.value for entry in node.entries)
    return [one for child in children for one in scalars(child)]


WORDS = st.text("abcxyz019", min_size=1, max_size=6)
TREES = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4))


def write(tree: object, style: str) -> str:
    if isinstance(tree, str):
        return f"{style}{tree}{style}"
    if isinstance(tree, list):
        return "[" + ",\n ".join(write(item, style) for item in tree) + "]"
    assert isinstance(tree, dict)
    return "{" + ", ".join(f"{key}: {write(value, style)}" for key, value in tree.items()) + "}"


@given(TREES, st.sampled_from(["", "'", '"']))
def test_the_tree_is_the_text_and_every_value_stands_where_it_says(tree: object, style: str) -> None:
    text, faults = write(tree, style), FaultList(Path("p"))
    node = compose(text, faults)
    assert node is not None
    assert not faults.faults
    assert plain(node) == tree
    lines = text.split("\n")
    for one in scalars(node):
        assert lines[one.line - 1][one.column - 1 :].startswith(f"{style}{one.text}")
        assert lines[one.raw_line - 1][one.raw_column - 1 :].startswith(one.raw)


def test_a_mapping_finds_its_keys() -> None:
    node = compose("a: 1\nb: 2", FaultList(Path("p")))
    assert isinstance(node, Mapping)
    assert node.keys() == ("a", "b")
    assert node.entry("c") is None


@pytest.mark.parametrize(
    ("text", "names", "result"),
    [
        ("{a}/{b}", ("a", "b"), "1/{a}"),
        ("{{a}}", (), "{a}"),
        ("awk '{print $1}' {a}", ("a",), "awk '{print $1}' 1"),
        ("{}{ a }{1}", (), "{}{ a }{1}"),
    ],
)
def test_placeholders(text: str, names: tuple[str, ...], result: str) -> None:
    assert placeholders_in(text) == names
    assert substitute(text, {"a": "1", "b": "{a}"}) == result


@pytest.mark.parametrize(
    ("level", "unit", "text"),
    [(4e6, "B", "4000000"), (3.0, "", "3"), (0.25, "", "0.25"), (2.0000001, "B", "2")],
)
def test_a_level_as_an_argument(level: float, unit: str, text: str) -> None:
    assert spell_level(level, unit) == text
