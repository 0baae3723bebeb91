"""What is left of hidden variables in a graph over the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.projection import common_source, graph_of, project
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable
from tests.causal.graphs import connected_by_paths, drawn, mixed_graphs, subsets


@pytest.mark.parametrize(
    ("text", "hidden", "expected"),
    [
        ("a -> h -> b", "h", "a -> b"),
        ("a -> h -> b, h -> c", "h", "a -> b, a -> c, b <-> c"),
        ("h -> a, h -> b, h -> c", "h", "a <-> b, b <-> c, c <-> a"),
        ("h -> g -> a, h -> b", "hg", "a <-> b"),
        ("h -> g -> a, g -> b, h -> c", "hg", "a <-> b, a <-> c, b <-> c"),
        ("a <-> h -> b", "h", "a <-> b"),
        ("a <-> h <- b", "h", "a, b"),
        ("h <-> g, h -> a, g -> b", "hg", "a <-> b"),
        ("a -> h -> b, a -> b", "h", "a -> b"),
        ("h -> a", "h", "a"),
    ],
)
def test_projection(text: str, hidden: str, expected: str) -> None:
    graph = drawn(text)
    found = project(graph, set(graph.vertices) - set(hidden))
    wanted = drawn(expected)
    assert (found.parents, found.siblings) == (wanted.parents, wanted.siblings)


def test_a_variable_without_noise_is_no_source() -> None:
    graph = drawn("a -> h -> b, h -> c")
    assert project(graph, "abc", exact="h").siblings == drawn("a, b, c").siblings
    shared = drawn("a -> h -> b, h -> c, h <-> a")
    found = project(shared, "abc", exact="h")
    assert found.siblings == drawn("a <-> b, b <-> c, a <-> c").siblings
    assert found.parents == drawn("a -> b, a -> c").parents


@given(mixed_graphs(3, 6), st.data())
@settings(deadline=None)
def test_the_separations_among_what_is_observed_stay(graph: MixedGraph, data: st.DataObject) -> None:
    observed = data.draw(st.sampled_from([one for one in subsets(graph.vertices) if len(one) > 1]))
    first, second, *rest = data.draw(st.permutations(sorted(observed)))
    given_ = data.draw(st.sampled_from(list(subsets(rest))))
    seen = project(graph, observed)
    assert connected_by_paths(seen, [first], [second], given_) == connected_by_paths(
        graph, [first], [second], given_
    )


@given(mixed_graphs(3, 6), st.data())
def test_hidden_variables_may_go_one_by_one(graph: MixedGraph, data: st.DataObject) -> None:
    observed = data.draw(st.sampled_from(list(subsets(graph.vertices))))
    step = graph
    for vertex in data.draw(st.permutations(sorted(set(graph.vertices) - observed))):
        step = project(step, set(step.vertices) - {vertex})
    at_once = project(graph, observed)
    assert (step.parents, step.siblings) == (at_once.parents, at_once.siblings)


def test_a_shared_source_has_a_name_where_the_model_has_one() -> None:
    graph = drawn("h -> g -> a, g -> b, h -> c, a <-> c, h -> d -> e")
    assert common_source(graph, "hg", "a", "b") == "g"
    assert common_source(graph, "hg", "a", "c") == "h"
    assert common_source(graph, "hg", "a", "e") is None
    assert common_source(graph, "", "a", "c") is None


def blueprint_of(*laws: str, confounded: tuple[tuple[str, str], ...] = ()) -> Blueprint:
    roles = {
        "size": Role.PARAMETER,
        "cores": Role.SET,
        "load": Role.LATENT,
        "cpu": Role.MEASURED,
        "runtime": Role.MEASURED,
    }
    variables = {name: Variable(name, "", role) for name, role in roles.items()}
    parts = [law.split(": ") for law in laws]
    texts = tuple(LawText(name, text, line, 1) for line, (name, text) in enumerate(parts, start=1))
    blueprint = build_blueprint(ModelText(Path("model.yaml"), variables, texts))
    return replace(blueprint, confounded=confounded)


LAWS = ("load: size / cores", "cpu: a * load", "runtime: c + b * load")


def test_latent_variables_of_a_blueprint_are_substituted() -> None:
    graph = graph_of(blueprint_of(*LAWS))
    assert set(graph.vertices) == {"size", "cores", "cpu", "runtime"}
    assert graph.parents["cpu"] == graph.parents["runtime"] == {"size", "cores"}
    assert not any(graph.siblings.values())


def test_hidden_causes_of_a_blueprint() -> None:
    graph = graph_of(blueprint_of(*LAWS, confounded=(("cores", "runtime"),)))
    assert graph.siblings["cores"] == {"runtime"}
    graph = graph_of(blueprint_of(*LAWS, confounded=(("cores", "load"),)))
    assert graph.siblings["cores"] == {"cpu", "runtime"}
    assert graph.siblings["cpu"] == {"cores", "runtime"}


def test_an_unknown_variable_in_a_pair() -> None:
    with pytest.raises(InputError, match="no variable 'core'"):
        graph_of(blueprint_of(*LAWS, confounded=(("core", "runtime"),)))


def test_what_is_set_shares_no_hidden_cause() -> None:
    blueprint = blueprint_of(*LAWS, confounded=(("cores", "runtime"), ("cpu", "runtime")))
    assert blueprint.do(["cores"]).confounded == (("cpu", "runtime"),)
    assert blueprint.do(["runtime"]).confounded == ()
    held = graph_of(blueprint.do(["cores"]))
    assert (held.parents, held.siblings) == (
        graph_of(blueprint).do(["cores"]).parents,
        graph_of(blueprint).do(["cores"]).siblings,
    )
