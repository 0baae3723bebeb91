"""How often the checks of a fit cry wolf: each in about one good fit of ten at most, however it is fitted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.law_kinds import Method, Noise
from tests.estimation.made import made, trials_of

SIZE = np.tile([1.0, 2.0, 4.0], 16)
CORES = np.tile(np.repeat([0.3, 0.5, 0.9, 1.0], 3), 4)
EXPERIMENTS = 80


def notable(method: Method, node_sd: float) -> Counter[Check]:
    """Shares of notable findings over experiments in which nothing is wrong, on six nodes in random order."""
    law = made("c + b * size / cores", ("size", "cores"), method=method)
    rng = np.random.default_rng(5)
    found: Counter[Check] = Counter()
    for _ in range(EXPERIMENTS):
        nodes = rng.permutation(np.arange(len(SIZE)) % 6)
        offsets = rng.normal(0, node_sd, 6) if node_sd else np.zeros(6)
        outcome = 1 + 2 * SIZE / CORES + offsets[nodes] + rng.normal(0, 0.5, len(SIZE))
        trials = trials_of({"size": SIZE, "cores": CORES}, outcome, nodes=[f"n{node}" for node in nodes])
        found.update({one.check for one in fit_law(law.law, trials, variables=law.variables).notable})
    return found


@pytest.mark.parametrize(
    ("method", "node_sd"),
    [(Method.LEAST_SQUARES, 0.0), (Method.ROBUST, 0.0), (Method.CLUSTERED, 1.0), (Method.MIXED, 1.0)],
)
def test_a_good_fit_is_seldom_suspected(method: Method, node_sd: float) -> None:
    found = notable(method, node_sd)
    seldom = {check: count / EXPERIMENTS for check, count in found.items() if check is not Check.GROUPS}
    assert max(seldom.values(), default=0.0) <= 0.17, seldom


def test_noise_that_is_skewed_as_the_law_says_has_no_outliers() -> None:
    law = made("c + b * size / cores", ("size", "cores"), noise=Noise.GAMMA)
    rng = np.random.default_rng(5)
    found: Counter[Check] = Counter()
    for _ in range(EXPERIMENTS):
        outcome = rng.gamma(4.0, (1 + 2 * SIZE / CORES) / 4.0)
        fit = fit_law(law.law, trials_of({"size": SIZE, "cores": CORES}, outcome), variables=law.variables)
        found.update({one.check for one in fit.notable})
    assert max(found.values()) / EXPERIMENTS <= 0.17, found


def test_nodes_that_differ_are_told_to_least_squares() -> None:
    assert notable(Method.LEAST_SQUARES, 1.0)[Check.NODES] > 0.9 * EXPERIMENTS
