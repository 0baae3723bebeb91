"""Intervals of experiments that end when they are precise enough hold the truth as often as they say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.simulated import SimulatedNode
from insitu.orchestrator import experiment
from insitu.orchestrator.design.looks import Looks, planned_looks
from insitu.orchestrator.steering.choice import most_trials, steering_of
from insitu.orchestrator.steering.endings import Ending
from insitu.orchestrator.steering.sequential import SequentialSteering
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import StoredTrial
from tests import plans

MODEL = """\
variables:
  size: {unit: '', role: parameter}
  cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + b * size / cores
"""
PLAN = """\
name: coverage
subject: {command: [sleep, "{size}"]}
model: model.yaml
factors:
  cores: {levels: [0.5, 1.0, 2.0]}
  size: {levels: [1, 2, 4]}
goal: {effect: cores -> runtime, relative_half_width: WIDTH}
design: {kind: sequential, seed: 1}
budget: {trials: 40}
"""
TRUE_EFFECT_S = 1.0 * (1 / 2.0 - 1 / 0.5)
EXPERIMENTS = 1000


def test_an_effect_under_sequential_stopping(tmp_path: Path) -> None:
    """1,000 experiments, at a precision that some reach at the first look and others later."""

    def truth(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        return {"wall_time": 3.0 + levels["size"] / levels["cores"] + rng.normal(0, 0.5)}

    plan, blueprint = experiment.read(plans.write(tmp_path, PLAN.replace("WIDTH", "0.15"), MODEL))
    node = SimulatedNode(blueprint.variables, truth, np.random.default_rng(8))
    held, looked, reached = 0, 0, 0
    for _ in range(EXPERIMENTS):
        steering = steering_of(plan, blueprint, most_trials(plan, 0))
        assert isinstance(steering, SequentialSteering)
        trials: list[StoredTrial] = []
        while (step := steering.advance(Ledger(trials), partial(tuple, trials), 0.0)).outcome is None:
            trials += [node.stored(planned) for planned in step.trials]
        answer = steering.answer(trials)
        assert answer is not None
        held += answer.parts[0].low < TRUE_EFFECT_S < answer.parts[0].high
        looked += trials[-1].planned.block
        reached += step.outcome.ending is Ending.REACHED
    assert 0.93 <= held / EXPERIMENTS <= 0.97, held
    assert reached > 0.9 * EXPERIMENTS
    assert looked > 1.2 * EXPERIMENTS


@pytest.mark.parametrize("first", [6, 12])
def test_the_factor_makes_the_worst_case_cover_what_it_says(first: int) -> None:
    """On fresh paths of the residual variance, over all widths that a goal may ask for."""
    looks = planned_looks(first=first, batch=2, most=60, parameters=3, confidence=0.95)
    worst = min(_coverage(looks, relative) for relative in np.geomspace(0.2, 3.0, 25))
    assert 0.943 <= worst <= 0.957
    plain = Looks((looks.trials[-1],), looks.parameters, looks.confidence)
    assert plain.inflation == 1.0
    assert 1.0 < looks.inflation < 1.35


def _coverage(looks: Looks, width: float) -> float:
    """Of intervals that end when they are narrower than `width`, in standard errors of the middle look."""
    rng = np.random.default_rng(99)
    from scipy import stats

    trials = np.array(looks.trials, dtype=float)
    df = trials - looks.parameters
    paths = np.sqrt(np.cumsum(rng.chisquare(np.diff(df, prepend=0.0), (20_000, len(df))), axis=1) / df)
    halves = np.array([looks.quantile(one) for one in df]) * paths
    narrow = halves / np.sqrt(trials) <= width * 2 / np.sqrt(trials[len(trials) // 2])
    last = np.where(narrow.any(axis=1), narrow.argmax(axis=1), len(df) - 1)
    ends = halves[np.arange(len(halves)), last]
    return float(np.mean(2 * stats.norm.cdf(ends) - 1))
