"""Designs that are fixed before the run, on a subject whose law is known, and what is foreseen of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from experiments.simulated import SimulatedNode
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.cli.results import write_results
from insitu.orchestrator.design.controls import check_of
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.execution.orders import TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.choice import answer_of, most_trials
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.steering.preview import fixed_preview_of, preview_of
from insitu.orchestrator.steering.state import knowledge_of
from insitu.orchestrator.store.records import StoredTrial, TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.steering.test_sequential import MODEL, NOISE_S, PLAN, TRUE_EFFECT_S, prepared, truth
from tests.told_node import Watcher

KINDS = ("d_optimal", "i_optimal", "c_optimal", "latin_hypercube", "fractional", "factorial")


@dataclass(frozen=True)
class Executed:
    directory: Path
    plan: Plan
    blueprint: Blueprint
    outcome: Outcome
    trials: tuple[StoredTrial, ...]


class Slow(SimulatedNode):
    """Preparing the subject's input takes a second for each 8 MB."""

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        setup_s = order.planned.assignment.as_dict()["size"] / 8e6
        record = replace(outcome.record, duration_s=outcome.record.duration_s + setup_s)
        return replace(outcome, record=record)


def of_kind(kind: str, more: str = "", budget: str = "{trials: 60}", goal: str = "") -> str:
    text = PLAN.replace("{kind: sequential, seed: 3}", f"{{kind: {kind}, seed: 3{more}}}")
    text = text.replace("budget: {trials: 60}", f"budget: {budget}")
    return text.replace(", relative_half_width: 0.1}", goal + "}")


def execute(
    folder: Path, plan_text: str, node_kind: type[SimulatedNode] = SimulatedNode, seed: int = 11
) -> Executed:
    plan, blueprint = experiment.read(plans.write(folder / "plan", plan_text, MODEL))
    node = node_kind(blueprint.variables, truth, np.random.default_rng(seed))
    trials = experiment.design_trials(plan, blueprint)
    kept = {law.variable: law.prior.source for law in plan.model.laws if law.prior is not None}
    facts = {"name": plan.name, "status": "complete"}
    with RunStore.create(folder / "run", plan.plan_source, plan.model_source, facts, kept) as store:
        store.plan_trials(trials)
        ready = replace(prepared(plan, blueprint), most_trials=most_trials(plan, len(trials)))
        outcome = loop.execute(ready, store, node, Watcher(), node.clock, node.pause)  # type: ignore[arg-type]
        write_results(store)
        return Executed(folder / "run", plan, blueprint, outcome, store.trials())


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_executed_and_answers(tmp_path: Path, kind: str) -> None:
    more = ", replicates: 1" if kind == "factorial" else ", trials: 24" if kind != "fractional" else ""
    done = execute(tmp_path, of_kind(kind, more))
    assert done.outcome.ending is Ending.COMPLETE, done.outcome
    found = answer_of(done.plan, done.blueprint, done.trials)
    assert found is not None
    (effect,) = found.parts
    assert effect.low < TRUE_EFFECT_S < effect.high
    preview = fixed_preview_of(done.plan, done.blueprint, [one.planned for one in done.trials], done.trials)
    assert preview is not None
    (foreseen,) = preview.expected.half_widths
    assert foreseen == pytest.approx((effect.high - effect.low) / 2, rel=0.25)


