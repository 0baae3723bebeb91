"""Names of laws: categories, what a name can be, and what it cannot."""

from __future__ import annotations

import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from tests.causal.models import faults_of, law_of, model_of


@pytest.mark.parametrize(
    ("laws", "expected"),
    [
        (["runtime: c + kind"], ["1:14 'kind' has the categories ssd, hdd, nvme, and no number"]),
        (["runtime: c * kind + d * kind"], ["1:14 'kind' has the cat", "1:25 'kind' has the categories"]),
        (["runtime: c[size]"], ["1:12 'size' has numbers, not categories"]),
        (["runtime: c[knid]"], ["1:12 'knid' is not a variable"]),
        (["runtime: c[kind] * is(kind, sdd)"], ["1:20 'kind' has no category 'sdd'"]),
        (["runtime: c * is(size, ssd)"], ["1:17 'size' has numbers, not categories"]),
        (["runtime: rate[kind]"], ["1:10 'rate' is a variable, so there is none for each kind"]),
        (["runtime: block[kind]"], ["1:10 'block' is a constant, so there is none for each kind"]),
        (["runtime: c[kind] + c"], ["1:20 'c' stands in this law as c[kind], too"]),
        (["runtime: c[kind] + c[machine]"], ["1:20 'c' stands in this law as c[kind], too"]),
        (["runtime: c[kind]", "cpu: c[kind]"], ["2:6 'c' is already a parameter of the law of 'runtime'"]),
        (["runtime: a * x^size + c"], ["1:16 'size' is a variable; an exponent is a number or a parameter"]),
        (["machine: c"], ["1:10 'machine' has categories, so it has no law"]),
        (["runtime: sizes[kind] * c"], ["1:10 'sizes' is not a variable"]),
    ],
)
def test_faults(laws: list[str], expected: list[str]) -> None:
    found = faults_of(model_of(*laws))
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        assert one.startswith(wanted), found


def test_too_many_parameters_are_refused_before_they_are_made() -> None:
    index = ", ".join(["kind"] * 30)
    assert faults_of(model_of(f"runtime: c[{index}]")) == ["1:10 'c' would be more than 1000 parameters"]


def test_a_cycle_through_an_index_is_found() -> None:
    graph = build_blueprint(model_of("runtime: c[machine] + d * is(kind, ssd) + e * cpu"))
    assert graph.parents("runtime") == ("machine", "kind", "cpu")


def test_a_constant_is_neither_a_parent_nor_a_parameter() -> None:
    law = law_of("a * log(size / block)")
    assert law.parameters == ("a",)
    assert law.parents == ("size",)
    assert law.term_texts == {"a": "log(size / block)"}
    assert law.design_row({"size": 1e6}) == pytest.approx([0.0])
