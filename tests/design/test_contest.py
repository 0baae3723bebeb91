"""Trials that tell two laws apart: chosen where their fits differ, and told to be none where they never do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.target import Target, Wanted
from insitu.orchestrator.design.belief import Belief
from insitu.orchestrator.design.contest import (
    Contest,
    contest_batch_size,
    contest_out_of_reach,
    first_contest_size,
    plan_contest,
)
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.plan.types import DesignSpec
from insitu.orchestrator.store.records import Assignment
from tests.estimation.made import made

LEVELS = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9])
SPACE = Space(("x",), LEVELS[:, None], (), Assignment((("x", 5.0),)))
SPEC = DesignSpec(kind="sequential", seed=2)


def side(text: str, values: tuple[float, ...], tried: Array, noise: float = 0.1) -> Situation:
    law = made(text).law
    belief = Belief(law, np.array(values), noise, {"x": tried})
    composite = Composite("y", (law,))
    wanted = tuple(Wanted(name, "") for name in law.parameters)
    target = Target(composite, wanted, {}, np.empty((0, 0)))
    return Situation(SPACE, composite, {"y": belief}, target, assignments(tried))


def assignments(tried: Array) -> list[Assignment]:
    return [Assignment((("x", float(level)),)) for level in tried]


def contest(tried: Array, curvature: float = 0.05) -> Contest:
    """A line, and a parabola that lies on it but for its curvature."""
    line = side("b0 + b1 * x", (1.0, 2.0), tried)
    return Contest(line, side("c0 + c1 * x + c2 * x^2", (1.0, 2.0, curvature), tried))


def levels_of(found: Contest, count: int, spec: DesignSpec = SPEC) -> list[float]:
    batch = plan_contest(found, spec, count, block=3, first_number=10)
    return sorted(trial.assignment.as_dict()["x"] for trial in batch)


def test_the_first_trials_tell_the_parameters_of_both_laws() -> None:
    """Of a line alone they would be at the ends; a parabola takes a third level."""
    levels = levels_of(contest(np.array([])), 6)
    assert {1.0, 9.0} <= set(levels)
    assert any(4.0 <= level <= 6.0 for level in levels)


def test_later_ones_are_where_the_fits_differ_most() -> None:
    tried = np.array([1.0, 5, 9, 1, 5, 9, 3, 7])
    bowed = side("c0 + c1 * x + c2 * x^2", (1 + 0.05 * 9, 2 - 0.05 * 10, 0.05), tried)  # meets the line at 1 and 9
    found = Contest(side("b0 + b1 * x", (1.0, 2.0), tried), bowed)
    assert set(levels_of(found, 2)) <= {4.0, 5.0, 6.0}


def test_where_fits_agree_to_the_last_digit_the_parameters_are_told() -> None:
    tried = np.array([1.0, 5, 9, 1, 5, 9, 3, 7])
    assert {1.0, 9.0} <= set(levels_of(contest(tried, curvature=0.0), 3))


def test_one_trial_in_seven_is_a_check() -> None:
    batch = plan_contest(contest(np.array([])), SPEC, 8, block=1, first_number=1)
    assert sum(trial.baseline for trial in batch) >= 1
    assert [trial.trial for trial in batch] == list(range(1, 9))


def test_the_same_situation_gives_the_same_trials() -> None:
    tried = np.array([1.0, 5, 9, 1, 5, 9])
    again = [plan_contest(contest(tried), SPEC, 4, 2, 7) for _ in range(2)]
    assert again[0] == again[1]


def test_sizes_are_those_of_the_larger_law() -> None:
    found = contest(np.array([]))
    assert first_contest_size(found) == first_contest_size(Contest(found.rival, found.law))
    assert first_contest_size(found) > first_contest_size(Contest(found.law, found.law))
    assert contest_batch_size(found, replace(SPEC, batch=5)) == 5


@pytest.mark.parametrize("swapped", [False, True])
def test_parameters_that_no_trial_tells_apart_are_named(swapped: bool) -> None:
    mixed = side("d0 + d1 * x + d2 * 3 * x", (1, 1, 1), np.array([]))
    line = side("b0 + b1 * x", (1, 1), np.array([]))
    found = Contest(line, mixed) if swapped else Contest(mixed, line)
    assert set(contest_out_of_reach(found)) == {"d1", "d2"}
    assert contest_out_of_reach(contest(np.array([]))) == ()


def test_slow_trials_have_to_differ_more() -> None:
    tried = np.array([1.0, 5, 9, 1, 5, 9, 3, 7])
    line = side("b0 + b1 * x", (1.0, 2.0), tried)
    bent = side("c0 + c1 * x + c2 * x^2", (1.0, 2.0, 0.02), tried)
    seconds = np.where(LEVELS == 9.0, 1000.0, 1.0)
    assert 9.0 in levels_of(Contest(line, bent), 2)
    assert 9.0 not in levels_of(Contest(replace(line, seconds=seconds), bent), 2)
