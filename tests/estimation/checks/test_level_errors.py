"""What errors of the levels do to the estimates, against simulated ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.checks.level_errors import half_widths, level_errors
from insitu.orchestrator.estimation.fitting.data import gather
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.solution import Task
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Link, Noise
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial
from tests.estimation.made import Made, made, trials_of

X = np.tile([1.0, 2.0, 3.0, 4.0], 50)


@pytest.mark.parametrize(
    ("law", "true", "close"),
    [
        (made("c + a * x"), [2.0, 3.0], 0.1),
        (made("c + a / x"), [2.0, 3.0], 0.3),
        (made("c + a * x", link=Link.LOG, noise=Noise.GAMMA), [0.1, 0.3], 0.2),
        (made("c + a * (1 - exp(-k * x))", starts={"k": 0.5}), [1.0, 4.0, 0.5], 0.6),
    ],
)
def test_the_shift_is_what_simulated_errors_cause(law: Made, true: list[float], close: float) -> None:
    """To first order: a law that is curved in the level is shifted by its curvature as well."""
    rng = np.random.default_rng(1)
    half = 0.25
    parameters = np.array(true)
    exact = law.law.mean(parameters, {"x": X})
    shifts = []
    for _ in range(40):
        read = X + rng.uniform(-half, half, len(X))  # what the samples say of a level that was X
        shifts.append(solve(law.task({"x": read}, exact)).values - parameters)
    shifts_seen = np.mean(shifts, axis=0)
    task = law.task({"x": X}, exact, uncertainty={"x": half}, verdict=LevelVerdict.HELD)
    found = level_errors(task, solve(law.task({"x": X}, exact)))
    assert found.shift == pytest.approx(shifts_seen, rel=close)
    assert found.widths["x"] == pytest.approx(half / np.sqrt(np.mean(X**2)))


def test_it_is_the_attenuation_of_the_textbook() -> None:
    task = made("c + a * x").task({"x": X}, 2 + 3 * X, uncertainty={"x": 0.3}, verdict=LevelVerdict.HELD)
    found = level_errors(task, solve(task))
    error, spread = 0.3**2 / 3, X.var()
    assert found.shift[1] / 3 == pytest.approx(-error / spread)


@pytest.mark.parametrize(("half", "notable"), [(0.01, False), (0.5, True)])
def test_it_is_told_whether_they_matter(half: float, notable: bool) -> None:
    law = made("c + a * x")
    observed = 2 + 3 * X + np.random.default_rng(2).normal(0, 0.5, len(X))
    trials = trials_of({"x": X}, observed, uncertainty={"x": half}, verdict=LevelVerdict.HELD)
    finding = fit_law(law.law, trials, variables=law.variables).finding(Check.LEVEL_ERRORS)
    assert finding is not None
    assert finding.notable is notable
    assert ("which does not matter" in finding.sentence) is not notable
    assert "too small" in finding.sentence or finding.parameters == ("c",)


def uncertain(trials: tuple[StoredTrial, ...], halves: Mapping[int, float]) -> tuple[StoredTrial, ...]:
    """The same, but for the half widths of some levels' errors, by the trial's number."""
    changed = []
    for trial in trials:
        assert trial.record is not None
        (level,) = trial.record.levels
        level = replace(level, uncertainty=halves.get(trial.planned.trial, level.uncertainty))
        changed.append(replace(trial, record=replace(trial.record, levels=(level,))))
    return tuple(changed)


def test_the_width_in_the_sentence_is_that_of_the_errors_that_shift() -> None:
    """A few wide errors among many narrow ones shift the estimates: a median would not show them."""
    law = made("c + a * x")
    observed = 2 + 3 * X + np.random.default_rng(2).normal(0, 0.5, len(X))
    trials = trials_of({"x": X}, observed, uncertainty={"x": 0.01}, verdict=LevelVerdict.HELD)
    wide = uncertain(trials, dict.fromkeys(range(4, 164, 4), 1.9))
    data = gather(law.law, wide, law.variables)
    task = Task(law.law, data, law.variables)
    found = level_errors(task, solve(task))
    squares = half_widths(data, "x") ** 2
    assert found.widths["x"] == pytest.approx(np.sqrt(squares.mean() / np.mean(X**2)))
    assert found.shift[1] / solve(task).values[1] == pytest.approx(-squares.mean() / 3 / X.var())
    assert found.unknown == {}


@pytest.mark.parametrize("half", [1.6, 22.5, 1e9])
def test_levels_that_a_trial_does_not_tell_are_named_and_not_counted(half: float) -> None:
    law = made("c + a / x")
    observed = 2 + 3 / X + np.random.default_rng(2).normal(0, 0.5, len(X))
    trials = trials_of({"x": X}, observed, uncertainty={"x": 0.01}, verdict=LevelVerdict.HELD)
    plain = fit_law(law.law, trials, variables=law.variables).finding(Check.LEVEL_ERRORS)
    found = fit_law(law.law, uncertain(trials, {3: half, 7: half}), variables=law.variables).finding(
        Check.LEVEL_ERRORS
    )
    assert plain is not None
    assert found is not None
    assert (plain.notable, found.notable) == (False, True)
    assert found.trials == (3, 7)
    assert "x is as good as unknown in trials 3 and 7" in found.sentence
    assert found.sentence.partition(",")[0] == plain.sentence.partition(",")[0]  # in brackets what the others tell


def test_nothing_but_unknown_levels_has_no_figure() -> None:
    law = made("c + a / x")
    observed = 2 + 3 / X + np.random.default_rng(2).normal(0, 0.5, len(X))
    trials = trials_of({"x": X}, observed, uncertainty={"x": 30.0}, verdict=LevelVerdict.HELD)
    found = fit_law(law.law, trials, variables=law.variables).finding(Check.LEVEL_ERRORS)
    assert found is not None
    assert found.notable
    assert "%" not in found.sentence
    assert len(found.trials) == len(X)


@pytest.mark.parametrize("half", [0.01, 0.1, 0.3, 0.5])
def test_no_shift_is_given_as_more_than_the_parameter_is(half: float) -> None:
    law = made("c + a / x")
    levels = np.tile([1.0, 1.02], 50)
    observed = 2 + 3 / levels + np.random.default_rng(2).normal(0, 1e-6, len(levels))
    trials = trials_of({"x": levels}, observed, uncertainty={"x": half}, verdict=LevelVerdict.HELD)
    found = fit_law(law.law, trials, variables=law.variables).finding(Check.LEVEL_ERRORS)
    assert found is not None
    assert all(float(figure) <= 100 for figure in re.findall(r"([\d.e+]+) %", found.sentence))
    assert "many times its standard error" in found.sentence
    assert ("as much as it is, or more" in found.sentence) is (half > 0.05)


def test_exact_levels_have_no_finding() -> None:
    law = made("c + a * x")
    assert (
        fit_law(law.law, trials_of({"x": X}, 2 + X**2), variables=law.variables).finding(Check.LEVEL_ERRORS)
        is None
    )


def test_an_unlimited_level_has_no_error() -> None:
    law = made("c + a / x")
    trials = trials_of({"x": [1.0, 2.0, np.inf]}, [1.0, 2.0, 3.0], uncertainty={"x": 0.1})
    record = trials[0].record
    assert record is not None
    odd = replace(trials[0], record=replace(record, levels=(replace(record.levels[0], uncertainty=np.nan),)))
    task = law.task({"x": [1.0]}, [1.0])
    assert half_widths(gather(law.law, [odd, *trials[1:]], task.variables), "x").tolist() == [0.0, 0.1, 0.0]
