"""A goal that compares two laws: what a plan says of the rival, and what it cannot say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from insitu.orchestrator import experiment
from insitu.orchestrator.causal.rival import rival_of
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.plan.goals import ComparisonGoal
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Noise
from insitu.orchestrator.plan.types import Plan
from tests import plans
from tests.plan.texts import MODEL, PLAN, changed

GOAL = "{effect: cpu_cores -> runtime, confidence: 0.9}"
DESIGN = "design: {kind: factorial, replicates: 3, seed: 7}\n"
RIVAL = "c + a * input_size / disk_read_rate"


def asking(goal: str) -> str:
    """The plan with a goal of several lines, at line 12."""
    lines = "".join(f"\n  {line}" for line in goal.splitlines())
    return changed(changed(PLAN, f" {GOAL}", lines), DESIGN, "")


def load(folder: Path, goal: str, model: str = MODEL) -> Plan:
    return experiment.read(plans.write(folder, asking(goal), model))[0]


def faults_of(folder: Path, goal: str, model: str = MODEL) -> list[str]:
    with pytest.raises(FaultyFile) as caught:
        load(folder, goal, model)
    return [f"{one.path.name}:{one.line}:{one.column} {one.message} | {one.hint}" for one in caught.value.faults]


def test_a_rival_is_a_text(tmp_path: Path) -> None:
    plan = load(tmp_path, f"comparison: runtime\nrival: {RIVAL}")
    assert isinstance(plan.goal, ComparisonGoal)
    assert plan.goal.outcome == "runtime"
    assert plan.goal.rival.text == RIVAL
    assert (plan.goal.tolerance, plan.goal.confidence, plan.goal.relative_half_width) == (0.1, 0.95, None)
    assert plan.design.kind == "sequential"


def test_a_rival_is_a_mapping_with_what_a_model_says_of_a_law(tmp_path: Path) -> None:
    rival = "{law: l + k * input_size / block, link: log, noise: gamma, parameters: {k: {low: 0}}}"
    model = MODEL + "constants: {block: 1 MB}\n"
    path = plans.write(tmp_path, asking(f"comparison: runtime\nrival: {rival}\ntolerance: 0.02"), model)
    plan, blueprint = experiment.read(path)
    found = rival_of(plan, blueprint)
    assert found is not None
    law = found.laws["runtime"]
    assert (law.link, law.noise, law.parameters) == (Link.LOG, Noise.GAMMA, ("l", "k"))
    assert law.bounds == {"k": Bounds(low=0.0)}
    assert isinstance(plan.goal, ComparisonGoal)
    assert plan.goal.tolerance == 0.02


def test_link_and_noise_are_those_of_the_law_unless_the_plan_says(tmp_path: Path) -> None:
    law = "runtime: c + a * input_size / disk_read_rate + b * input_size / cpu_cores"
    model = changed(MODEL, law, f"runtime: {{law: {law.partition(': ')[2]}, noise: lognormal}}")
    plan = load(tmp_path, f"comparison: runtime\nrival: {RIVAL}", model)
    assert isinstance(plan.goal, ComparisonGoal)
    assert (plan.goal.rival.link, plan.goal.rival.noise) == (Link.IDENTITY, Noise.LOGNORMAL)


def test_parameters_of_the_model_are_not_the_rivals(tmp_path: Path) -> None:
    """The model's b is in core*s/GB; the rival's is seconds per byte."""
    path = plans.write(tmp_path, asking("comparison: runtime\nrival: c + b * input_size"), MODEL)
    plan, blueprint = experiment.read(path)
    found = rival_of(plan, blueprint)
    assert found is not None
    assert blueprint.laws["runtime"].parameter_units["b"] == "core*s/GB"
    assert found.laws["runtime"].parameter_units["b"] != "core*s/GB"
    assert rival_of(replace(plan, goal=None), blueprint) is None


def test_a_factor_may_stand_in_the_rival_alone(tmp_path: Path) -> None:
    model = changed(MODEL, " + a * input_size / disk_read_rate", "")
    model = changed(model, "parameters:\n  b: {unit: core*s/GB}\n", "")
    plan = load(tmp_path, "comparison: runtime\nrival: c + a * input_size / disk_read_rate", model)
    assert {factor.variable for factor in plan.factors} == {"cpu_cores", "disk_read_rate", "input_size"}


FAULTS = [
    (
        "comparison: runtime",
        "plan.yaml:13:15 it is not said which law the law of 'runtime' is compared with | add rival: a * input",
    ),
    (
        "comparison: runtime\nrival:",
        "plan.yaml:14:3 it is not said which law the law of 'runtime' is compared with",
    ),
    ("comparison: runtime\nrival: ' '", "plan.yaml:14:10 the rival is empty"),
    ("comparison: runtime\nrival: [a, b]", "plan.yaml:14:10 expected text, found a list"),
    (
        "comparison: runtime\nrival: c + a*input_size / disk_read_rate   + b * input_size/cpu_cores",
        "plan.yaml:14:10 the rival is the model's own law of 'runtime' | write the law that it is to be compared",
    ),
    (
        "comparison: runtime\nrival: c + a * input_sise",
        "plan.yaml:14:18 'input_sise' is not a variable | did you mean 'input_size'?",
    ),
    ("comparison: runtime\nrival: c + input_size", "plan.yaml:14:14 the term input_size is B, but runtime is s"),
    ("comparison: runtime\nrival: a * (cpu_cores", "plan.yaml:14:24"),
    ("comparison: runtime\nrival: c + a * runtime", "plan.yaml:14:10 the model has a cycle: runtime -> runtime"),
    ("comparison: cpu_cores\nrival: a", "plan.yaml:13:15 the outcome 'cpu_cores' is not measured"),
    (
        "comparison: runtim\nrival: a",
        "plan.yaml:13:15 the model has no variable 'runtim' | did you mean 'runtime'?",
    ),
    (
        "comparison: runtime\nrival: {law: c + a * input_size, fit: robust}",
        "plan.yaml:14:36 unknown key 'fit' | valid here: law, link, noise, parameters",
    ),
    (
        "comparison: runtime\nrival: {law: c + a * input_size, parameters: {d: {unit: s}}}",
        "plan.yaml:14:59 no law has a parameter 'd'",
    ),
    (
        "comparison: runtime\nrival: {law: c + a * input_size, parameters: {a: {unit: core}}}",
        "plan.yaml:14:59 'a' is s/B in its law, but its unit here is core",
    ),
    (
        "comparison: runtime\nrival: c + a * input_size\nrelative_half_width: 0.1",
        "plan.yaml:15:3 'relative_half_width' belongs to a goal that asks for effect, prediction, parameters or",
    ),
    (
        "effect: cpu_cores -> runtime\nrival: c",
        "plan.yaml:14:3 'rival' belongs to a goal that asks for comparison",
    ),
    (
        "parameters: runtime\ntolerance: 0.1",
        "plan.yaml:14:3 'tolerance' belongs to a goal that asks for comparison | remove it",
    ),
    ("comparison: runtime\nrival: c\ntolerance: 1", "plan.yaml:15:14 'tolerance' must be below 1, not '1'"),
    ("comparison: runtime\ncauses: runtime\nrival: c", "plan.yaml:14:3 a goal asks one thing | keep one"),
]


@pytest.mark.parametrize(("goal", "fault"), FAULTS)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, goal: str, fault: str) -> None:
    (found,) = faults_of(tmp_path, goal)
    assert found.startswith(fault), found


def test_a_law_that_is_not_fitted_by_how_likely_trials_are(tmp_path: Path) -> None:
    law = "runtime: c + a * input_size / disk_read_rate + b * input_size / cpu_cores"
    model = changed(MODEL, law, f"runtime: {{law: {law.partition(': ')[2]}, fit: quantile, quantile: 0.9}}")
    (found,) = faults_of(tmp_path, f"comparison: runtime\nrival: {RIVAL}", model)
    assert found.startswith("plan.yaml:14:10 a comparison asks how likely trials are, which 'fit: quantile' of")


def test_a_parameter_of_the_subject_that_the_rival_needs(tmp_path: Path) -> None:
    model = changed(MODEL, "  disk_read_rate:", "  lines: {unit: '', role: parameter}\n  disk_read_rate:")
    (found,) = faults_of(tmp_path, "comparison: runtime\nrival: c + a * lines", model)
    assert (
        found == "plan.yaml:14:10 the rival needs 'lines', which the plan gives no level | add 'lines' to factors"
    )


def test_a_sequential_comparison_needs_a_budget(tmp_path: Path) -> None:
    text = changed(asking(f"comparison: runtime\nrival: {RIVAL}"), "budget: {trials: 40, time: 3 min}\n", "")
    with pytest.raises(FaultyFile, match="a sequential design needs a budget"):
        experiment.read(plans.write(tmp_path, text, MODEL))


def test_a_cycle_through_another_law_is_the_rivals_fault(tmp_path: Path) -> None:
    model = changed(MODEL, "  runtime: {unit", "  busy: {unit: s, measured_by: cpu_time}\n  runtime: {unit")
    model = changed(model, "laws:\n", "laws:\n  busy: w * runtime\n")
    (found,) = faults_of(tmp_path, "comparison: runtime\nrival: c + u * busy", model)
    assert found.startswith("plan.yaml:14:10 the model has a cycle: ")


def test_a_parameter_that_another_law_has(tmp_path: Path) -> None:
    model = changed(MODEL, "  runtime: {unit", "  busy: {unit: s, measured_by: cpu_time}\n  runtime: {unit")
    model = changed(model, "laws:\n", "laws:\n  busy: w + v * input_size\n")
    (found,) = faults_of(tmp_path, "comparison: runtime\nrival: c + v * busy", model)
    assert found.startswith("plan.yaml:14:14 'v' is already a parameter of the law of 'busy'")
