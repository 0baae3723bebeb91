"""What a plan says of its design: keys that a kind has no use for, and the run that it goes on from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments.simulated import SimulatedNode
from insitu.orchestrator import experiment
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.cli.results import write_results
from insitu.orchestrator.design.expected import expected_from
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.choice import before_any_trial
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.made_runs import make_run

MODEL = """\
variables:
  size: {unit: B, role: parameter}
  cores: {unit: core, set_by: cpu.cores}
  reading: {unit: s, role: latent}
  runtime: {unit: s, measured_by: wall_time}
laws:
  reading: a * size
  runtime: c + reading + b * size / cores
"""
PLAN = """\
name: kinds
subject: {command: [sleep, "{size}"]}
model: model.yaml
factors:
  cores: {range: [0.2, 1.0]}
  size: {levels: [8 MB, 16 MB, 32 MB], hard_to_change: true}
goal: {effect: cores -> runtime}
design: {kind: d_optimal, trials: 12, setup: 2 s}
"""


def faults(folder: Path, plan: str, model: str = MODEL) -> str:
    with pytest.raises(FaultyFile) as caught:
        experiment.read(plans.write(folder, plan, model))
    return str(caught.value).replace(f"{folder}/", "")


def with_design(design: str) -> str:
    return PLAN.replace("{kind: d_optimal, trials: 12, setup: 2 s}", design)


def test_what_a_design_is_told(tmp_path: Path) -> None:
    plan, _ = experiment.read(plans.write(tmp_path, PLAN, MODEL))
    assert (plan.design.kind, plan.design.trials, plan.design.setup_s) == ("d_optimal", 12, 2.0)
    cores, size = plan.factors
    assert (cores.hard_to_change, size.hard_to_change) == (False, True)
    assert cores.span is not None
    assert (cores.span.low, cores.span.high, len(cores.levels)) == (0.2, 1.0, 5)
    assert size.span is None


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ("{kind: factorial, trials: 3}", "8:27: a factorial design has no 'trials'"),
        ("{kind: latin_hypercube, blocks: 3}", "8:33: a latin_hypercube design has no 'blocks'"),
        ("{kind: d_optimal, resolution: 4}", "8:27: a d_optimal design has no 'resolution'"),
        ("{kind: d_optimal, batch: 4}", "8:27: a d_optimal design has no 'batch'"),
    ],
)
def test_a_key_that_the_kind_has_no_use_for(tmp_path: Path, design: str, said: str) -> None:
    assert said in faults(tmp_path, with_design(design))


def test_a_design_for_a_goal_needs_one(tmp_path: Path) -> None:
    plan = with_design("{kind: c_optimal}").replace("goal: {effect: cores -> runtime}\n", "")
    assert "a c_optimal design needs a goal" in faults(tmp_path, plan)


def run_of(folder: Path, plan_text: str = PLAN, model: str = MODEL) -> Path:
    """A finished run of the plan, of trials with a known truth."""
    plan, blueprint = experiment.read(plans.write(folder / "plan", plan_text, model))
    rng = np.random.default_rng(2)

    def truth(levels: object, rng: np.random.Generator) -> dict[str, float]:
        assert isinstance(levels, dict)
        work_s = 0.1 + 0.05e-6 * levels["size"] + 0.03e-6 * levels["size"] / min(levels["cores"], 1.0)
        return {"wall_time": work_s + rng.normal(0, 0.1)}

    node = SimulatedNode(blueprint.variables, truth, rng)
    trials = [node.stored(one) for one in experiment.design_trials(plan, blueprint)]
    directory = make_run(folder / "run", trials, plan_text, model)
    with RunStore.open(directory) as store:
        write_results(store)
    return directory


def augmented(folder: Path, run: Path, plan_text: str = PLAN, model: str = MODEL) -> Path:
    text = plan_text.replace("setup: 2 s", f"augment: {run}, seed: 3").replace("trials: 12", "trials: 4")
    return plans.write(folder / "next", text, model)


def test_what_a_run_found_is_the_prior_of_each_law(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    plan, blueprint = experiment.read(augmented(tmp_path, run))
    priors = {law.variable: law.prior for law in plan.model.laws}
    assert priors["reading"] is None
    assert priors["runtime"] is not None
    assert priors["runtime"].source == (run / "fitted.json").read_text()
    told = experiment.design_of(plan, blueprint).told
    assert "what run found of runtime counts as known" in told


def test_a_resumed_run_has_the_same_design_without_the_earlier_one(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    plan, blueprint = experiment.read(augmented(tmp_path, run))
    trials = experiment.design_trials(plan, blueprint)
    kept = {law.variable: law.prior.source for law in plan.model.laws if law.prior is not None}
    with RunStore.create(tmp_path / "again", plan.plan_source, plan.model_source, {}, kept):
        pass
    shutil.rmtree(run)
    with RunStore.open(tmp_path / "again", read_only=True) as store:
        stored, model = experiment.read_stored(store)
    assert experiment.design_trials(stored, model) == trials


def test_known_trials_change_what_is_tried(tmp_path: Path) -> None:
    """Where an earlier run tried small sizes, what goes on from it tries large ones: together they tell most."""
    easy = PLAN.replace(", hard_to_change: true", "")
    run = run_of(tmp_path, easy.replace("levels: [8 MB, 16 MB, 32 MB]", "levels: [8 MB, 9 MB]"))
    after = experiment.read(augmented(tmp_path, run, easy))
    fresh = experiment.read(plans.write(tmp_path / "fresh", easy.replace("trials: 12", "trials: 4"), MODEL))
    known = before_any_trial(*after)

    def told(plan: Plan, blueprint: Blueprint) -> float:
        trials = [one.assignment for one in experiment.design_trials(plan, blueprint)]
        return expected_from(known, trials, 0.95).log_determinant

    assert told(*after) > told(*fresh) + 0.1


@pytest.mark.parametrize(
    ("plan", "model", "said"),
    [
        (PLAN.replace("sleep", "cat"), MODEL, "differs from this plan in the subject"),
        (PLAN, MODEL.replace("c + reading", "reading"), "differs from this plan in the law of 'runtime'"),
        (PLAN, MODEL.replace("a * size", "a * size / 2"), "differs from this plan in the law of 'reading'"),
        (
            PLAN,
            MODEL + "parameters: {b: {unit: core*s/MB}}\n",
            "differs from this plan in its parameters",
        ),
    ],
)
def test_a_run_of_something_else_is_refused(tmp_path: Path, plan: str, model: str, said: str) -> None:
    run = run_of(tmp_path)
    with pytest.raises(FaultyFile) as caught:
        experiment.read(augmented(tmp_path, run, plan, model))
    assert said in str(caught.value)
    assert "trials can be added to a run of the same subject and model only" in str(caught.value)


def test_other_levels_are_no_other_model(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    model = MODEL.replace("cores: {unit: core, ", "cores: {unit: core, levels: [0.3, 0.4], ")
    assert experiment.read(augmented(tmp_path, run, model=model))


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        assert "is not the directory of a run" in faults(
            tmp_path / "next", with_design(f"{{kind: d_optimal, augment: ../{name}}}")
        )


def test_a_run_without_a_fit_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (run / "fitted.json").unlink()
    with pytest.raises(FaultyFile, match="has no fitted law yet"):
        experiment.read(augmented(tmp_path, run))
    (run / "fitted.json").write_text(json.dumps({"format": "insitu-fit", "fits": []}))
    with pytest.raises(FaultyFile, match="has no fitted law of 'reading'"):
        experiment.read(augmented(tmp_path, run))


def test_a_prior_beside_it_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    model = MODEL.replace(
        "runtime: c + reading + b * size / cores",
        f"runtime: {{law: c + reading + b * size / cores, prior: {run}}}",
    )
    with pytest.raises(FaultyFile, match="the law of 'runtime' has a prior of its own"):
        experiment.read(augmented(tmp_path, run, model=model))
