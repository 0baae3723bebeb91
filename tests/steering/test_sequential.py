"""A sequential design on a subject whose law is known: what ends it, what it answers, and that it resumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.simulated import SimulatedNode, Truth, record_of
from insitu.injectors.confinement import NO_CAPS
from insitu.injectors.demand import Demand
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.design.controls import count_checks
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.estimation.answer import Answer
from insitu.orchestrator.execution.orders import TrialOrder, TrialOutcome
from insitu.orchestrator.plan.blast_radius import allowed
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.radius import Radius
from insitu.orchestrator.steering.choice import answer_of, course_of, most_trials
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.steering.sequential import given_up
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, Purpose, StoredTrial, TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.injectors import nodes
from tests.told_node import Watcher

MODEL = """\
variables:
  size: {unit: B, role: parameter}
  rate: {unit: B/s, set_by: disk.read_rate}
  cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * size / rate + b * size / cores
parameters:
  b: {unit: core*s/MB}
"""
PLAN = """\
name: simulated
subject: {command: [sleep, "{size}"]}
model: model.yaml
factors:
  cores: {range: [0.2, 1.0]}
  rate: {levels: [10 MB/s, 20 MB/s, 40 MB/s]}
  size: {levels: [8 MB, 16 MB, 32 MB]}
goal: {effect: cores -> runtime, relative_half_width: 0.1}
design: {kind: sequential, seed: 3}
budget: {trials: 60}
"""
NOISE_S = 0.15
TRUE_EFFECT_S = 0.03e-6 * 8e6 * (1 / 1.0 - 1 / 0.2)


def truth(levels: Mapping[str, float], rng: np.random.Generator, noise_s: float = NOISE_S) -> dict[str, float]:
    work_s = 0.1 + levels["size"] / levels["rate"] + 0.03e-6 * levels["size"] / levels["cores"]
    return {"wall_time": work_s + rng.normal(0, noise_s)}


@dataclass(frozen=True)
class Ended:
    outcome: Outcome
    plan: Plan
    blueprint: Blueprint
    trials: tuple[StoredTrial, ...]

    @property
    def answer(self) -> Answer:
        found = answer_of(self.plan, self.blueprint, self.trials)
        assert found is not None
        return found


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Execute a plan on a simulated subject, with the real loop and a real store."""

    def execute(
        plan: str = PLAN, model: str = MODEL, truth: Truth = truth, kind: type[SimulatedNode] = SimulatedNode
    ) -> Ended:
        loaded, blueprint = experiment.read(plans.write(tmp_path / "plan", plan, model))
        node = kind(blueprint.variables, truth, np.random.default_rng(11))
        with RunStore.create(tmp_path / "run", loaded.plan_source, loaded.model_source, {}) as store:
            outcome = loop.execute(prepared(loaded, blueprint), store, node, Watcher(), node.clock, node.pause)  # type: ignore[arg-type]
            return Ended(outcome, loaded, blueprint, store.trials())

    return execute


def prepared(plan: Plan, blueprint: Blueprint) -> experiment.Experiment:
    radius = Radius(allowed(plan.blast_radius, None), NO_CAPS, Demand())
    return experiment.Experiment(plan, blueprint, (), (), most_trials(plan, 0), radius, nodes.node())


def with_goal(goal: str, more: str = "") -> str:
    return PLAN.replace("{effect: cores -> runtime, relative_half_width: 0.1}", goal) + more


def test_it_ends_when_the_goal_is_reached_with_fewer_trials_than_all_combinations(run: Run) -> None:
    ended = run()
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    (effect,) = ended.answer.parts
    assert effect.low < TRUE_EFFECT_S < effect.high
    assert effect.relative_half_width <= 0.1
    assert len(ended.trials) < 5 * 3 * 3
    assert ended.outcome.text.startswith("known to ± ")


def test_batches_are_blocks_and_one_trial_in_seven_is_a_check(run: Run) -> None:
    ended = run(with_goal("{effect: cores -> runtime, relative_half_width: 0.03}"))
    blocks = [trial.planned.block for trial in ended.trials]
    assert blocks == sorted(blocks)
    assert set(blocks) == set(range(1, max(blocks) + 1))
    at_rest = [trial for trial in ended.trials if trial.planned.baseline]
    assert 1 <= len(at_rest) <= 0.2 * len(ended.trials)
    purposes = [trial.planned.purpose for trial in ended.trials]
    checks = [purpose for purpose in purposes if purpose is not Purpose.INFORMING]
    assert len(checks) == count_checks(len(purposes))
    assert set(checks) == {Purpose.CONTROL, Purpose.REPLICATE, Purpose.CENTRE}
    assert all(one.planned.baseline for one in ended.trials if one.planned.purpose is Purpose.CONTROL)


