"""How often the intervals of a bounded law hold the truth, at a bound, a little way off, and far from it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.fitting.bounded import fit_bounded

SIMULATIONS = 1000
LINE = np.column_stack([np.ones(12), np.linspace(0, 1, 12)])
SLOPE_ERROR = float(np.sqrt(np.linalg.inv(LINE.T @ LINE)[1, 1]))
FAR_OUT = np.array([1.0, 4.0])


@cache
def held_line(away: float) -> dict[str, float]:
    """Of a line with unit noise and a true slope so many standard errors above its bound of zero."""
    rng = np.random.default_rng(20250301)
    truth = np.array([5.0, away * SLOPE_ERROR])
    held: dict[str, list[bool]] = {"slope": [], "mean": [], "new": [], "settled slope": [], "settled mean": []}
    for _ in range(SIMULATIONS):
        response = LINE @ truth + rng.normal(size=12)
        triangle = Triangle.empty(2).with_rows(LINE, response)
        fit = fit_bounded(triangle, np.zeros(2), np.full(2, np.inf), ("c", "a"), "y")
        slope, mean, new = fit.parameter("a"), fit.mean(FAR_OUT), fit.new_trial(FAR_OUT)
        held["slope"].append(slope.guarded.holds(truth[1]))
        held["mean"].append(mean.guarded.holds(float(FAR_OUT @ truth)))
        held["new"].append(new.guarded.holds(float(FAR_OUT @ truth + rng.normal())))
        held["settled slope"].append(slope.settled.holds(truth[1]))
        held["settled mean"].append(mean.settled.holds(float(FAR_OUT @ truth)))
    return {name: float(np.mean(found)) for name, found in held.items()}


@pytest.mark.parametrize("away", [0.0, 0.5, 3.5])
def test_guarded_intervals_hold_the_truth_wherever_it_is(away: float) -> None:
    held = held_line(away)
    for name in ("slope", "mean", "new"):
        # an interval beyond a bound is replaced by the bound: where the truth is there, right once more in forty
        assert 0.93 <= held[name] <= (0.97 if away else 0.99), name


def test_settled_intervals_hold_it_at_the_bound_and_far_off_only() -> None:
    for away in (0.0, 3.5):
        held = held_line(away)
        assert held["settled mean"] >= 0.93
        assert held["settled slope"] >= 0.93
    near = held_line(0.5)
    assert 0.64 <= near["settled slope"] <= 0.74  # what the module says of it
    assert near["settled mean"] <= 0.75


def test_guarded_intervals_hold_a_sum_of_many_parameters_at_their_bounds() -> None:
    """Where an interval from the best fit within the bounds, at a rise of one F quantile, fails (72 in 100)."""
    rng = np.random.default_rng(8)
    rows = np.vstack([np.eye(6)] * 4)
    held = []
    for _ in range(SIMULATIONS):
        triangle = Triangle.empty(6).with_rows(rows, rng.normal(size=24))
        fit = fit_bounded(triangle, np.zeros(6), np.full(6, np.inf), "abcdef", "y")
        held.append(fit.mean(np.ones(6)).guarded.holds(0.0))
    assert 0.93 <= np.mean(held) <= 0.99
