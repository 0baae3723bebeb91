from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.errors import GoalNotReached, NotIdentified
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, TrialState
from insitu.orchestrator.store.states import SPOILT
from tests.standins import (
    LINE_VARIABLES,
    SORT_LAW,
    SORT_VARIABLES,
    TRUTH,
    exact,
    law_of,
    line_law,
    sort_trials,
    trial_of,
    xy_trials,
)


def test_noiseless_truth_is_found_in_base_and_reported_units() -> None:
    fit = fit_law(SORT_LAW, sort_trials(np.random.default_rng(3), noise_s=0), variables=SORT_VARIABLES)
    assert {e.name: e.base for e in fit.estimates} == pytest.approx(TRUTH, rel=1e-6)
    b = next(e for e in fit.estimates if e.name == "b")
    assert b.reported == pytest.approx(60.0)
    assert b.unit == "core*s/GB"
    assert fit.lack_of_fit is None
    assert "agree exactly" in fit.lack_of_fit_reason
    assert fit.r_squared == pytest.approx(1)


def test_a_negative_or_small_scale_keeps_intervals_ordered() -> None:
    law = replace(line_law(), parameter_scales={"b0": -1.0, "b1": 1e-6})
    fit = fit_law(law, xy_trials([1, 2, 3, 4], [1.1, 1.9, 3.2, 3.9]), variables=LINE_VARIABLES)
    for estimate in fit.estimates:
        assert estimate.reported_low < estimate.reported < estimate.reported_high
        assert estimate.reported_std_error > 0


def test_only_valid_trials_are_fitted() -> None:
    trials = list(sort_trials(np.random.default_rng(3)))
    before = fit_law(SORT_LAW, trials, variables=SORT_VARIABLES)
    spoilt = trials[0].record
    assert spoilt is not None
    for state in SPOILT:
        bad = replace(spoilt, state=state, measurements={"wall_time": 1e6})
        trials.append(replace(trials[0], state=state, record=bad))
    trials.append(replace(trials[0], state=TrialState.PLANNED, record=None))
    assert fit_law(SORT_LAW, trials, variables=SORT_VARIABLES) == before


def test_achieved_levels_count_not_requested_ones() -> None:
    trials = [
        trial_of(
            number,
            (LevelRecord("x", 100.0, x, 1.0, 0.0, LevelVerdict.HELD, "m", ""),),
            {"y": 2 * x + 1},
        )
        for number, x in enumerate([90.0, 95.0, 100.0, 110.0], start=1)
    ]
    fit = fit_law(line_law(), trials, variables=LINE_VARIABLES)
    assert [e.base for e in fit.estimates] == pytest.approx([1, 2])
    assert (fit.support[0].low, fit.support[0].high) == (90, 110)


def test_a_level_never_in_use_counts_as_requested() -> None:
    trials = [
        trial_of(
            number,
            (LevelRecord("x", x, None, 0.0, 0.0, LevelVerdict.SLACK, "m", ""),),
            {"y": 2 * x + 1},
        )
        for number, x in enumerate([1.0, 2.0, 3.0, 4.0], start=1)
    ]
    fit = fit_law(line_law(), trials, variables=LINE_VARIABLES)
    assert [e.base for e in fit.estimates] == pytest.approx([1, 2])


def test_a_variable_under_intervention_leaves_its_law() -> None:
    variables = {"x": LINE_VARIABLES["x"], "y": Variable("y", "", Role.SET, "y")}
    free = [
        trial_of(
            number,
            (exact("x", x), LevelRecord("y", math.inf, 3 * x, 0.0, 0.0, LevelVerdict.UNSET, "none", "")),
            {},
        )
        for number, x in enumerate([1.0, 2.0, 3.0, 4.0], start=1)
    ]
    held = trial_of(9, (exact("x", 1.0), LevelRecord("y", 50.0, 50.0, 1.0, 0.0, LevelVerdict.HELD, "m", "")), {})
    fit = fit_law(line_law(), [*free, held], variables=variables)
    assert [e.base for e in fit.estimates] == pytest.approx([0, 3], abs=1e-9)
    assert fit.n == 4


def test_unlimited_enters_as_what_the_machine_gave() -> None:
    fit = fit_law(SORT_LAW, sort_trials(np.random.default_rng(3)), variables=SORT_VARIABLES)
    disk = fit.support_of("disk_read_rate")
    assert disk.natural == disk.high == 1.5e9
    assert disk.requested == (6e6, 20e6)
    assert fit.baseline == {"input_size": 4e6, "disk_read_rate": 1.5e9, "cpu_cores": 1.0}


def test_the_offset_is_part_of_the_prediction() -> None:
    law = law_of("y", "b0 + 10 * x", LINE_VARIABLES).laws["y"]
    fit = fit_law(law, xy_trials([1, 2, 3], [12.0, 22.0, 32.0]), variables=LINE_VARIABLES)
    assert fit.estimates[0].base == pytest.approx(2)
    assert [point.predicted for point in fit.points] == pytest.approx([12, 22, 32])


