"""What every design promises. The author of a design subclasses this and sets `design`.

::

    class TestMyDesign(DesignContract):
        design = MyDesign()
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.design.protocol import Design, Request
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.types import (
    Budget,
    DesignSpec,
    Factor,
    Guards,
    LawText,
    ModelText,
    Plan,
    Role,
    Subject,
    Variable,
)
from insitu.orchestrator.steering.choice import before_any_trial
from insitu.orchestrator.store.records import PlannedTrial


def example_plan() -> Plan:
    """Two throttles and a parameter at 2 x 3 x 2 levels, without a bound on the trials."""
    variables = (
        Variable("cores", "core", Role.SET, "cpu.cores"),
        Variable("rate", "B/s", Role.SET, "disk.read_rate"),
        Variable("writes", "B/s", Role.SET, "disk.write_rate"),
        Variable("size", "B", Role.PARAMETER),
        Variable("runtime", "s", Role.MEASURED, "wall_time"),
    )
    law = LawText("runtime", "c + a * size / rate + b * size / cores", 1, 1)
    return Plan(
        name="example",
        path=Path("plan.yaml"),
        subject=Subject(("true", "{size}")),
        factors=(
            Factor("cores", (0.5, 1.0)),
            Factor("rate", (1e6, 2e6, float("inf"))),
            Factor("size", (4e6, 8e6)),
        ),
        design=DesignSpec("factorial", replicates=3, baseline_replicates=2, seed=7),
        budget=Budget(),
        guards=Guards(),
        goal=EffectGoal(outcome="runtime", cause="cores"),
        model=ModelText(Path("model.yaml"), {variable.name: variable for variable in variables}, (law,)),
        plan_source="",
        model_source="",
    )


def request_for(plan: Plan) -> Request:
    """What a run asks a design for."""
    return Request(plan, partial(before_any_trial, plan, build_blueprint(plan.model)))


class DesignContract:
    design: ClassVar[Design]

    def trials(self, seed: int = 7) -> tuple[PlannedTrial, ...]:
        return self.design.plan_trials(request_for(example_plan()), np.random.default_rng(seed)).trials

    def test_it_plans_trials_numbered_from_one_in_order(self) -> None:
        trials = self.trials()
        assert trials
        assert [trial.trial for trial in trials] == list(range(1, len(trials) + 1))

    def test_an_equal_seed_gives_equal_trials(self) -> None:
        assert self.trials(7) == self.trials(7)

    def test_another_seed_gives_another_order(self) -> None:
        assert len({self.trials(seed) for seed in range(5)}) > 1

    def test_it_leaves_global_randomness_alone(self) -> None:
        before = str(np.random.get_state())  # noqa: NPY002 - the global state is what is looked at
        self.trials()
        assert str(np.random.get_state()) == before  # noqa: NPY002

    def test_every_trial_gives_every_factor_a_level_within_its_range(self) -> None:
        plan = example_plan()
        for trial in self.trials():
            levels = trial.assignment.as_dict()
            assert len(levels) == len(trial.assignment.levels)
            for factor in plan.factors:
                settable = plan.model.variables[factor.variable].role is Role.SET
                within = min(factor.levels) <= levels[factor.variable] <= max(factor.levels)
                assert within or (settable and levels[factor.variable] == float("inf"))

    def test_nothing_but_settable_variables_and_parameters_is_assigned(self) -> None:
        variables = example_plan().model.variables
        for trial in self.trials():
            assert {variables[name].role for name in trial.assignment.as_dict()} <= {Role.SET, Role.PARAMETER}

    def test_a_baseline_trial_holds_no_throttle(self) -> None:
        variables = example_plan().model.variables
        for trial in self.trials():
            if trial.baseline:
                held = [level for name, level in trial.assignment.levels if variables[name].role is Role.SET]
                assert all(level == float("inf") for level in held)

    def test_no_planned_trial_is_a_replacement(self) -> None:
        assert {trial.replaces for trial in self.trials()} == {None}

    def test_blocks_follow_each_other(self) -> None:
        blocks = [trial.block for trial in self.trials()]
        assert blocks == sorted(blocks)
        assert blocks[0] == 1

    def test_the_budget_bounds_the_trials(self) -> None:
        plan = replace(example_plan(), budget=Budget(trials=1))
        with pytest.raises(InputError) as caught:
            self.design.plan_trials(request_for(plan), np.random.default_rng(7))
        assert caught.value.hint

    def test_a_factor_that_is_hard_to_change_is_changed_between_blocks_alone(self) -> None:
        plan = example_plan()
        factors = tuple(replace(one, hard_to_change=one.variable == "size") for one in plan.factors)
        request = request_for(replace(plan, factors=factors))
        trials = self.design.plan_trials(request, np.random.default_rng(7)).trials
        sizes: dict[int, set[float]] = {}
        for trial in trials:
            sizes.setdefault(trial.block, set()).add(trial.assignment.as_dict()["size"])
        assert {len(levels) for levels in sizes.values()} == {1}
        assert set.union(*sizes.values()) <= {4e6, 8e6}
        assert len(sizes) < len(trials) / 2

    def test_what_it_tells_is_sentences(self) -> None:
        told = self.design.plan_trials(request_for(example_plan()), np.random.default_rng(7)).told
        assert all(len(one) > 15 and "\n" not in one for one in told)

    def test_the_trials_are_plain_data(self) -> None:
        assert json.loads(json.dumps([asdict(trial) for trial in self.trials()]))[0]["trial"] == 1
