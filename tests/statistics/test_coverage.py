"""Bias, coverage and the size and power of the lack-of-fit test, against a known truth.

How often intervals hold the truth under every link, noise and method is in `test_coverage_of_methods`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.questions.queries import effect, whatif
from tests.standins import SORT_LAW, SORT_VARIABLES, TRUTH, sort_trials

SIMULATIONS = 1000
NOISE_S = 0.03
QUESTION = {"cpu_cores": 0.4, "disk_read_rate": 12e6, "input_size": 6e6}
TRUE_MEAN = TRUTH["c"] + TRUTH["a"] * 6e6 / 12e6 + TRUTH["b"] * 6e6 / 0.4
TRUE_EFFECT = TRUTH["b"] * 6e6 * (1 / 0.3 - 1 / 0.9)


@cache
def fits() -> tuple[Fit, ...]:
    rng = np.random.default_rng(20240607)
    return tuple(
        fit_law(SORT_LAW, sort_trials(rng, noise_s=NOISE_S), variables=SORT_VARIABLES) for _ in range(SIMULATIONS)
    )


def test_estimates_are_unbiased() -> None:
    for index, (name, truth) in enumerate(TRUTH.items()):
        found = np.array([fit.estimates[index].base for fit in fits()])
        assert fits()[0].estimates[index].name == name
        assert abs(found.mean() - truth) < 4 * found.std() / np.sqrt(SIMULATIONS)


def test_sigma_is_the_noise() -> None:
    variances = np.array([fit.sigma**2 for fit in fits()])
    assert abs(variances.mean() / NOISE_S**2 - 1) < 0.03


def test_parameter_intervals_hold_the_truth_as_often_as_they_say() -> None:
    for index, (name, truth) in enumerate(TRUTH.items()):
        reported = truth * SORT_LAW.parameter_scales[name]
        estimates = [fit.estimates[index] for fit in fits()]
        held = np.mean([e.reported_low <= reported <= e.reported_high for e in estimates])
        assert 0.93 <= held <= 0.97, name


def test_other_confidence_levels_mean_what_they_say() -> None:
    rng = np.random.default_rng(11)
    held = []
    for _ in range(400):
        fit = fit_law(SORT_LAW, sort_trials(rng, noise_s=NOISE_S), 0.5, variables=SORT_VARIABLES)
        held.append(fit.estimates[2].reported_low <= 60 <= fit.estimates[2].reported_high)
    assert 0.42 <= np.mean(held) <= 0.58


def test_intervals_of_predictions_and_effects_hold_the_truth() -> None:
    rng = np.random.default_rng(99)
    mean_held, new_held, effect_held = [], [], []
    at = {name: level for name, level in QUESTION.items() if name != "cpu_cores"}
    for fit in fits():
        answer = whatif(fit, SORT_LAW, QUESTION)
        mean_held.append(answer.mean_low <= TRUE_MEAN <= answer.mean_high)
        new_held.append(answer.low <= TRUE_MEAN + rng.normal(0, NOISE_S) <= answer.high)
        change = effect(fit, SORT_LAW, "cpu_cores", 0.9, 0.3, at)
        effect_held.append(change.change_low <= TRUE_EFFECT <= change.change_high)
    for held in (mean_held, new_held, effect_held):
        assert 0.93 <= np.mean(held) <= 0.97


def test_lack_of_fit_is_found_in_one_true_law_in_twenty() -> None:
    tests = [fit.lack_of_fit for fit in fits()]
    p_values = np.array([test.p_value for test in tests if test is not None])
    assert len(p_values) == SIMULATIONS
    assert 0.035 <= np.mean(p_values < 0.05) <= 0.065
    assert 0.46 <= np.mean(p_values < 0.5) <= 0.54


def test_a_missing_term_is_noticed_and_named() -> None:
    rng = np.random.default_rng(4)
    noticed, named = 0, 0
    for _ in range(100):
        trials = sort_trials(rng, noise_s=NOISE_S, extra=lambda v: 0.1 / v["cpu_cores"])
        fit = fit_law(SORT_LAW, trials, variables=SORT_VARIABLES)
        assert fit.lack_of_fit is not None
        noticed += fit.lack_of_fit.significant
        named += fit.missing_term is not None and "cpu_cores" in fit.missing_term.term
    assert noticed >= 90
    assert named >= 85
