"""Latent variables that have laws, put into the laws of what follows from them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.causal.law import Bounds, Link
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import (
    Given,
    LawText,
    ModelText,
    ParameterText,
    PriorText,
    Role,
    Variable,
)
from tests.causal.models import model_of

LEVELS = {"size": np.array([8e6, 2e6]), "rate": np.array([2e6, 4e6]), "cores": np.array([0.5, 2.0])}


def test_a_latent_variable_is_its_law() -> None:
    graph = build_blueprint(model_of("wait: w + a * size / rate", "runtime: c + wait + b * size / cores"))
    assert graph.reduced().parents("runtime") == ("size", "rate", "cores")
    law = graph.reduced().laws["runtime"]
    assert set(graph.reduced().laws) == {"runtime"}
    assert "wait" not in graph.reduced().variables
    assert law.linear
    assert law.parameters == ("c", "w", "a", "b")
    assert law.parameter_units == {"c": "s", "w": "s", "a": "", "b": "core s/B"}
    assert law.text == "c + (w + a * size / rate) + b * size / cores"
    assert law.design_row({"size": 8.0, "rate": 4.0, "cores": 2.0}) == pytest.approx([1, 1, 2, 4])


def test_a_product_of_parameters_makes_a_law_curved() -> None:
    graph = build_blueprint(model_of("wait: w + a * size", "runtime: k * wait + c")).reduced()
    law = graph.laws["runtime"]
    assert not law.linear
    assert law.mean(np.array([2.0, 1.0, 1e-6, 0.5]), LEVELS) == pytest.approx([18.5, 6.5])


def test_a_model_without_latent_variables_stays_as_it_is() -> None:
    graph = build_blueprint(model_of("runtime: c + cpu", "cpu: a * size"))
    assert graph.reduced() is graph
    held = build_blueprint(model_of("wait: a * size", "runtime: c + wait")).do(["wait"])
    assert held.reduced().parents("runtime") == ("wait",)


def test_what_is_known_of_the_parameters_comes_along() -> None:
    prior = PriorText("wait", Path("run"), "{}")
    wait = replace(LawText("wait", "log(w) + log(size / block)", 1, 1, link=Link.LOG), prior=prior)
    known = (ParameterText("w", "", 9, 9, low=Given("1", 9, 9), start=Given("2", 9, 9)),)
    law = build_blueprint(model_of(wait, "runtime: c + wait", parameters=known)).reduced().laws["runtime"]
    assert law.bounds == {"w": Bounds(low=1.0)}
    assert law.starts == {"w": 2.0}
    assert law.priors == (prior,)
    assert law.text == "c + exp(log(w) + log(size / block))"
    assert law.mean(np.array([1.0, 2.0]), {"size": np.array([3e6])}) == pytest.approx([7.0])


def graph_of(confounded: tuple[tuple[str, str], ...], *laws: str) -> Blueprint:
    return build_blueprint(replace(model_of(*laws), confounded=confounded)).reduced()


@pytest.mark.parametrize(
    ("confounded", "laws", "expected"),
    [
        ((), ("wait: a * size", "runtime: c + wait"), ()),
        ((), ("wait: a * size", "runtime: c + wait", "cpu: b * wait"), (("cpu", "runtime"),)),
        ((("wait", "cpu"),), ("wait: a * size", "runtime: c + wait"), (("runtime", "cpu"),)),
        ((("wait", "runtime"),), ("wait: a * size", "runtime: c + wait"), ()),
        ((("size", "cpu"),), ("wait: a * size", "runtime: c + wait"), (("size", "cpu"),)),
        (
            (("cpu", "runtime"),),
            ("wait: a * size", "runtime: c + wait", "cpu: b * wait"),
            (("cpu", "runtime"),),
        ),
    ],
)
def test_what_children_have_in_common_becomes_a_hidden_cause(
    confounded: tuple[tuple[str, str], ...], laws: tuple[str, ...], expected: tuple[tuple[str, str], ...]
) -> None:
    assert {frozenset(pair) for pair in graph_of(confounded, *laws).confounded} == {
        frozenset(pair) for pair in expected
    }


def test_a_law_that_grows_without_bounds_is_refused() -> None:
    names = [f"w{number}" for number in range(15)]
    variables = {name: Variable(name, "", Role.LATENT) for name in names}
    variables["y"] = Variable("y", "", Role.MEASURED, "major_faults")
    laws = [LawText("w0", "a", 1, 1)]
    laws += [LawText(after, f"{before} + {before} * {before}", 1, 1) for before, after in pairwise(names)]
    model = ModelText(Path("m"), variables, (*laws, LawText("y", names[-1], 1, 1)))
    with pytest.raises(InputError, match="more than 5000 parts when its latent variables are put in"):
        build_blueprint(model).reduced()


def test_a_law_that_is_nested_too_deep_is_refused() -> None:
    names = [f"w{number}" for number in range(90)]
    variables = {name: Variable(name, "", Role.LATENT) for name in names}
    variables["y"] = Variable("y", "", Role.MEASURED, "major_faults")
    laws = [LawText("w0", "a", 1, 1)]
    laws += [LawText(after, f"2 + sqrt(3 * ({before} + 1))", 1, 1) for before, after in pairwise(names)]
    model = ModelText(Path("m"), variables, (*laws, LawText("y", names[-1], 1, 1)))
    with pytest.raises(InputError, match="parts nested 300 deep when its latent variables are put in"):
        build_blueprint(model).reduced()


SHAPES = st.recursive(
    st.sampled_from(["{p}", "{q}", "{u}", "{v}", "2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map("exp(-({}))".format),
        st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
    ),
    max_leaves=6,
)


@given(st.lists(SHAPES, min_size=2, max_size=5), st.data())
@settings(deadline=None, max_examples=100)
def test_the_reduced_law_says_what_one_law_after_the_other_says(shapes: list[str], data: st.DataObject) -> None:
    """Each law has parents among the two inputs and the variables before it; all but two are latent."""
    variables = {name: Variable(name, "", Role.PARAMETER) for name in ("x", "y")}
    laws = []
    for number, shape in enumerate(shapes):
        before = list(variables)
        u, v = (data.draw(st.sampled_from(before)) for _ in range(2))
        name = f"m{number}"
        shown = number >= len(shapes) - 2
        variables[name] = Variable(name, "", Role.MEASURED if shown else Role.LATENT)
        laws.append(LawText(name, shape.format(p=f"p{number}", q=f"q{number}", u=u, v=v), 1, 1))
    listed = tuple(ParameterText(f"{one}{number}", "", 1, 1) for one in "pq" for number in range(len(shapes)))
    used = {p.name for p in listed if any(p.name in law.text for law in laws)}
    known = tuple(p for p in listed if p.name in used)
    graph = build_blueprint(ModelText(Path("m"), variables, tuple(laws), known))
    reduced = graph.reduced()
    value_of = {name: data.draw(st.floats(0.5, 2.0)) for name in sorted(used)}
    levels = {name: np.array([0.5, 1.5]) for name in ("x", "y")}
    for name, law in graph.laws.items():
        levels[name] = law.mean(np.array([value_of[one] for one in law.parameters]), levels)
    assume(all(np.isfinite(values).all() and (np.abs(values) < 1e9).all() for values in levels.values()))
    assert set(reduced.laws) == {name for name in graph.laws if variables[name].role is Role.MEASURED}
    for name, law in reduced.laws.items():
        assert all(reduced.variables[parent].role is not Role.LATENT for parent in law.parents)
        found = law.mean(np.array([value_of[one] for one in law.parameters]), levels)
        assert found == pytest.approx(levels[name], rel=1e-7, abs=1e-7)