def test_the_course_ends_with_the_answer_and_has_the_looks_that_ended_it(run: Run) -> None:
    ended = run(with_goal("{effect: cores -> runtime, relative_half_width: 0.03}"))
    course = course_of(ended.plan, ended.blueprint, ended.trials)
    assert len(course) == max(trial.planned.block for trial in ended.trials)
    assert course[-1].answer == ended.answer
    assert course[-1].trials == len(ended.trials)
    assert all(max(look.half_widths) > 0.03 for look in course[:-1])
    waiting = [*ended.trials[:-1], StoredTrial(ended.trials[-1].planned, TrialState.PLANNED)]
    assert course_of(ended.plan, ended.blueprint, waiting) == course[:-1]


def test_the_budget_of_trials(run: Run) -> None:
    plan = with_goal("{effect: cores -> runtime, relative_half_width: 0.001}").replace("trials: 60", "trials: 17")
    ended = run(plan)
    assert ended.outcome.ending is Ending.BUDGET
    assert len(ended.trials) == 17
    assert "the goal asks for ± 0.1 %" in ended.outcome.text
    assert "larger `budget`" in ended.outcome.next_step


def test_the_budget_of_time(run: Run) -> None:
    plan = with_goal("{effect: cores -> runtime, relative_half_width: 0.001}").replace("trials: 60", "time: 40 s")
    ended = run(plan)
    assert ended.outcome.ending is Ending.BUDGET
    assert "the budget of time is used up" in ended.outcome.text
    durations = [trial.record.duration_s for trial in ended.trials if trial.record is not None]
    assert sum(durations) > 40
    assert sum(durations[:-1]) <= 40


