"""A cause that no record names is named by what was measured, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.estimation.suspects.blame import Cause, suspects_of
from insitu.orchestrator.estimation.suspects.usual import compare
from insitu.orchestrator.store.records import StoredTrial
from tests.statistics.crowded_node import Crowd, crowd_of, run

SECRET_TRIALS = 40
ANOMALIES = [cause for cause in Cause if cause is not Cause.HYPERVISOR]


def quiet_run(rng: np.random.Generator) -> list[StoredTrial]:
    """Twelve trials at two sizes, on a machine that is left alone."""
    return [run(number, rng, Crowd(), size=(32e6, 64e6)[number % 2]) for number in range(1, 13)]


def first_suspect(trial: StoredTrial, others: list[StoredTrial]) -> Cause | None:
    found = suspects_of(others, compare(trial, others), {})
    return found[0].cause if found else None


@pytest.mark.parametrize("cause", ANOMALIES)
def test_a_secret_anomaly_is_named_first(cause: Cause) -> None:
    rng = np.random.default_rng(11)
    named = 0
    for _ in range(SECRET_TRIALS):
        others = quiet_run(rng)
        trial = run(99, rng, crowd_of(cause, rng), size=(32e6, 64e6)[int(rng.integers(2))])
        named += first_suspect(trial, others) is cause
    assert named >= 0.95 * SECRET_TRIALS


def test_a_quiet_trial_has_no_suspect() -> None:
    rng = np.random.default_rng(12)
    accused = 0
    for _ in range(8):
        others = quiet_run(rng)
        accused += sum(first_suspect(run(99, rng, Crowd(), size=64e6), others) is not None for _ in range(15))
    assert accused <= 0.03 * 120
