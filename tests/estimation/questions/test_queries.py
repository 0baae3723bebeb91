from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.errors import InputError, OutsideSupport
from insitu.orchestrator.estimation.analysis import analyse
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.questions.curves import dose_response
from insitu.orchestrator.estimation.questions.queries import effect, whatif
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.law_kinds import Noise
from tests.estimation.made import made, trials_of
from tests.standins import (
    LINE_VARIABLES,
    SORT,
    SORT_LAW,
    SORT_VARIABLES,
    law_of,
    line_law,
    sort_trials,
    xy_trials,
)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_law(SORT_LAW, sort_trials(np.random.default_rng(1)), variables=SORT_VARIABLES)


def test_a_prediction_agrees_with_the_truth_and_names_its_defaults(fit: Fit) -> None:
    answer = whatif(fit, SORT_LAW, {"cpu_cores": 0.4, "input_size": 6e6})
    truth = 0.05 + 6e6 / 1.5e9 + 60e-9 * 6e6 / 0.4
    assert answer.mean_low < truth < answer.mean_high
    assert answer.low < answer.mean_low
    assert answer.high > answer.mean_high
    assert answer.defaults == ("disk_read_rate",)
    assert answer.levels == {"input_size": 6e6, "disk_read_rate": 1.5e9, "cpu_cores": 0.4}
    assert answer.extrapolated == ()


def test_interval_widths_follow_the_textbook() -> None:
    xs, ys = [1.0, 2.0, 3.0, 4.0, 5.0], [1.1, 1.9, 3.2, 3.8, 5.1]
    fit = fit_law(line_law(), xy_trials(xs, ys), 0.9, variables=LINE_VARIABLES)
    answer = whatif(fit, line_law(), {"x": 2.5})
    t_90_3 = 2.3533634348018264  # 95th percentile of Student's t with 3 degrees of freedom
    leverage = 1 / 5 + (2.5 - 3) ** 2 / 10
    assert answer.mean_high - answer.mean == pytest.approx(t_90_3 * fit.sigma * math.sqrt(leverage))
    assert answer.high - answer.mean == pytest.approx(t_90_3 * fit.sigma * math.sqrt(1 + leverage))


def test_levels_that_were_asked_for_are_inside_although_achieved_a_little_off(fit: Fit) -> None:
    for cpu in (0.3, 0.9):
        for disk in (6e6, 20e6):
            for size in (4e6, 8e6):
                question = {"cpu_cores": cpu, "disk_read_rate": disk, "input_size": size}
                assert whatif(fit, SORT_LAW, question).extrapolated == ()


def test_unlimited_means_what_the_machine_gave(fit: Fit) -> None:
    open_disk = whatif(fit, SORT_LAW, {"disk_read_rate": math.inf, "cpu_cores": 0.5})
    assert open_disk.levels["disk_read_rate"] == 1.5e9
    never = replace(fit, support=tuple(replace(support, natural=None) for support in fit.support))
    with pytest.raises(OutsideSupport, match="no trial left disk_read_rate unlimited"):
        whatif(never, SORT_LAW, {"disk_read_rate": math.inf})


def test_a_level_outside_is_refused_with_the_range_or_flagged(fit: Fit) -> None:
    with pytest.raises(
        OutsideSupport, match=r"cpu_cores = 0\.1 core is outside .* 0\.29\d core to 1 core"
    ) as caught:
        whatif(fit, SORT_LAW, {"cpu_cores": 0.1})
    assert "--extrapolate" in str(caught.value)
    flagged = whatif(fit, SORT_LAW, {"cpu_cores": 0.1}, extrapolate=True)
    assert len(flagged.extrapolated) == 1
    assert flagged.high - flagged.low > fit.sigma


def test_inside_the_box_but_outside_the_hull_is_refused_by_leverage() -> None:
    rng = np.random.default_rng(1)
    xs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    zs = [x + 0.1 * rng.normal() for x in xs]
    law = law_of("y", "b0 + b1 * x + b2 * z", LINE_VARIABLES).laws["y"]
    ys = [x + rng.normal(0, 0.1) for x in xs]
    fit = fit_law(law, xy_trials(xs, ys, z=zs), variables=LINE_VARIABLES)
    with pytest.raises(OutsideSupport, match="leverage"):
        whatif(fit, law, {"x": 1.5, "z": 5.5})
    whatif(fit, law, {"x": 3.5, "z": 3.5})


def test_wrong_names_and_open_variables_are_refused(fit: Fit) -> None:
    with pytest.raises(InputError) as caught:
        whatif(fit, SORT_LAW, {"cpu_core": 0.5})
    assert caught.value.hint == "did you mean cpu_cores?"
    with pytest.raises(InputError, match="not a number"):
        whatif(fit, SORT_LAW, {"cpu_cores": math.nan})
    with pytest.raises(InputError, match="leaves input_size open"):
        whatif(replace(fit, baseline={"disk_read_rate": 6e6, "cpu_cores": 0.5}), SORT_LAW, {})
    with pytest.raises(InputError, match="not defined at"):
        whatif(fit, SORT_LAW, {"cpu_cores": 0.0}, extrapolate=True)
    with pytest.raises(InputError, match="not the one in the model"):
        whatif(fit, replace(SORT_LAW, text="c"), {})