def test_trials_that_cannot_be_fitted_are_named() -> None:
    trials = (*xy_trials([1, 2, 3, 4], [1.0, 2.1, 2.9, 4.2]), trial_of(8, (exact("x", 1),), {}))
    trials = (*trials, trial_of(9, (exact("z", 1),), {"y": 1.0}))
    trials = (*trials, trial_of(10, (exact("x", math.inf),), {"y": 1.0}))
    fit = fit_law(line_law(), trials, variables=LINE_VARIABLES)
    reasons = {skipped.trial: skipped.reason for skipped in fit.skipped}
    assert reasons == {
        8: "y was not measured",
        9: "no level of x is recorded",
        10: "the law is not finite at its levels",
    }


def test_parameters_that_cannot_be_told_apart_are_named() -> None:
    trials = [t for t in sort_trials(np.random.default_rng(3)) if not t.planned.baseline]
    frozen = []
    for trial in trials:
        assert trial.record is not None
        levels = tuple(
            replace(level, achieved=6e6)
            if level.variable == "disk_read_rate"
            else replace(level, achieved=8e6)
            if level.variable == "input_size"
            else level
            for level in trial.record.levels
        )
        frozen.append(replace(trial, record=replace(trial.record, levels=levels)))
    with pytest.raises(NotIdentified, match="cannot tell c and a apart") as caught:
        fit_law(SORT_LAW, frozen, variables=SORT_VARIABLES)
    assert caught.value.context["parameters"] == ("c", "a")
    assert caught.value.context["reason"] == "unidentifiable"
    assert isinstance(caught.value, GoalNotReached)


def test_a_term_that_is_always_zero_is_left_out_and_named() -> None:
    fit = fit_law(line_law(), xy_trials([0, 0, 0], [1.0, 1.1, 0.9]), variables=LINE_VARIABLES)
    assert fit.not_estimated == ("b1",)
    (estimate,) = fit.estimates
    assert estimate.base == pytest.approx(1.0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_trials_are_counted(count: int) -> None:
    trials = xy_trials([1.0, 2.0][:count], [1.0, 2.0][:count])
    with pytest.raises(NotIdentified, match=rf"{count} valid trials? (is|are) too few"):
        fit_law(line_law(), trials, variables=LINE_VARIABLES)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_a_confidence_outside_zero_to_one_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        fit_law(line_law(), xy_trials([1, 2, 3], [1, 2, 3]), confidence, variables=LINE_VARIABLES)


def test_without_replicates_lack_of_fit_says_why_not() -> None:
    fit = fit_law(line_law(), xy_trials([1, 2, 3, 4], [1.0, 2.2, 2.9, 4.1]), variables=LINE_VARIABLES)
    assert fit.lack_of_fit is None
    assert "tried twice" in fit.lack_of_fit_reason
    saturated = xy_trials([1, 1, 2, 2], [1.0, 1.1, 2.2, 2.1])
    assert "as many parameters" in fit_law(line_law(), saturated, variables=LINE_VARIABLES).lack_of_fit_reason


def test_lack_of_fit_agrees_with_the_textbook_on_exact_replicates() -> None:
    xs, ys = [1, 1, 2, 2, 3, 3, 4, 4], [1.0, 1.2, 2.6, 2.4, 3.1, 3.3, 3.0, 3.4]
    fit = fit_law(line_law(), xy_trials(list(map(float, xs)), ys), variables=LINE_VARIABLES)
    assert fit.lack_of_fit is not None
    pure = sum((ys[i] - ys[i + 1]) ** 2 / 2 for i in range(0, 8, 2))
    design = np.column_stack([np.ones(8), xs])
    rss = np.linalg.lstsq(design, np.array(ys), rcond=None)[1][0]
    assert (fit.lack_of_fit.df_lack, fit.lack_of_fit.df_pure) == (2, 4)
    assert fit.lack_of_fit.f == pytest.approx((rss - pure) / 2 / (pure / 4))
    assert fit.lack_of_fit.pure_error_sd == pytest.approx(math.sqrt(pure / 4))


def test_the_missing_term_is_named_in_a_sentence() -> None:
    trials = sort_trials(np.random.default_rng(3), extra=lambda v: 0.4 / v["cpu_cores"])
    fit = fit_law(SORT_LAW, trials, variables=SORT_VARIABLES)
    assert fit.lack_of_fit is not None
    assert fit.lack_of_fit.significant
    assert fit.missing_term is not None
    assert fit.missing_term.term == "1 / cpu_cores"
    assert fit.missing_term.p_value < 1e-4
    assert "A term in 1 / cpu_cores is missing" in fit.missing_term.sentence


def test_a_variable_that_the_law_forgot_is_found() -> None:
    rng = np.random.default_rng(5)
    xs = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0] * 4
    zs = [float(z) for z in np.repeat([1, 2, 5, 9], 6)]
    ys = [2 * x + 5 * z + rng.normal(0, 0.1) for x, z in zip(xs, zs, strict=True)]
    fit = fit_law(line_law(), xy_trials(xs, ys, z=zs), variables=LINE_VARIABLES)
    assert fit.missing_term is not None
    assert fit.missing_term.term == "z"


def test_a_constant_outcome_does_not_break() -> None:
    fit = fit_law(line_law(), xy_trials([1, 1, 2, 2, 3], [2.0] * 5), variables=LINE_VARIABLES)
    assert [e.base for e in fit.estimates] == pytest.approx([2, 0], abs=1e-9)
    assert math.isnan(fit.r_squared)
    assert fit.diagnostics.normality_p is None
