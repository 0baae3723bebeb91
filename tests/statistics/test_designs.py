"""Optimal designs against a published figure, another library, and simulated experiments.

The law is ``c + a * size * rate + b * size * cpu`` with size 1, 2, 4, 8 and rate and cpu 1, 2, 4, in 12 trials.
Its information is that of the columns 1, size * rate and size * cpu; the noise has standard deviation one.
The best log-determinant is 17.9504; the standard errors of a and b are then 0.02134, and that of c is 0.496.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pydoe
import pytest

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.batch import next_batch
from insitu.orchestrator.design.optimality.criteria import d_optimal, i_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.optimality.information import information_of, inverse
from tests.design.candidates import linear_law, log_determinant

TRIALS = 12
BEST = 17.9504
STANDARD_ERROR = 0.0213


def pydoe_design(factors: Array, trials: int, criterion: str = "D", **options: Any) -> Array:
    """Rows that pydoe chooses for a constant and each factor; it tries no candidate twice."""
    design, _ = pydoe.optimal_design(factors, trials, 1, criterion=criterion, **options)
    return np.column_stack([np.ones(len(design)), design])


def test_the_best_design_is_as_published() -> None:
    design = exchange(linear_law(), TRIALS, d_optimal(), np.random.default_rng(1))
    assert design.precision.value == pytest.approx(BEST, abs=1e-4)
    assert design.precision.standard_errors[1:] == pytest.approx([STANDARD_ERROR] * 2, abs=5e-5)
    assert design.precision.standard_errors[0] == pytest.approx(0.4962, abs=1e-4)
    assert 0.997 < design.efficiency < 0.998


def test_every_seed_and_batches_lead_there() -> None:
    for seed in range(20):
        design = exchange(linear_law(), TRIALS, d_optimal(), np.random.default_rng(seed), starts=3)
        assert design.precision.value == pytest.approx(BEST, abs=1e-4)
    assert next_batch(linear_law(), TRIALS, d_optimal()).precision.value == pytest.approx(BEST, abs=1e-4)


def test_pydoe_finds_the_same_optimum() -> None:
    repeated = np.repeat(linear_law()[:, 1:], TRIALS, axis=0)
    theirs = log_determinant(pydoe_design(repeated, TRIALS, method="fedorov", alpha=1e-3))
    assert theirs == pytest.approx(BEST, abs=1e-4)
    ours = exchange(linear_law(), TRIALS, d_optimal(), np.random.default_rng(1)).precision.value
    assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(("seed", "criterion"), list(itertools.product(range(4), ("D", "I"))))
def test_pydoe_finds_nothing_better(seed: int, criterion: str) -> None:
    factors = np.random.default_rng(seed).uniform(-1, 1, size=(40, 3))
    rows = np.column_stack([np.ones(40), factors])
    theirs = pydoe_design(factors, 8, criterion, method="fedorov", alpha=1e-3)
    target = d_optimal() if criterion == "D" else i_optimal(rows)
    design = exchange(rows, 8, target, np.random.default_rng(seed), repeats=1)
    found = target.value(target.loss(inverse(information_of(theirs))))
    assert target.efficiency(found, design.precision.value, 4) <= 1 + 1e-9
    assert target.efficiency(found, design.precision.value, 4) > 0.97  # they are near: the same thing is meant


def test_random_trials_need_to_be_about_four_times_as_many() -> None:
    """48 of them, at the median, for the same standard errors."""
    rows, rng = linear_law(), np.random.default_rng(5)

    def median_error(trials: int) -> float:
        drawn = rows[rng.integers(0, len(rows), (1500, trials))]
        covariances = np.linalg.inv(drawn.transpose(0, 2, 1) @ drawn)
        return float(np.median(np.sqrt(covariances[:, [1, 2], [1, 2]])))

    assert median_error(42) > STANDARD_ERROR > median_error(51)
    assert median_error(48) == pytest.approx(STANDARD_ERROR, rel=0.03)


def test_the_standard_errors_are_those_of_simulated_fits() -> None:
    rows, rng = linear_law(), np.random.default_rng(6)
    design = exchange(rows, TRIALS, d_optimal(), rng)
    chosen = rows[list(design.trials)]
    outcomes = chosen @ np.array([2.0, 0.3, 0.7]) + rng.normal(size=(20_000, TRIALS))
    fitted = np.linalg.lstsq(chosen, outcomes.T, rcond=None)[0]
    assert fitted.std(axis=1) == pytest.approx(np.array(design.precision.standard_errors), rel=0.03)
    assert fitted.mean(axis=1) == pytest.approx([2.0, 0.3, 0.7], abs=0.02)