def test_an_effect_has_the_contrasts_interval(fit: Fit) -> None:
    at = {"input_size": 8e6, "disk_read_rate": 20e6}
    answer = effect(fit, SORT_LAW, "cpu_cores", 0.9, 0.3, at)
    truth = 60e-9 * 8e6 * (1 / 0.3 - 1 / 0.9)
    assert answer.change_low < truth < answer.change_high
    b = fit.estimates[2]
    width = (answer.change_high - answer.change_low) / (8e6 * (1 / 0.3 - 1 / 0.9))
    assert width * 1e9 == pytest.approx(b.reported_high - b.reported_low)
    assert answer.relative_half_width == pytest.approx((answer.change_high - answer.change) / answer.change)
    back = effect(fit, SORT_LAW, "cpu_cores", 0.3, 0.9, at)
    assert back.change == pytest.approx(-answer.change)
    assert effect(fit, SORT_LAW, "cpu_cores", 0.5, 0.5, at).relative_half_width == math.inf
    with pytest.raises(OutsideSupport):
        effect(fit, SORT_LAW, "cpu_cores", 0.9, 0.1, at)
    with pytest.raises(InputError, match="cause"):
        effect(fit, SORT_LAW, "cpu_cores", 0.9, 0.3, {"cpu_cores": 1.0})


def test_curves_pass_through_the_predictions(fit: Fit) -> None:
    curves = {curve.variable: curve for curve in dose_response(fit, SORT_LAW, points=11)}
    assert set(curves) == {"input_size", "disk_read_rate", "cpu_cores"}
    cpu = curves["cpu_cores"]
    assert cpu.at == {"input_size": 4e6, "disk_read_rate": 1.5e9}
    middle = cpu.points[5]
    answer = whatif(fit, SORT_LAW, {"cpu_cores": middle.level, **cpu.at})
    assert (middle.mean, middle.low, middle.mean_high) == (answer.mean, answer.low, answer.mean_high)
    assert curves["disk_read_rate"].logarithmic
    assert not cpu.logarithmic
    residuals = {point.trial: point.residual for point in fit.points}
    for trial in cpu.trials:
        mean = whatif(fit, SORT_LAW, {"cpu_cores": trial.level, **cpu.at}).mean
        assert trial.adjusted - mean == pytest.approx(residuals[trial.trial])


def test_an_analysis_holds_the_goals_effect_over_what_was_tried() -> None:
    trials = sort_trials(np.random.default_rng(3))
    result = analyse(
        SORT, trials, EffectGoal(cause="cpu_cores", outcome="runtime", relative_half_width=0.1, confidence=0.9)
    )
    assert result.effect is not None
    assert (result.effect.low, result.effect.high, result.effect.confidence) == (0.3, 0.9, 0.9)
    assert analyse(SORT, trials, None).effect is None


def test_an_analysis_says_why_there_is_no_answer() -> None:
    empty = analyse(
        SORT, (), EffectGoal(cause="cpu_cores", outcome="runtime", relative_half_width=None, confidence=0.95)
    )
    assert empty.fit is None
    assert "too few" in empty.problem
    trials = sort_trials(np.random.default_rng(3))
    stranger = analyse(
        SORT, trials, EffectGoal(cause="humidity", outcome="runtime", relative_half_width=None, confidence=0.95)
    )
    assert "does not mention humidity" in stranger.effect_problem
    with pytest.raises(InputError, match="no law for input_size"):
        analyse(
            SORT,
            trials,
            EffectGoal(cause="cpu_cores", outcome="input_size", relative_half_width=None, confidence=0.95),
        )
    with pytest.raises(InputError, match="no measured variable"):
        analyse(replace(SORT, laws={}), trials, None)


def test_trials_beside_a_curve_keep_their_ratio_where_the_noise_is_relative() -> None:
    law = made("a + b * x + c * z", ("x", "z"), noise=Noise.GAMMA)
    rng = np.random.default_rng(3)
    x, z = np.tile([1.0, 2.0, 3.0], 8), np.repeat([0.0, 50.0], 12)
    y = (1 + x + z) * rng.gamma(100, 0.01, 24)
    fit = fit_law(law.law, trials_of({"x": x, "z": z}, y), variables=law.variables)
    (curve,) = (one for one in dose_response(fit, law.law) if one.variable == "x")
    at = {point.level: point.mean for point in curve.points}
    points = {point.trial: point for point in fit.points}
    assert curve.at["z"] == 0.0
    for trial in curve.trials:
        if trial.level in at:
            ratio = points[trial.trial].observed / points[trial.trial].predicted
            assert trial.adjusted / at[trial.level] == pytest.approx(ratio)
    assert min(trial.adjusted for trial in curve.trials) > 0
