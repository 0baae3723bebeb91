"""Which trials are fitted, and why others are not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.data import achieved_levels, gather
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.law_kinds import Link, Noise
from insitu.orchestrator.plan.types import Category, Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict
from tests.estimation.made import Y, made, trials_of
from tests.standins import exact, trial_of

LINE = made("c + a * x")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(math.nan, "y is not a number"), (math.inf, "y is infinite"), (-math.inf, "y is infinite")],
)
def test_a_measurement_that_is_no_number_is_named_by_its_trial(outcome: float, reason: str) -> None:
    fit = fit_law(LINE.law, trials_of({"x": [1, 2, 3, 4]}, [1.0, 2.1, outcome, 3.9]), variables=LINE.variables)
    assert [(one.trial, one.reason) for one in fit.skipped] == [(3, reason)]
    finding = fit.finding(Check.SKIPPED)
    assert finding is not None
    assert finding.notable
    assert finding.sentence == f"Trial 3 ({reason}) was valid, but could not be fitted."
    assert fit.n == 3


def test_when_none_is_left_the_first_reason_is_in_the_hint() -> None:
    with pytest.raises(NotIdentified, match="0 of 2 valid trials can be fitted") as caught:
        fit_law(LINE.law, trials_of({"x": [1, 2]}, [math.nan, math.inf]), variables=LINE.variables)
    assert "such as trial 1: y is not a number" in str(caught.value.hint)


def test_a_measured_cause_must_be_a_number_too() -> None:
    variables = {"m": Variable("m", "", Role.MEASURED, "m"), "y": Y}
    law = replace(made("c + a * m", ("m",)).law)
    trials = [
        trial_of(number, (), {"m": m, "y": 1.0})
        for number, m in enumerate([1.0, math.nan, math.inf, 2.0], start=1)
    ]
    data = gather(law, trials, variables)
    assert [(one.trial, one.reason) for one in data.skipped] == [(2, "m is not a number"), (3, "m is infinite")]
    assert data.numbers == (1, 4)


@pytest.mark.parametrize("noise", [Noise.GAMMA, Noise.LOGNORMAL])
def test_relative_noise_allows_for_positive_outcomes_alone(noise: Noise) -> None:
    law = made("c + a * x", noise=noise)
    data = gather(law.law, trials_of({"x": [1, 2, 3]}, [1.0, 0.0, -2.0]), law.variables)
    assert [one.trial for one in data.skipped] == [2, 3]
    assert data.skipped[0].reason == f"y is 0, and {noise} noise allows for nothing but positive values"


def test_a_level_at_which_the_law_is_not_finite_is_skipped_whatever_the_law() -> None:
    for text, link in (("c + a / x", Link.IDENTITY), ("c + exp(k / x)", Link.IDENTITY), ("c + a / x", Link.LOG)):
        law = made(text, link=link)
        data = gather(law.law, trials_of({"x": [1, 0, 3]}, [1.0, 1.0, 1.0]), law.variables)
        assert [(one.trial, one.reason) for one in data.skipped] == [(2, "the law is not finite at its levels")]


def test_unlimited_is_a_level_and_no_fault() -> None:
    law = made("c + a / x")
    data = gather(law.law, trials_of({"x": [1, math.inf, 3]}, [1.0, 1.0, 1.0]), law.variables)
    assert data.skipped == ()
    assert data.columns["x"].tolist() == [1, math.inf, 3]


def test_nodes_days_blocks_and_order_are_told_apart() -> None:
    trials = trials_of(
        {"x": [1, 2, 3, 4]}, [1.0, 2, 3, 4], nodes=list("abab"), days=[0, 0, 1, 1], blocks=[1, 1, 2, 2]
    )
    assert trials[0].record is not None
    late = replace(trials[0], record=replace(trials[0].record, started_at=2e9))
    data = gather(LINE.law, [late, *trials[1:]], LINE.variables)
    assert data.nodes.tolist() == [0, 1, 0, 1]
    assert data.days.tolist() == [0, 1, 2, 2]
    assert data.blocks.tolist() == [0, 0, 1, 1]
    assert data.order.tolist() == [3, 0, 1, 2]


def test_a_node_gives_its_category() -> None:
    kind = Variable(
        "kind", "", Role.MEASURED, "node", categories=(Category("large", ("a", "b")), Category("small", ("c",)))
    )
    law = made("c + a * x")
    trials = trials_of({"x": [1, 2, 3]}, [1.0, 2, 3], nodes=["c", "a", "z"])
    found = [achieved_levels(trial, {**law.variables, "kind": kind}).get("kind") for trial in trials]
    assert found == [1.0, 0.0, None]


def test_what_is_set_informs_every_law_but_its_own() -> None:
    """The truncated factorisation: m leaves its law where it was set, and still acts on y."""
    variables = {
        "x": Variable("x", "", Role.PARAMETER),
        "m": Variable("m", "", Role.SET, "cpu.cores"),
        "y": Y,
    }
    free = [
        trial_of(
            n, (exact("x", x), LevelRecord("m", math.inf, 2 * x, 0, 0, LevelVerdict.UNSET, "none", "")), {"y": x}
        )
        for n, x in enumerate([1.0, 2.0, 3.0], start=1)
    ]
    held = [
        trial_of(n, (exact("x", 1.0), LevelRecord("m", 9.0, 9.0, 1, 0, LevelVerdict.HELD, "k", "")), {"y": 9.0})
        for n in (4, 5)
    ]
    of_m = replace(made("c + a * x").law, variable="m")
    of_y = made("d + b * m", ("m",)).law
    assert gather(of_m, [*free, *held], variables).numbers == (1, 2, 3)
    assert gather(of_y, [*free, *held], variables).numbers == (1, 2, 3, 4, 5)


def test_a_law_without_parents_has_as_many_rows_as_trials() -> None:
    law = made("c", ())
    fit = fit_law(law.law, trials_of({"x": [1, 2, 3]}, [1.0, 2.0, 3.0]), variables=law.variables)
    assert fit.values == pytest.approx([2])
    assert fit.sigma == pytest.approx(np.std([1, 2, 3], ddof=1))