def test_a_law_that_does_not_hold_is_rejected(run: Run) -> None:
    def bent(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        missing_s = 1.2 / levels["cores"] ** 2 * (levels["size"] / 3.2e7) ** 2
        return {"wall_time": truth(levels, rng)["wall_time"] + missing_s}

    ended = run(with_goal("{effect: cores -> runtime, relative_half_width: 0.02}"), truth=bent)
    assert ended.outcome.ending is Ending.MODEL_REJECTED, ended.outcome
    assert "the law misses the means of replicates" in ended.outcome.text
    assert ended.outcome.next_step


class MissesAll(SimulatedNode):
    """No trial holds the cores that it is asked for."""

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        levels = tuple(
            replace(level, verdict=LevelVerdict.MISSED) if level.variable == "cores" else level
            for level in outcome.record.levels
        )
        record = replace(outcome.record, levels=levels, state=TrialState.INVALID, reasons=("cores missed",))
        return replace(outcome, record=record)


class Beset(SimulatedNode):
    """Others disturb every trial, or all but those that come late."""

    quiet_from = math.inf

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        if order.planned.block >= self.quiet_from:
            return outcome
        record = replace(outcome.record, state=TrialState.INVALID, reasons=("others computed",))
        return replace(outcome, record=record)


def test_a_budget_that_disturbed_trials_used_up(run: Run) -> None:
    ended = run(PLAN.replace("trials: 60", "trials: 8"), kind=Beset)
    assert ended.outcome.ending is Ending.BUDGET
    assert ended.outcome.next_step.startswith("others disturbed 8 of 8 trials: run the plan again when")


def test_a_check_that_does_not_come_out_is_made_up_for(run: Run) -> None:
    class Restless(SimulatedNode):
        """The first trial without any intervention is disturbed."""

        def run_trial(self, order: TrialOrder) -> TrialOutcome:
            outcome = super().run_trial(order)
            if not order.planned.baseline or order.planned.block > 1:
                return outcome
            record = replace(outcome.record, state=TrialState.INVALID, reasons=("others computed",))
            return replace(outcome, record=record)

    ended = run(kind=Restless)
    controls = [trial for trial in ended.trials if trial.planned.purpose is Purpose.CONTROL]
    assert [trial.state for trial in controls] == [TrialState.INVALID, TrialState.VALID]
    assert [trial.planned.block for trial in controls] == [1, 2]


def test_trials_that_never_come_out_stall_it(run: Run) -> None:
    ended = run(kind=MissesAll)
    assert ended.outcome.ending is Ending.STALLED
    assert ended.outcome.text == "no trial of the last 3 batches could be fitted"


def test_others_that_disturb_all_trials_stall_it_later(run: Run) -> None:
    ended = run(with_goal("{effect: cores -> runtime, relative_half_width: 0.1}").replace("60", "600"), kind=Beset)
    assert ended.outcome.ending is Ending.STALLED
    assert ended.outcome.text == "no trial of the last 9 batches could be fitted"


def test_others_that_go_away_in_time_do_not_stall_it(run: Run) -> None:
    class LeftAlone(Beset):
        quiet_from = 5

    ended = run(
        with_goal("{effect: cores -> runtime, relative_half_width: 0.1}").replace("60", "600"), kind=LeftAlone
    )
    assert ended.outcome.ending is Ending.REACHED, ended.outcome


@pytest.mark.parametrize(
    ("goal", "known"),
    [
        ("{prediction: runtime, at: {cores: 0.5, rate: 20 MB/s, size: 16 MB}, relative_half_width: 0.05}", [1.86]),
        (
            "{prediction: runtime, at: [{cores: 0.2, rate: 10 MB/s, size: 8 MB}, "
            "{cores: 1.0, rate: 40 MB/s, size: 32 MB}], relative_half_width: 0.1}",
            [2.1, 1.86],
        ),
        ("{parameters: runtime, relative_half_width: 0.5}", [0.1, 1.0, 0.03]),
        ("{causes: runtime, relative_half_width: 0.2}", [-1.92, -1.2, 2.4]),
    ],
)
def test_every_kind_of_goal_is_reached(run: Run, goal: str, known: list[float]) -> None:
    ended = run(with_goal(goal), truth=partial(truth, noise_s=0.02))
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    parts = ended.answer.parts
    assert all(part.low < value < part.high for part, value in zip(parts, known, strict=True)), parts
    assert max(part.relative_half_width for part in parts) <= float(goal.rpartition(": ")[2].rstrip("}"))


def test_a_run_that_is_killed_anywhere_goes_on_as_it_would_have(run: Run, tmp_path: Path) -> None:
    """The trials of a run that stops after each trial and is opened again are those of one that does not."""
    whole = run()
    node = SimulatedNode(whole.blueprint.variables, truth, np.random.default_rng(11))

    class Killed(Exception):
        pass

    class Fragile(Watcher):
        def ended(self, record: object, ledger: object) -> None:
            raise Killed

    with RunStore.create(tmp_path / "again", whole.plan.plan_source, whole.plan.model_source, {}) as store:
        outcome: Outcome | None = None
        while outcome is None:
            try:
                outcome = loop.execute(
                    prepared(whole.plan, whole.blueprint),
                    store,
                    node,  # type: ignore[arg-type]
                    Fragile(),
                    node.clock,
                    node.pause,
                )
            except Killed:
                continue
        assert store.trials() == whole.trials
    assert outcome == whole.outcome


def test_a_level_that_is_never_held_is_given_up_and_planned_around(run: Run) -> None:
    class CannotSlow(SimulatedNode):
        def run_trial(self, order: TrialOrder) -> TrialOutcome:
            outcome = super().run_trial(order)
            levels = tuple(_missed(level) for level in outcome.record.levels)
            if levels == outcome.record.levels:
                return outcome
            record = replace(outcome.record, levels=levels, state=TrialState.INVALID, reasons=("cores missed",))
            return replace(outcome, record=record)

    ended = run(kind=CannotSlow)
    assert given_up(ended.trials) == {"cores": frozenset({0.2})}
    asked = [trial.planned.assignment.as_dict()["cores"] for trial in ended.trials]
    assert 3 <= asked.count(0.2) <= 8
    assert ended.outcome.ending is Ending.REACHED, ended.outcome


def _missed(level: LevelRecord) -> LevelRecord:
    if level.variable == "cores" and level.requested == 0.2:
        return replace(level, achieved=0.25, verdict=LevelVerdict.MISSED)
    return level


def test_a_goal_that_no_trial_tells(run: Run) -> None:
    model = MODEL.replace("b * size / cores", "b * size / cores + d * 2 * size / cores")
    ended = run(with_goal("{parameters: runtime, relative_half_width: 0.5}"), model)
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE
    assert ended.outcome.text == "no trial that the plan allows tells b and d apart, and the goal needs them"
    assert ended.trials == ()


def test_one_number_that_no_trial_tells(run: Run) -> None:
    """At one size the trials do not tell how the time grows with it."""
    goal = "{effect: size -> runtime, between: [8 MB, 16 MB], relative_half_width: 0.5}"
    ended = run(
        with_goal(goal).replace("[8 MB, 16 MB, 32 MB]", "[8 MB]"), MODEL.replace("c + a", "c + e * size + a")
    )
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE
    assert ended.outcome.text == "no trial that the plan allows tells c and e apart, and the goal needs them"
    assert ended.trials == ()


def test_a_number_that_only_a_trial_at_rest_tells_is_within_reach(run: Run) -> None:
    goal = "{effect: cores -> runtime, between: [0.4, 0.8], relative_half_width: 0.5}"
    ended = run(with_goal(goal).replace("{range: [0.2, 1.0]}", "{levels: [0.4]}"))
    assert ended.outcome.ending is not Ending.UNIDENTIFIABLE, ended.outcome
    assert ended.trials


@pytest.mark.parametrize("singular", [True, False])
def test_a_law_on_the_way_that_no_trial_tells_ends_at_the_first_look(run: Run, singular: bool) -> None:
    """The goal needs what w and z make together, but a law with both cannot be fitted."""
    model = MODEL.replace("b * size / cores", "b * work / cores").replace("  b: {unit: core*s/MB}\n", "")
    model = model.replace("parameters:\n", "").replace("laws:\n", "laws:\n  work: k + w * size + z * size\n")
    model = model.replace("  runtime: {unit", "  work: {unit: s, measured_by: cpu_time}\n  runtime: {unit")

    def worked(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        work_s = 0.1 + 0.03e-6 * levels["size"] + rng.normal(0, 0.01)
        return {"cpu_time": work_s, "wall_time": work_s / levels["cores"] + rng.normal(0, NOISE_S)}

    ended = run(model=model if singular else model.replace(" + z * size", ""), truth=worked)
    if not singular:
        assert ended.outcome.ending is Ending.REACHED, ended.outcome
        return
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE, ended.outcome
    assert ended.outcome.text.startswith(
        "no trial that the plan allows tells w and z apart, and a law that runtime"
    )
    assert {trial.planned.block for trial in ended.trials} == {1}


def test_a_number_that_depends_on_nothing_at_the_machines_levels_ends_at_the_first_look(run: Run) -> None:
    """Before the run nobody knows where the machine leaves the rate; then it turns out to be without a limit."""
    plan = with_goal("{effect: cores -> runtime, relative_half_width: 0.5}")
    plan = plan.replace("[10 MB/s, 20 MB/s, 40 MB/s]", "[unlimited]")
    model = MODEL.partition("parameters:")[0]
    ended = run(plan, model.replace("a * size / rate + b * size / cores", "b * size / cores / rate"))
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE, ended.outcome
    assert "what the goal asks of runtime depends on no parameter" in ended.outcome.text
    assert {trial.planned.block for trial in ended.trials} == {1}


def test_what_is_missing_in_a_plan_is_said(tmp_path: Path) -> None:
    text = PLAN.replace("goal: {effect: cores -> runtime, relative_half_width: 0.1}\n", "")
    text = text.replace("budget: {trials: 60}\n", "")
    with pytest.raises(FaultyFile) as caught:
        experiment.read(plans.write(tmp_path, text, MODEL))
    said = str(caught.value)
    assert "a sequential design needs a goal" in said
    assert "a sequential design needs a budget" in said


def test_a_goal_with_a_precision_and_nothing_else_is_sequential(tmp_path: Path) -> None:
    plan, _ = experiment.read(
        plans.write(tmp_path, PLAN.replace("design: {kind: sequential, seed: 3}\n", ""), MODEL)
    )
    assert plan.design.kind == "sequential"
    assert len(plan.factors[0].levels) == 5


def test_records_of_a_simulated_node_are_what_the_loop_stores(run: Run) -> None:
    ended = run()
    first = ended.trials[0]
    assert first.record is not None
    again = record_of(first.planned, ended.blueprint.variables, first.record.measurements)
    assert again.levels == first.record.levels


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_trials_without_a_number_for_the_outcome_do_not_use_up_the_budget(run: Run, value: float) -> None:
    ended = run(truth=lambda levels, rng: {"wall_time": value})
    assert ended.outcome.ending is Ending.STALLED
    assert ended.outcome.text == "no trial of the last 3 batches could be fitted"
    assert len(ended.trials) < 60


@pytest.mark.parametrize("goal", ["effect: cores -> runtime", "prediction: runtime, at: {size: 12 MB}"])
def test_an_outcome_that_is_always_zero(run: Run, goal: str) -> None:
    ended = run(PLAN.replace("effect: cores -> runtime", goal), truth=lambda levels, rng: {"wall_time": 0.0})
    assert ended.outcome.ending is Ending.BUDGET
    assert "not known yet" in ended.outcome.text
