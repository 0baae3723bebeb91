"""Two laws weighed by what they foretold: densities, likelihoods at best, containment, and what follows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.rivals.at_best import best_likelihood, likelihood_about
from insitu.orchestrator.estimation.rivals.containment import Placed, contains, likelihood_beyond
from insitu.orchestrator.estimation.rivals.foretelling import Foreteller, finest_noise, recursive_densities
from insitu.orchestrator.estimation.rivals.verdict import Comparing, Contender, Side, Verdict
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Noise
from tests.estimation.made import Made, made, trials_of

FINEST = 1e-9
X = np.array([1.0, 2, 4, 8, 1, 2, 4, 8, 3, 6, 1, 8])
LINE, ROOT, PARABOLA = "b0 + b1 * x", "b0 + b1 * x^0.5", "b0 + b1 * x + b2 * x^2"


def line(noise: float = 0.3, seed: int = 5) -> Array:
    return 3.0 + 0.5 * X + np.random.default_rng(seed).normal(0, noise, len(X))


def test_recursive_densities_are_those_of_a_refit_before_each_trial() -> None:
    rows, observed = np.column_stack([np.ones(len(X)), X]), line()
    expected = []
    for index in range(4, len(X)):
        values, squares, _, _ = np.linalg.lstsq(rows[:index], observed[:index], rcond=None)
        spread = math.sqrt(squares[0] / (index - 2))
        room = 1 + rows[index] @ np.linalg.inv(rows[:index].T @ rows[:index]) @ rows[index]
        at = stats.t.logpdf(observed[index], index - 2, rows[index] @ values, spread * math.sqrt(room))
        expected.append(at)
    assert recursive_densities(rows, observed, 4, FINEST) == pytest.approx(np.array(expected), rel=1e-9)


def test_any_other_law_foretells_by_refits_and_agrees_where_both_ways_are_open() -> None:
    law = made(LINE)
    task = law.task({"x": X}, line())
    plain = Foreteller(law.law, law.variables).densities(task.data, 4, FINEST)
    bounded = replace(law.law, bounds={"b0": Bounds(-100.0, 100.0)})
    refitted = Foreteller(bounded, law.variables).densities(task.data, 4, FINEST)
    assert refitted == pytest.approx(plain, rel=1e-6)


def test_predictions_that_were_made_are_not_made_again() -> None:
    law = made("b0 * exp(b1 * x / 8)")
    observed = 2.0 * np.exp(0.9 * X / 8) + np.random.default_rng(3).normal(0, 0.05, len(X))
    task = law.task({"x": X}, observed)
    foreteller = Foreteller(law.law, law.variables)
    early = foreteller.densities(task.data.rows(np.arange(len(X)) < 9, ()), 4, FINEST)
    whole = foreteller.densities(task.data, 4, FINEST)
    assert list(whole[:5]) == list(early)
    assert whole == pytest.approx(Foreteller(law.law, law.variables).densities(task.data, 4, FINEST))


@pytest.mark.parametrize("noise", [Noise.NORMAL, Noise.GAMMA, Noise.LOGNORMAL])
def test_what_is_foretold_is_a_density(noise: Noise) -> None:
    """It has to integrate to one, or the evidence would be none."""
    law = made(LINE, noise=noise)
    observed = np.abs(line())
    grid = np.concatenate([np.linspace(-200, 0, 800)[:-1], np.geomspace(1e-4, 400, 2000)])
    if noise is not Noise.NORMAL:
        grid = grid[grid > 0]
    law_task = law.task({"x": X[:9]}, observed[:9])
    foreteller = Foreteller(law.law, law.variables)
    fit = foreteller._solution(law_task.data, 8)
    assert fit is not None
    found = []
    for value in grid:
        data = replace(law_task.data, observed=np.append(observed[:8], value))
        found.append(math.exp(foreteller._density(data, 8, fit, FINEST)))
    assert np.trapezoid(found, grid) == pytest.approx(1.0, abs=0.01)


def test_a_law_foretells_from_the_first_trials_that_tell_all_its_parameters() -> None:
    law = made(LINE)
    data = law.task({"x": np.array([2.0, 2, 2, 2, 5, 2, 7])}, np.arange(7.0)).data
    foreteller = Foreteller(law.law, law.variables)
    assert [foreteller.can_begin(data, trials) for trials in range(3, 7)] == [False, False, True, True]


@pytest.mark.parametrize("noise", [Noise.GAMMA, Noise.LOGNORMAL])
def test_the_likelihood_at_best_is_no_less_than_at_any_parameters(noise: Noise) -> None:
    law = made(LINE, noise=noise)
    rng = np.random.default_rng(2)
    observed = (3 + 0.5 * X) * rng.gamma(30, 1 / 30, len(X))
    data = law.task({"x": X}, observed).data
    best = best_likelihood(law.law, data, law.variables, FINEST)

    def lost(values: Array) -> float:
        mean, sigma = values[0] + values[1] * X, math.exp(values[2])
        if (mean <= 0).any():
            return 1e9
        if noise is Noise.GAMMA:
            return -float(stats.gamma.logpdf(observed, sigma**-2, scale=mean * sigma**2).sum())
        place = np.log(mean) - sigma**2 / 2
        return -float((stats.norm.logpdf(np.log(observed), place, sigma) - np.log(observed)).sum())

    found = optimize.minimize(lost, [3.0, 0.5, -1.5], method="Nelder-Mead", options={"maxiter": 4000})
    assert best == pytest.approx(-found.fun, abs=0.02)


def test_the_likelihood_about_means_takes_the_noise_that_suits_best() -> None:
    observed, mean = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0])
    spread = math.sqrt(np.mean((observed - mean) ** 2))
    expected = stats.norm.logpdf(observed, mean, spread).sum()
    assert likelihood_about(Noise.NORMAL, observed, mean, FINEST) == pytest.approx(expected)


def placed(law: Made, values: tuple[float, ...], x: Array = X) -> Placed:
    return Placed(law.law, np.array(values), {"x": x})


CONTAINED = [
    (PARABOLA, (1.0, 2.0, 3.0), LINE, (1.0, 2.0), True),
    (LINE, (1.0, 2.0), PARABOLA, (1.0, 2.0, 3.0), False),
    (LINE, (1.0, 2.0), ROOT, (1.0, 2.0), False),
    (LINE, (1.0, 2.0), "b1 * (x + 2) + b0 * 7", (1.0, 2.0), True),
    ("1 + b1 * x", (2.0,), "x + b1 * x", (2.0,), False),
    ("b0 + b1 * x^k", (1.0, 2.0, 0.8), LINE, (1.0, 2.0), True),
    (LINE, (1.0, 2.0), "b0 + b1 * x^k", (1.0, 2.0, 1.0), False),
    ("b0 * exp(b1 * x)", (1.0, 0.1), "exp(b0 + b1 * x)", (0.3, 0.2), True),
]


@pytest.mark.parametrize(("large", "values", "small", "others", "expected"), CONTAINED)
def test_containment(
    large: str, values: tuple[float, ...], small: str, others: tuple[float, ...], expected: bool
) -> None:
    assert contains(placed(made(large), values), placed(made(small), others)) is expected


def test_containment_is_about_the_levels_that_are_allowed() -> None:
    two = np.array([1.0, 4.0, 1.0, 4.0])
    assert contains(placed(made(LINE), (1.0, 2.0), two), placed(made(ROOT), (1.0, 2.0), two))


def test_laws_with_another_noise_do_not_contain_each_other() -> None:
    assert not contains(placed(made(PARABOLA, noise=Noise.GAMMA), (1.0, 2.0, 3.0)), placed(made(LINE), (1.0, 2.0)))


def test_the_likelihood_where_a_difference_matters_is_the_largest_under_that_constraint() -> None:
    """By brute force: over the curvature, with the rest of the parabola fitted to it."""
    large, small, observed, tolerance = made(PARABOLA), made(LINE), line(0.2), 0.3
    task = large.task({"x": X}, observed)
    fit = fit_law(small.law, trials_of({"x": X}, observed), variables=small.variables)
    found = likelihood_beyond(
        placed(large, (0.0, 0.0, 0.0)),
        placed(small, tuple(fit.values)),
        task.data,
        large.variables,
        FINEST,
        tolerance,
    )
    rows = np.column_stack([np.ones(len(X)), X])
    onto = rows @ np.linalg.pinv(rows)

    def likely(values: Array) -> float:
        whole = rows @ values[:2] + values[2] * X**2
        near = onto @ whole
        if not (np.abs(whole - near) >= tolerance * np.abs(near)).any():
            return -math.inf
        squares = float(np.sum((observed - whole) ** 2))
        return -len(X) / 2 * (math.log(2 * math.pi * squares / len(X)) + 1)

    best = -math.inf
    for curvature in np.linspace(-0.3, 0.3, 61):
        rest = np.linalg.lstsq(rows, observed - curvature * X**2, rcond=None)[0]
        for offset in np.linspace(-1.5, 1.5, 61):
            for slope in np.linspace(-0.4, 0.4, 33):
                best = max(best, likely(np.array([rest[0] + offset, rest[1] + slope, curvature])))
    unconstrained = best_likelihood(large.law, task.data, large.variables, FINEST)
    assert found < unconstrained - 1
    assert best - 1e-6 <= found <= best + 0.35  # the grid is coarse, so it stays below


def test_where_the_best_fit_differs_by_enough_nothing_is_lost() -> None:
    observed = 1.0 + 0.2 * X**2 + np.random.default_rng(1).normal(0, 0.1, len(X))
    large, small = made(PARABOLA), made(LINE)
    task = large.task({"x": X}, observed)
    line_fit = placed(small, tuple(np.polyfit(X, observed, 1)[::-1]))
    found = likelihood_beyond(placed(large, (0, 0, 0)), line_fit, task.data, large.variables, FINEST, 0.1)
    assert found == best_likelihood(large.law, task.data, large.variables, FINEST)


def verdict_on(law: Made, rival: Made, observed: Array, tolerance: float = 0.1) -> Verdict:
    trials = trials_of({"x": X}, observed)
    fits = [fit_law(one.law, trials, variables=one.variables) for one in (law, rival)]
    at = [placed(one, tuple(fit.values)) for one, fit in zip((law, rival), fits, strict=True)]
    found = Comparing(law.law, rival.law, law.variables, 0.95, tolerance).verdict(
        trials, (fits[0], fits[1]), (at[0], at[1])
    )
    assert found is not None
    return found


def test_the_law_that_holds_is_preferred_whichever_comes_first() -> None:
    holds = verdict_on(made(LINE), made(ROOT), line(0.05))
    assert holds.preferred is Side.LAW
    assert holds.rejects(Side.RIVAL)
    assert not holds.rejects(Side.LAW)
    swapped = verdict_on(made(ROOT), made(LINE), line(0.05))
    assert swapped.preferred is Side.RIVAL
    assert swapped.law.against == pytest.approx(holds.rival.against)
    assert swapped.log_odds == pytest.approx(-holds.log_odds)
    assert holds.foretold == len(X) - 4


def test_much_noise_leaves_it_open() -> None:
    found = verdict_on(made(LINE), made(ROOT), line(5.0))
    assert found.preferred is None
    assert found.strongest < found.needed == pytest.approx(math.log(20))


def test_the_larger_law_is_preferred_by_evidence_against_the_smaller() -> None:
    found = verdict_on(made(LINE), made(PARABOLA), line(0.05) + 0.05 * X**2)
    assert found.preferred is Side.RIVAL
    assert found.law.against_difference is None
    assert found.rival.against_difference is not None


def test_the_smaller_law_is_preferred_where_a_difference_that_matters_is_ruled_out() -> None:
    found = verdict_on(made(LINE), made(PARABOLA), line(0.02, seed=1))
    assert found.rival.against < 0  # whenever the smaller law holds, the larger does
    assert found.rival.against_difference is not None
    assert found.preferred is Side.LAW
    assert verdict_on(made(LINE), made(PARABOLA), line(0.02, seed=1), tolerance=1e-4).preferred is None


def test_no_verdict_before_any_trial_is_foretold() -> None:
    law, rival = made(LINE), made(ROOT)
    trials = trials_of({"x": X[:4]}, line()[:4])
    fits = [fit_law(one.law, trials, variables=one.variables) for one in (law, rival)]
    at = [placed(one, tuple(fit.values)) for one, fit in zip((law, rival), fits, strict=True)]
    compare = Comparing(law.law, rival.law, law.variables, 0.95, 0.1)
    assert compare.verdict(trials, (fits[0], fits[1]), (at[0], at[1])) is None


def test_a_subject_without_noise_is_decided_too() -> None:
    assert verdict_on(made(LINE), made(ROOT), line(0.0)).preferred is Side.LAW
    assert verdict_on(made(LINE), made("b0 + b1 * x^k"), line(0.0)).preferred is not Side.RIVAL
    assert finest_noise(np.zeros(3)) > 0


def test_a_log_link_is_compared_with_an_identity() -> None:
    grown = 0.3 * np.exp(0.6 * X) * np.random.default_rng(4).lognormal(0, 0.05, len(X))
    law, rival = made(LINE, noise=Noise.LOGNORMAL), made(LINE, link=Link.LOG, noise=Noise.LOGNORMAL)
    assert verdict_on(law, rival, grown).preferred is Side.RIVAL


def test_both_may_be_rejected_and_then_none_is_preferred() -> None:
    found = verdict_on(made(LINE), made(ROOT), line(0.05))
    sides = {side: replace(found.contender(side), against=10.0) for side in Side}
    both = replace(found, law=sides[Side.LAW], rival=sides[Side.RIVAL])
    assert both.preferred is None
    assert isinstance(both.law, Contender)


def test_the_smaller_law_is_not_preferred_against_the_odds() -> None:
    found = verdict_on(made(LINE), made(PARABOLA), line(0.02, seed=1))
    assert replace(found, log_odds=-1.0).preferred is None
