"""Optimal designs, fractions and the Latin hypercube, asked for by a plan."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.design.controls import check_of
from insitu.orchestrator.design.kinds.fractions import Fractional
from insitu.orchestrator.design.kinds.latin import LatinHypercube
from insitu.orchestrator.design.kinds.optimal import COptimal, DOptimal
from insitu.orchestrator.design.layout import informing_trials, lay_out, with_checks
from insitu.orchestrator.design.protocol import Design, Planned, Request
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Budget, DesignSpec, Factor, LawText, Plan, Role, Span, Variable
from insitu.orchestrator.steering.choice import before_any_trial
from insitu.orchestrator.store.records import PlannedTrial
from tests.contract.design_contract import example_plan, request_for


def planned(design: Design, plan: Plan, seed: int = 7) -> Planned:
    return design.plan_trials(request_for(plan), np.random.default_rng(seed))


def with_design(plan: Plan, **fields: object) -> Plan:
    return replace(plan, design=replace(plan.design, **fields))  # type: ignore[arg-type]


def of(plan: Plan, name: str, **fields: object) -> Plan:
    """The plan with something else about one factor."""
    factors = [replace(one, **fields) if one.variable == name else one for one in plan.factors]  # type: ignore[arg-type]
    return replace(plan, factors=tuple(factors))


def with_law(plan: Plan, text: str) -> Plan:
    return replace(plan, model=replace(plan.model, laws=(LawText("runtime", text, 1, 1),)))


def changes(trials: tuple[PlannedTrial, ...], name: str) -> int:
    levels = [trial.assignment.as_dict()[name] for trial in trials]
    return sum(one != other for one, other in itertools.pairwise(levels))


def test_the_design_says_how_many_trials_inform_and_checks_come_on_top() -> None:
    plan = with_design(example_plan(), trials=12)
    assert informing_trials(plan, 99) == 12
    assert len(planned(DOptimal(), plan).trials) == with_checks(12) == 14


def test_a_tenth_of_the_budget_is_left_for_replacements() -> None:
    plan = replace(example_plan(), budget=Budget(trials=40))
    trials = planned(DOptimal(), plan).trials
    assert 34 <= len(trials) <= 36
    assert informing_trials(plan, 99) == 36 - sum(check_of(number) is not None for number in range(1, 37))


def test_without_either_it_is_twice_the_parameters_and_four_more() -> None:
    assert len(planned(DOptimal(), example_plan()).trials) == with_checks(2 * 3 + 4)
    assert len(planned(LatinHypercube(), example_plan()).trials) == with_checks(10 * 3)


def test_more_trials_than_the_budget_are_refused() -> None:
    plan = replace(with_design(example_plan(), trials=12), budget=Budget(trials=13))
    with pytest.raises(InputError, match="the design has 14 trials, but the budget allows 13") as caught:
        planned(DOptimal(), plan)
    assert caught.value.hint == (
        "12 that inform and 2 that check the law: raise budget.trials to 14, or lower design.trials"
    )


def test_a_tenth_to_a_fifth_are_checks_of_every_sort() -> None:
    plan = with_design(example_plan(), trials=50)
    trials = planned(DOptimal(), plan).trials
    checks = [trial for trial in trials if check_of(trial.trial) is not None]
    assert 0.1 <= len(checks) / len(trials) <= 0.2
    assert checks[0].baseline
    others = [trial.assignment for trial in trials if check_of(trial.trial) is None]
    assert checks[1].assignment in others
    centre = space_of(plan).assignment(space_of(plan).centre())
    assert checks[2].assignment == centre
    assert checks[0].assignment.as_dict()["rate"] == math.inf


def test_blocks_are_of_one_size_and_compare_within() -> None:
    """Of two levels that are compared, each block has both: what a block adds to all its trials drops out."""
    plan = of(of(example_plan(), "rate", levels=(math.inf,)), "size", levels=(4e6,))
    plan = with_law(with_design(plan, trials=12, blocks=3), "c + b * size / cores")
    trials = planned(DOptimal(), plan).trials
    sizes = Counter(trial.block for trial in trials if check_of(trial.trial) is None)
    assert sizes == {1: 4, 2: 4, 3: 4}
    for block in sizes:
        cores = Counter(
            trial.assignment.as_dict()["cores"]
            for trial in trials
            if trial.block == block and check_of(trial.trial) is None
        )
        assert cores == {0.5: 2, 1.0: 2}


def test_more_blocks_than_trials_are_refused() -> None:
    with pytest.raises(InputError, match="4 trials do not fill 5 blocks"):
        planned(DOptimal(), with_design(example_plan(), trials=4, blocks=5))


@pytest.mark.parametrize(
    "design", [DOptimal(), LatinHypercube(), Fractional()], ids=lambda one: type(one).__name__
)
def test_what_is_hard_to_change_changes_seldom(design: Design) -> None:
    easy = with_law(example_plan(), "c + a * size + b * size / cores + d / rate")
    if isinstance(design, LatinHypercube | DOptimal):
        easy = with_design(easy, trials=24)
    hard = of(easy, "size", hard_to_change=True)
    often, seldom = (changes(planned(design, plan).trials, "size") for plan in (easy, hard))
    assert 0 < seldom <= len({trial.block for trial in planned(design, hard).trials}) - 1
    assert seldom < often / 2


def test_groups_of_a_split_plot_are_as_many_as_asked_for() -> None:
    plan = of(with_design(example_plan(), trials=18, blocks=6), "size", hard_to_change=True)
    trials = planned(DOptimal(), plan).trials
    assert len({trial.block for trial in trials}) == 6


def test_a_design_for_one_effect_leaves_no_parameter_untold() -> None:
    """The effect of the processors needs b alone; without the others a fit would find nothing."""
    made = planned(COptimal(), with_design(example_plan(), trials=12))
    assert "one of them is there so that every parameter of the law can be told" in made.told
    levels = [trial.assignment.as_dict() for trial in made.trials if check_of(trial.trial) is None]
    rows = np.array([(1, one["size"] / one["rate"], one["size"] / one["cores"] / 1e6) for one in levels])
    assert np.linalg.matrix_rank(rows) == 3


def test_nor_where_trials_for_some_parameters_push_out_those_for_others() -> None:
    plan = with_law(example_plan(), "c + a * size / rate + b * size / cores + d * size + e / rate + f / cores")
    made = planned(COptimal(), with_design(plan, trials=12))
    request = request_for(plan)
    assert request.situation.separating([trial.assignment for trial in made.trials]) == ()
    assert any("are there so that every parameter of the law can be told" in one for one in made.told)


def test_it_is_said_where_the_best_design_depends_on_what_is_to_be_found() -> None:
    curved = with_law(example_plan(), "c + b / (cores + d)")
    told = planned(DOptimal(), curved).told
    assert any("is not linear in its parameters, so the design is the best one if" in one for one in told)
    assert any("where the model starts: c = 1 s" in one for one in told)
    assert not any("is the best one if" in one for one in planned(DOptimal(), example_plan()).told)


def test_a_budget_of_time_buys_what_tells_most_for_its_price() -> None:
    plan = replace(example_plan(), budget=Budget(time_s=100.0))

    def look() -> Situation:
        before = before_any_trial(plan, build_blueprint(plan.model))
        return replace(before, seconds=before.space.levels[:, 2] / 1e6)  # a second per megabyte

    made = DOptimal().plan_trials(Request(plan, look), np.random.default_rng(7))
    sizes = [trial.assignment.as_dict()["size"] for trial in made.trials]
    assert sum(sizes) / 1e6 <= 100
    assert sum(sizes) / 1e6 > 70
    assert any("of the budget's 100 s" in one for one in made.told)
    poor = replace(plan, budget=Budget(time_s=2.0))
    request = Request(poor, lambda: replace(look()))
    with pytest.raises(InputError, match="the budget of 2 s is too short: a trial takes 4 s or more"):
        DOptimal().plan_trials(request, np.random.default_rng(7))


def test_a_law_of_what_is_only_measured_has_no_best_design() -> None:
    plan = with_law(example_plan(), "c + a * size / rate + b * size / cores + d * pressure")
    variables = {**plan.model.variables, "pressure": Variable("pressure", "", Role.MEASURED, "cpu_pressure")}
    plan = replace(plan, model=replace(plan.model, variables=variables))
    with pytest.raises(InputError, match="pressure has no law and is not a factor"):
        planned(DOptimal(), plan)
    assert planned(LatinHypercube(), plan).trials


def test_a_latin_hypercube_fills_ranges_and_balances_lists() -> None:
    plan = of(example_plan(), "cores", levels=(0.5, 1.0), span=Span(0.5, 1.0))
    plan = of(plan, "size", levels=(4e6, 8e6), span=Span(4e6, 8e6, logarithmic=True, whole=True))
    trials = [
        trial.assignment.as_dict()
        for trial in planned(LatinHypercube(), with_design(plan, trials=12)).trials
        if check_of(trial.trial) is None
    ]
    cores = sorted(one["cores"] for one in trials)
    assert cores == pytest.approx([0.5 + 0.5 * (place + 0.5) / 12 for place in range(12)])
    assert len({one["size"] for one in trials}) == 12
    assert all(one["size"].is_integer() for one in trials)
    assert set(Counter(one["rate"] for one in trials).values()) == {4}


def test_a_range_that_is_hard_to_change_has_its_points_in_a_latin_hypercube() -> None:
    plan = of(example_plan(), "cores", levels=(0.5, 0.75, 1.0), span=Span(0.5, 1.0), hard_to_change=True)
    trials = planned(LatinHypercube(), with_design(plan, trials=12)).trials
    assert {trial.assignment.as_dict()["cores"] for trial in trials} == {0.5, 0.75, 1.0}
    assert changes(trials, "cores") == 2


def test_a_fraction_of_two_levels_says_what_it_mixes() -> None:
    names = ("cores", "rate", "writes", "size")
    levels = ((0.5, 1.0), (1e6, 2e6), (1e6, 2e6), (4e6, 8e6))
    factors = tuple(Factor(name, own) for name, own in zip(names, levels, strict=True))
    plan = replace(example_plan(), factors=factors, design=DesignSpec("fractional", 2, 1))
    made = planned(Fractional(), plan)
    assert len(made.trials) == 2 * (8 + 1)
    assert made.told[0].startswith("8 of 16 combinations are run, in resolution IV")
    assert len(planned(Fractional(), with_design(plan, resolution=5)).trials) == 2 * (16 + 1)
    few = planned(Fractional(), replace(plan, factors=factors[:3], design=replace(plan.design, trials=5)))
    assert len(few.trials) == 2 * (4 + 1)


def test_a_fraction_of_other_levels_is_an_orthogonal_array() -> None:
    factors = tuple(Factor(name, (1e6, 2e6, 4e6)) for name in ("rate", "writes", "size"))
    plan = replace(example_plan(), factors=factors, design=DesignSpec("fractional", 1, 0))
    made = planned(Fractional(), plan)
    assert len(made.trials) == 9
    pairs = {(one["rate"], one["size"]) for one in (trial.assignment.as_dict() for trial in made.trials)}
    assert len(pairs) == 9
    assert "orthogonal array of 9 of 27" in made.told[0]


def test_checks_within_a_group_have_its_setting() -> None:
    plan = of(example_plan(), "size", hard_to_change=True)
    space = space_of(plan)
    groups = [[space.assignment(number)] * 9 for number in (0, 1)]  # sizes 4 and 8 MB
    trials = lay_out(groups, space, np.random.default_rng(1))
    assert [trial.trial for trial in trials] == list(range(1, len(trials) + 1))
    for trial in trials:
        assert trial.assignment.as_dict()["size"] == {1: 4e6, 2: 8e6}[trial.block]
    control = trials[3].assignment.as_dict()
    assert control["rate"] == control["cores"] == math.inf


def test_a_factor_that_cannot_be_set_leaves_its_parameter_untold_and_the_others_told() -> None:
    plan = of(with_design(example_plan(), trials=12), "rate", levels=(math.inf,), hard_to_change=True)
    made = planned(DOptimal(), plan)
    assert {trial.assignment.as_dict()["rate"] for trial in made.trials} == {math.inf}
    assert {trial.block for trial in made.trials} == {1}
    assert "as good per trial" not in made.told[0]
    rows = np.array(
        [(1, one["size"] / one["cores"] / 1e6) for one in (t.assignment.as_dict() for t in made.trials)]
    )
    assert np.linalg.matrix_rank(rows) == 2
