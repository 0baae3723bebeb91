"""From a model's text to a graph with laws, or to every fault of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.blueprint import Blueprint, Edge, build_blueprint, check_against
from insitu.orchestrator.causal.graph import Blueprint as Graph
from insitu.orchestrator.errors import FaultyFile, InputError
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.loading import load_plan, load_plan_text
from insitu.orchestrator.plan.types import LawText, ModelText, ParameterText, Plan, Role, Variable
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

LAW = "c + a * input_size / disk_read_rate + b * input_size / cpu_cores"


def load(plan: str = PLAN, model: str = MODEL) -> Plan:
    return load_plan_text(
        plan, model, plan_path=Path("plan.yaml"), model_path=Path("model.yaml"), settable=SETTABLE
    )


def model_of(*laws: str, parameters: tuple[ParameterText, ...] = ()) -> ModelText:
    variables = (
        Variable("size", "B", Role.PARAMETER),
        Variable("rate", "B/s", Role.SET, "disk.read_rate"),
        Variable("cores", "core", Role.SET, "cpu.cores"),
        Variable("runtime", "s", Role.MEASURED, "wall_time"),
        Variable("cpu", "s", Role.MEASURED, "cpu_time"),
    )
    texts = []
    for line, law in enumerate(laws, start=1):
        name, _, text = law.partition(": ")
        texts.append(LawText(name, text, line, len(name) + 3))
    return ModelText(Path("model.yaml"), {v.name: v for v in variables}, tuple(texts), parameters)


def faults_of(model: ModelText) -> list[str]:
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(model)
    return [f"{f.line}:{f.column} {f.message}" for f in caught.value.faults]


@pytest.fixture
def blueprint() -> Blueprint:
    return build_blueprint(load().model)


def test_the_law_of_the_quickstart(blueprint: Blueprint) -> None:
    law = blueprint.laws["runtime"]
    assert law.text == LAW
    assert law.parameters == ("c", "a", "b")
    assert law.parents == ("input_size", "disk_read_rate", "cpu_cores")
    assert law.parameter_units == {"c": "s", "a": "", "b": "core*s/GB"}
    assert law.parameter_scales == {"c": 1.0, "a": 1.0, "b": 1e9}
    assert law.term_texts == {"c": "1", "a": "input_size / disk_read_rate", "b": "input_size / cpu_cores"}
    assert law.offset_text == "0"


def test_a_design_row_is_the_derivative_by_each_parameter(blueprint: Blueprint) -> None:
    law = blueprint.laws["runtime"]
    levels = {"input_size": 8e6, "disk_read_rate": 2e6, "cpu_cores": 0.5}
    row = law.design_row(levels)
    assert row.shape == (3,)
    assert row == pytest.approx([1.0, 4.0, 16e6])
    assert law.design_row({**levels, "disk_read_rate": math.inf}) == pytest.approx([1.0, 0.0, 16e6])
    assert law.offset(levels) == 0.0


def test_a_design_matrix_has_a_row_per_trial(blueprint: Blueprint) -> None:
    law = blueprint.laws["runtime"]
    columns = {
        "input_size": np.array([8e6, 4e6]),
        "disk_read_rate": np.array([2e6, math.inf]),
        "cpu_cores": np.array([0.5, 1.0]),
    }
    rows = [law.design_row({name: float(c[i]) for name, c in columns.items()}) for i in range(2)]
    assert law.design_matrix(columns) == pytest.approx(np.array(rows))


def test_a_row_without_a_level_is_refused(blueprint: Blueprint) -> None:
    with pytest.raises(InputError, match="the law of 'runtime' needs a level of disk_read_rate, cpu_cores"):
        blueprint.laws["runtime"].design_row({"input_size": 1.0})


@pytest.mark.parametrize(
    ("law", "terms", "offset", "units"),
    [
        ("a - size / rate", {"a": "1"}, "-(size / rate)", {"a": "s"}),
        ("(a + b * size) * 2", {"a": "2", "b": "size * 2"}, "0", {"a": "s", "b": "s/B"}),
        ("-(a * size - c) / cores", {"a": "-size / cores", "c": "1 / cores"}, "0", None),
        ("a * size + a * size / 2", {"a": "size + size / 2"}, "0", {"a": "s/B"}),
        ("size * a / rate", {"a": "size / rate"}, "0", {"a": ""}),
        ("a / cores", {"a": "1 / cores"}, "0", {"a": "core s"}),
        ("a^1 + b * sqrt(size)", {"a": "1", "b": "sqrt(size)"}, "0", {"a": "s", "b": "s/B^0.5"}),
        ("a * log(size / (rate * cpu)) + cpu", {"a": "log(size / (rate * cpu))"}, "cpu", {"a": "s"}),
        ("max(cpu, size / rate) * a", {"a": "max(cpu, size / rate)"}, "0", {"a": ""}),
        ("size / rate", {}, "size / rate", {}),
    ],
)
def test_terms(law: str, terms: dict[str, str], offset: str, units: dict[str, str] | None) -> None:
    built = build_blueprint(model_of(f"runtime: {law}")).laws["runtime"]
    if units is not None:
        assert built.parameter_units == units
    levels = {"size": 6.0, "rate": 2.0, "cores": 0.5, "cpu": 1.5}
    shown = {name: build_value(text, levels) for name, text in terms.items()}
    assert dict(zip(built.parameters, built.design_row(levels), strict=True)) == pytest.approx(shown)
    assert {name: build_value(text, levels) for name, text in built.term_texts.items()} == pytest.approx(shown)
    assert built.offset(levels) == pytest.approx(build_value(offset, levels))
    assert build_value(built.offset_text, levels) == pytest.approx(build_value(offset, levels))


def build_value(text: str, levels: dict[str, float]) -> float:
    from insitu.orchestrator.causal.expression import evaluate, parse

    return float(evaluate(parse(text), levels))


@pytest.mark.parametrize(
    ("laws", "expected"),
    [
        # dimensions
        (["runtime: size + cpu"], ["1:15 adds s (cpu) to B"]),
        (["runtime: cpu - size / cores"], ["1:14 subtracts B/core (size / cores) from s"]),
        (["runtime: c + size"], ["1:14 the term size is B, but runtime is s"]),
        (["runtime: c + 5"], ["1:14 the term 5 is a plain number, but runtime is s"]),
        (["runtime: a * (size + rate)"], ["1:20 adds B/s (rate) to B"]),
        (["runtime: a * log(size)"], ["1:18 log of B (size) has no meaning"]),
        (["runtime: a * min(size, rate)"], ["1:24 min compares B with B/s (rate)"]),
        (["runtime: a * size + a * rate"], ["1:21 'a' would be s/B in an earlier term and s^2/B here"]),
        # syntax
        (["runtime: c +"], ["1:13 the law ends too early"]),
        (["runtime: c + a ** size"], ["1:17 unexpected '*'"]),
        # names
        (["runtime: c * size / core"], ["1:21 'core' is not a variable"]),
        (["runtim: c"], ["1:9 the law gives 'runtim', which is not a variable"]),
        (["rate: c"], ["1:7 'rate' is set by an injector, so it has no law"]),
        (["size: c"], ["1:7 'size' is a parameter of the subject, so it has no law"]),
        (["runtime: c", "cpu: c"], ["2:6 'c' is already a parameter of the law of 'runtime'"]),
        # cycles
        (["runtime: a * cpu", "cpu: b * runtime"], ["1:10 the model has a cycle: runtime -> cpu -> runtime"]),
        (["runtime: a * runtime"], ["1:10 the model has a cycle: runtime -> runtime"]),
        # several at once
        (["runtime: c + size", "cpu: a * b"], ["1:14 the term size", "2:10 the unit of 'b' does not follow"]),
    ],
)
def test_faults(laws: list[str], expected: list[str]) -> None:
    found = faults_of(model_of(*laws))
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        assert one.startswith(wanted), found


def test_a_fault_in_a_folded_law_is_on_its_own_line() -> None:
    model = load(
        model=changed(
            MODEL,
            LAW,
            "c +\n    a * input_size / disk_read_rate\n    + b * input_size / cpu_cores\n    + input_size",
        )
    )
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(model.model)
    (fault,) = caught.value.faults
    assert str(fault).startswith("model.yaml:10:7: the term input_size is B, but runtime is s")


def test_a_name_like_a_variable_is_a_slip_unless_it_is_declared() -> None:
    slip = changed(MODEL, "b * input_size / cpu_cores", "b * input_size / cpu_cores + d * input_sizes")
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(load(model=slip).model)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column) == (7, 83)
    assert "did you mean 'input_size'?" in str(fault.hint)
    declared = changed(MODEL, "c + a", "input_sizes + a") + "  input_sizes: {unit: ms}\n"
    law = build_blueprint(load(model=declared).model).laws["runtime"]
    assert law.parameters[0] == "input_sizes"
    assert law.parameter_scales["input_sizes"] == 1e3
    assert build_blueprint(model_of("runtime: runtime0 + a * size")).laws["runtime"].parameters[0] == "runtime0"


def test_a_declared_unit_must_fit_its_law() -> None:
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(load(model=changed(MODEL, "core*s/GB", "s/GB")).model)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column) == (9, 13)
    assert fault.message == "'b' is core s/B in its law, but its unit here is s/B"


def test_a_declared_parameter_must_be_used() -> None:
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(load(model=MODEL + "  bb: {unit: s}\n").model)
    (fault,) = caught.value.faults
    assert str(fault) == "model.yaml:10:14: no law has a parameter 'bb'\n  hint: did you mean 'b'?"


def test_a_latent_variable_needs_a_law() -> None:
    text = changed(MODEL, "laws:", "  wait: {unit: s, role: latent}\nlaws:")
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(load(model=text).model)
    (fault,) = caught.value.faults
    assert str(fault).startswith("model.yaml:6:3: the latent variable 'wait' has no law")


CHAIN = model_of("cpu: a * size / cores", "runtime: cpu + b * size / rate")


def test_the_graph() -> None:
    graph = build_blueprint(CHAIN)
    assert graph.parents("runtime") == ("cpu", "size", "rate")
    assert graph.parents("size") == ()
    assert graph.ancestors("runtime") == {"cpu", "size", "cores", "rate"}
    assert graph.topological_order() == ("size", "rate", "cores", "cpu", "runtime")
    assert graph.edges() == (
        Edge("size", "cpu"),
        Edge("cores", "cpu"),
        Edge("cpu", "runtime"),
        Edge("size", "runtime"),
        Edge("rate", "runtime"),
    )


def test_do_takes_a_variable_out_of_its_own_law_only() -> None:
    graph = build_blueprint(CHAIN)
    held = graph.do(["cpu"])
    assert set(held.laws) == {"runtime"}
    assert held.parents("cpu") == ()
    assert held.ancestors("runtime") == {"cpu", "size", "rate"}
    assert set(graph.laws) == {"cpu", "runtime"}
    assert graph.do([]) == graph
    assert graph.do(["cpu", "runtime"]).edges() == ()


def test_a_question_about_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(InputError, match="no variable 'cpuu'") as caught:
        build_blueprint(CHAIN).do(["cpuu"])
    assert caught.value.hint == "did you mean 'cpu'?"


def test_a_graph_made_by_hand_with_a_cycle_has_no_order() -> None:
    graph = build_blueprint(CHAIN)
    looped = Graph(graph.variables, {**graph.laws, "cpu": replace(graph.laws["cpu"], parents=("runtime",))})
    with pytest.raises(InputError, match="cycle"):
        looped.topological_order()


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_every_cause_comes_before_its_effects(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 7))
    shuffled = data.draw(st.permutations(range(count)))
    law = build_blueprint(CHAIN).laws["cpu"]
    laws = {}
    for index in range(1, count):
        parents = data.draw(st.sets(st.integers(0, index - 1), min_size=1))
        laws[f"v{index}"] = replace(law, variable=f"v{index}", parents=tuple(f"v{p}" for p in sorted(parents)))
    graph = Graph({f"v{index}": Variable(f"v{index}", "s", Role.MEASURED) for index in shuffled}, laws)
    order = graph.topological_order()
    assert sorted(order) == sorted(graph.variables)
    assert all(order.index(edge.cause) < order.index(edge.effect) for edge in graph.edges())


def check(plan: str = PLAN, model: str = MODEL) -> list[str]:
    loaded = load(plan, model)
    with pytest.raises(FaultyFile) as caught:
        check_against(loaded, build_blueprint(loaded.model))
    return [str(fault).split("\n")[0] for fault in caught.value.faults]


def test_a_sound_plan_passes() -> None:
    plan = load()
    check_against(plan, build_blueprint(plan.model))


def test_the_shipped_plan_passes() -> None:
    plan = load_plan(Path(__file__).parents[2] / "configs" / "quickstart.yaml", settable=SETTABLE)
    blueprint = build_blueprint(plan.model)
    check_against(plan, blueprint)
    assert isinstance(plan.goal, EffectGoal)
    assert plan.goal.cause in blueprint.ancestors(plan.goal.outcome)


def test_a_factor_in_no_law() -> None:
    model = changed(MODEL, "a * input_size / disk_read_rate", "a")
    assert check(model=changed(model, "c + ", "")) == [
        "plan.yaml:10:3: 'disk_read_rate' is in no law, so it has no effect"
    ]


def test_a_goal_whose_cause_does_not_lead_to_its_outcome() -> None:
    model = changed(MODEL, "laws:", "  cpu: {unit: s, measured_by: cpu_time}\nlaws:\n  cpu: e / cpu_cores")
    model = changed(model, "b * input_size / cpu_cores", "b * input_size")
    model = changed(model, "core*s/GB", "s/GB")
    assert check(model=model) == ["plan.yaml:12:16: in the model, 'cpu_cores' has no effect on 'runtime'"]


def test_a_goal_whose_outcome_has_no_law() -> None:
    model = changed(MODEL, "laws:", "  cpu: {unit: s, measured_by: cpu_time}\nlaws:")
    plan = changed(PLAN, "cpu_cores -> runtime", "cpu_cores -> cpu")
    assert check(plan, model) == ["plan.yaml:12:16: the goal's outcome 'cpu' has no law"]


def test_a_law_that_needs_a_parameter_without_a_level() -> None:
    plan = changed(PLAN, "  input_size: {levels: [4 MB, 8 MB]}\n", "")
    plan = changed(plan, "{input_size}", "99")
    assert check(plan) == [
        "model.yaml:7:12: the law of 'runtime' needs 'input_size', which the plan gives no level"
    ]


def test_a_law_that_becomes_too_large_is_found_before_anything_is_executed() -> None:
    names = [f"w{number}" for number in range(15)]
    latent = "".join(f"  {name}: {{unit: s, role: latent}}\n" for name in names)
    laws = "".join(f"  {after}: {before} + {before} + {before}\n" for before, after in pairwise(names))
    model = changed(MODEL, "laws:\n", f"{latent}laws:\n  w0: w * input_size\n{laws}")
    loaded = load(model=changed(model, "c + a", f"c + {names[-1]} + a"))
    with pytest.raises(InputError, match="the law of 'w7' has more than 5000 parts"):
        check_against(loaded, build_blueprint(loaded.model))
