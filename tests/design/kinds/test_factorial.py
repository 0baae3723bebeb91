"""The randomised full factorial."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.design.kinds.factorial import Factorial, count_trials
from insitu.orchestrator.design.protocol import Request, design_names, find_design, replacement
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Budget, DesignSpec, Factor, Plan
from insitu.orchestrator.store.records import PlannedTrial
from tests.contract.design_contract import example_plan


def planned(plan: Plan, seed: int = 7) -> tuple[PlannedTrial, ...]:
    return Factorial().plan_trials(Request(plan), np.random.default_rng(seed)).trials


@given(
    levels=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    replicates=st.integers(1, 3),
    baselines=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None)
def test_every_block_holds_every_assignment_once(
    levels: list[int], replicates: int, baselines: int, seed: int
) -> None:
    names = ("cores", "rate", "size")[: len(levels)]
    factors = tuple(
        Factor(name, tuple(map(float, range(1, n + 1)))) for name, n in zip(names, levels, strict=True)
    )
    plan = replace(example_plan(), factors=factors, design=DesignSpec("factorial", replicates, baselines, seed=1))
    trials = planned(plan, seed)
    assert len(trials) == count_trials(plan) == replicates * (math.prod(levels) + baselines)
    wanted = Counter(itertools.product(*(factor.levels for factor in factors)))
    for block in range(1, replicates + 1):
        inside = [trial for trial in trials if trial.block == block]
        assert sum(trial.baseline for trial in inside) == baselines
        held = [trial.assignment.as_dict() for trial in inside if not trial.baseline]
        assert Counter(tuple(one[name] for name in names) for one in held) == wanted


def test_a_baseline_is_unlimited_with_parameters_at_their_first_level() -> None:
    baselines = [trial for trial in planned(example_plan()) if trial.baseline]
    assert len(baselines) == 6
    assert {trial.assignment.levels for trial in baselines} == {
        (("cores", math.inf), ("rate", math.inf), ("size", 4e6), ("writes", math.inf))
    }


def test_a_throttle_that_is_no_factor_is_off_in_every_trial() -> None:
    assert {trial.assignment.as_dict()["writes"] for trial in planned(example_plan())} == {math.inf}


def test_order_is_random_within_blocks_and_differs_between_them() -> None:
    trials = planned(example_plan())
    orders = {
        tuple(trial.assignment for trial in trials if trial.block == block and not trial.baseline)
        for block in (1, 2, 3)
    }
    assert len(orders) == 3


def test_each_treatment_comes_first_about_equally_often() -> None:
    plan = replace(
        example_plan(),
        factors=(Factor("cores", (0.25, 0.5, 1.0)),),
        design=DesignSpec("factorial", replicates=3000, baseline_replicates=1, seed=1),
    )
    trials = planned(plan)
    firsts = Counter(trial.assignment for trial in trials[::4])
    expected = 3000 / 4
    chi_square = sum((count - expected) ** 2 / expected for count in firsts.values())
    assert len(firsts) == 4
    assert chi_square < 16.27  # 0.999 quantile with 3 degrees of freedom; the seed is fixed


def test_more_trials_than_the_budget_is_refused_with_the_numbers() -> None:
    plan = replace(example_plan(), budget=Budget(trials=41))
    with pytest.raises(InputError) as caught:
        planned(plan)
    assert caught.value.message == "the design has 42 trials, but the budget allows 41"
    assert caught.value.hint == (
        "3 blocks of 2 x 3 x 2 assignments and 2 baseline: "
        "raise budget.trials to 42, or use fewer levels or replicates"
    )
    assert caught.value.exit_code == 2
    assert len(planned(replace(plan, budget=Budget(trials=42)))) == 42


def test_an_enormous_design_is_refused_before_it_is_made() -> None:
    factors = tuple(Factor(name, tuple(map(float, range(1, 1001)))) for name in ("cores", "rate", "size"))
    with pytest.raises(InputError, match="3000000006 trials, but a plan allows 100000"):
        planned(replace(example_plan(), factors=factors))


def test_a_replacement_repeats_the_trial_under_a_new_number() -> None:
    first = planned(example_plan())[4]
    second = replacement(first, 43)
    third = replacement(second, 44)
    assert (second.trial, second.replaces, second.block) == (43, 5, first.block)
    assert (second.assignment, second.baseline) == (first.assignment, first.baseline)
    assert (third.trial, third.replaces) == (44, 43)


@pytest.fixture
def installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution on the path that registers a design."""
    info = tmp_path / "someone_elses-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: someone-elses\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[insitu.designs]\nlatin = someone_elses:Latin\n")
    (tmp_path / "someone_elses.py").write_text(
        "class Latin:\n    def plan_trials(self, request, rng): return ()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed_plugin")
def test_a_design_is_found_by_its_entry_point() -> None:
    assert "latin" in design_names()
    assert find_design("latin").plan_trials(Request(example_plan()), np.random.default_rng(1)) == ()  # type: ignore[comparison-overlap]
    with pytest.raises(InputError, match="unknown design 'latim'") as caught:
        find_design("latim")
    assert caught.value.hint == "did you mean 'latin'?"