def test_a_trial_that_fails_is_repeated_in_its_group(tmp_path: Path) -> None:
    class Failing(SimulatedNode):
        def run_trial(self, order: TrialOrder) -> TrialOutcome:
            outcome = super().run_trial(order)
            if order.planned.trial not in (2, 9):
                return outcome
            return replace(outcome, record=replace(outcome.record, state=TrialState.FAILED, reasons=("exit 1",)))

    plan = of_kind("d_optimal", ", trials: 12, blocks: 4").replace("32 MB]", "32 MB], hard_to_change: true")
    done = execute(tmp_path, plan, Failing)
    assert done.outcome.ending is Ending.COMPLETE
    by_number = {one.planned.trial: one.planned for one in done.trials}
    repeated = [one.planned for one in done.trials if one.planned.replaces is not None]
    assert [one.replaces for one in repeated] == [2, 9]
    for one in repeated:
        assert one.replaces is not None
        assert (one.block, one.assignment) == (by_number[one.replaces].block, by_number[one.replaces].assignment)
    valid = [one.planned.assignment for one in done.trials if one.state is TrialState.VALID]
    assert Counter(valid) == Counter(one.assignment for one in experiment.design_trials(done.plan, done.blueprint))


def test_going_on_from_a_run_takes_fewer_trials(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    goal = ", relative_half_width: 0.03"
    for seed in range(3):
        first = execute(tmp_path / f"first{seed}", of_kind("d_optimal", ", trials: 12"), seed=100 + seed)
        for name, more in (("alone", ""), ("after", f", augment: {first.directory}")):
            done = execute(tmp_path / f"{name}{seed}", of_kind("sequential", more, goal=goal), seed=seed)
            assert done.outcome.ending is Ending.REACHED, done.outcome
            counts[name] += len(done.trials)
    assert counts["after"] <= counts["alone"] - 3 * 8


def test_what_was_known_and_what_trials_tell_add_up(tmp_path: Path) -> None:
    first = execute(tmp_path / "first", of_kind("d_optimal", ", trials: 12"))
    after = execute(tmp_path / "after", of_kind("d_optimal", f", trials: 6, augment: {first.directory}"))
    assert after.plan.goal is not None
    situation = knowledge_of(after.plan, after.blueprint, after.plan.goal, after.trials).situation(
        after.plan, {}, by_time=False
    )
    (belief,) = situation.beliefs.values()
    assert belief.known is not None
    both = np.linalg.inv(situation.information())
    fit = knowledge_of(after.plan, after.blueprint, after.plan.goal, after.trials).fits["runtime"]
    assert fit.covariance_matrix == pytest.approx(both, rel=0.05)


def test_the_noise_of_an_earlier_run_makes_precision_and_time_absolute(tmp_path: Path) -> None:
    earlier = execute(tmp_path, of_kind("factorial", ", replicates: 1"), Slow)
    plan, blueprint = experiment.read(plans.write(tmp_path / "next", of_kind("d_optimal", ", trials: 12"), MODEL))
    trials = experiment.design_trials(plan, blueprint)
    relative, absolute = (fixed_preview_of(plan, blueprint, trials, like) for like in ((), earlier.trials))
    assert relative is not None
    assert absolute is not None
    assert (relative.absolute, absolute.absolute) == (False, True)
    assert (relative.seconds, relative.expected.laws[0].noise) == (None, 1.0)
    assert absolute.expected.laws[0].noise == pytest.approx(NOISE_S, rel=0.35)
    ratio = np.array(absolute.expected.half_widths) / np.array(relative.expected.half_widths)
    assert ratio == pytest.approx(absolute.expected.laws[0].noise)
    assert absolute.sizes == pytest.approx([abs(TRUE_EFFECT_S)], rel=0.2)
    assert absolute.seconds is not None
    expected_s = sum(_seconds_of(one.assignment.as_dict()) for one in trials)
    assert absolute.seconds == pytest.approx(expected_s, rel=0.1)


def _seconds_of(levels: Mapping[str, float]) -> float:
    """By the true law, with a tenth of a second around it and the set-up."""
    return truth(levels, np.random.default_rng(0), 0.0)["wall_time"] + 0.1 + levels["size"] / 8e6


def test_a_run_that_tells_nothing_is_no_measure(tmp_path: Path) -> None:
    earlier = execute(tmp_path, of_kind("d_optimal", ", trials: 12"))
    with pytest.raises(InputError, match="does not tell what to expect"):
        fixed_preview_of(
            earlier.plan, earlier.blueprint, [one.planned for one in earlier.trials], earlier.trials[:2]
        )


def test_a_sequential_course_like_an_earlier_run(tmp_path: Path) -> None:
    earlier = execute(tmp_path, of_kind("factorial", ", replicates: 1"))
    plan, blueprint = experiment.read(plans.write(tmp_path / "next", PLAN, MODEL))
    course = preview_of(plan, blueprint, 60, earlier.trials)
    (needed,) = course.needed
    assert course.absolute
    assert needed.spread == pytest.approx(NOISE_S / abs(TRUE_EFFECT_S), rel=0.4)
    assert needed.trials is not None
    assert needed.trials < 45


def test_seconds_count_the_preparation_of_each_size(tmp_path: Path) -> None:
    plan_text = of_kind("sequential", budget="{time: 200 s}", goal=", relative_half_width: 0.001")
    done = execute(tmp_path, plan_text, Slow)
    assert done.plan.goal is not None
    knowledge = knowledge_of(done.plan, done.blueprint, done.plan.goal, done.trials)
    situation = knowledge.situation(done.plan, {}, by_time=True)
    assert situation.seconds is not None
    space = situation.space
    tried = {one.planned.assignment.as_dict()["size"] for one in done.trials}
    for number, seconds in enumerate(situation.seconds):
        levels = space.assignment(number).as_dict()
        if levels["size"] in tried:
            assert seconds == pytest.approx(_seconds_of(levels), rel=0.15)


def test_before_any_trial_set_up_is_what_the_plan_says(tmp_path: Path) -> None:
    first = execute(tmp_path / "first", of_kind("d_optimal", ", trials: 12"))
    more = f", augment: {first.directory}"
    costs = {}
    for setup in ("", ", setup: 60 s"):
        text = of_kind("d_optimal", more + setup, budget="{time: 30 min}")
        plan, blueprint = experiment.read(plans.write(tmp_path / "next", text, MODEL))
        made = experiment.design_of(plan, blueprint)
        assert any("of the budget's 1800 s" in one for one in made.told), made.told
        costs[setup] = len(made.trials)
    assert costs[", setup: 60 s"] < 30 < costs[""]


@pytest.mark.parametrize(
    "goal",
    [
        "{prediction: runtime, at: [{cores: 0.2, size: 8 MB}, {cores: 1.0, rate: 40 MB/s, size: 32 MB}]}",
        "{parameters: runtime}",
        "{causes: runtime}",
    ],
)
def test_a_design_for_several_numbers_is_better_at_the_worst_of_them(tmp_path: Path, goal: str) -> None:
    """Than one for all parameters, without the checks; relative for parameters, else in seconds."""
    worst: dict[str, float] = {}
    for kind in ("c_optimal", "d_optimal"):
        text = of_kind(kind, ", trials: 24").replace("{effect: cores -> runtime}", goal)
        plan, blueprint = experiment.read(plans.write(tmp_path / kind, text, MODEL))
        trials = [one for one in experiment.design_trials(plan, blueprint) if check_of(one.trial) is None]
        preview = fixed_preview_of(plan, blueprint, trials)
        assert preview is not None
        halves = np.array(preview.expected.half_widths)
        nominal = np.array([1.0, 1.0, 1e-6]) if "parameters" in goal else np.ones(len(halves))
        worst[kind] = float((halves / nominal).max())
    assert worst["c_optimal"] < worst["d_optimal"]


def test_what_only_the_trials_can_tell_is_not_foreseen(tmp_path: Path) -> None:
    model = MODEL.replace(
        "  runtime: {unit", "  pressure: {unit: fraction, measured_by: cpu_pressure}\n  runtime: {unit"
    )
    model = model.replace("size / cores\n", "size / cores + d * pressure\n")
    plan, blueprint = experiment.read(plans.write(tmp_path, of_kind("factorial", ", replicates: 1"), model))
    assert fixed_preview_of(plan, blueprint, experiment.design_trials(plan, blueprint)) is None
