"""Kinds of designs that a plan can name, against a published figure, another library and each other.

The law is that of `test_designs`, here written in a model; a plan asks for 12 trials, and two check the law.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pydoe
import pytest
from scipy import stats

from insitu.orchestrator import experiment
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Method
from insitu.orchestrator.steering.preview import FixedPreview, fixed_preview_of
from insitu.orchestrator.store.records import PlannedTrial
from tests import plans
from tests.design.candidates import linear_law, log_determinant
from tests.estimation.made import made

MODEL = """\
variables:
  size: {unit: "", role: parameter}
  rate: {unit: "", role: parameter}
  cpu: {unit: "", role: parameter}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * size * rate + b * size * cpu
"""
PLAN = """\
name: published
subject: {command: [sleep, "{size}", "{rate}", "{cpu}"]}
model: model.yaml
factors:
  size: {levels: [1, 2, 4, 8]}
  rate: {levels: [1, 2, 4]}
  cpu: {levels: [1, 2, 4]}
goal: {effect: rate -> runtime}
design: {kind: KIND, trials: 12, seed: 5}
"""
BEST = 17.9504


def planned(folder: Path, kind: str) -> tuple[tuple[PlannedTrial, ...], FixedPreview]:
    plan, blueprint = experiment.read(plans.write(folder, PLAN.replace("KIND", kind), MODEL))
    trials = experiment.design_trials(plan, blueprint)
    preview = fixed_preview_of(plan, blueprint, trials)
    assert preview is not None
    return trials, preview


HARD_MODEL = """\
variables:
  size: {unit: "", role: parameter}
  cpu: {unit: "", role: parameter}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * size + b * size * cpu
"""
HARD_PLAN = """\
name: groups
subject: {command: [sleep, "{size}", "{cpu}"]}
model: model.yaml
factors:
  size: {levels: [1, 2, 4, 8], hard_to_change: true}
  cpu: {levels: [1, 2, 4]}
goal: {effect: size -> runtime}
design: {kind: d_optimal, trials: 24}
"""


def rows_of(trials: tuple[PlannedTrial, ...]) -> Array:
    levels = [trial.assignment.as_dict() for trial in trials]
    return np.array([(1, one["size"] * one["rate"], one["size"] * one["cpu"]) for one in levels])


def best_twelve(rows: Array) -> Array:
    """The 12 of 14 rows that tell most: those that the design chose, if it found the best 12 there are."""
    subsets = [list(kept) for kept in itertools.combinations(range(len(rows)), 12)]
    return rows[max(subsets, key=lambda kept: log_determinant(rows[kept]))]


def test_the_published_design_comes_out_of_a_plan(tmp_path: Path) -> None:
    trials, _ = planned(tmp_path, "d_optimal")
    assert len(trials) == 14
    chosen = best_twelve(rows_of(trials))
    assert log_determinant(chosen) == pytest.approx(BEST, abs=1e-4)
    errors = np.sqrt(np.diag(np.linalg.inv(chosen.T @ chosen)))
    assert errors[1:] == pytest.approx([0.0213, 0.0213], abs=5e-5)
    repeated = np.repeat(linear_law()[:, 1:], 12, axis=0)
    theirs, _ = pydoe.optimal_design(repeated, 12, 1, criterion="D", method="fedorov", alpha=1e-3)
    found = log_determinant(np.column_stack([np.ones(12), theirs]))
    assert log_determinant(chosen) == pytest.approx(found, abs=1e-6)


def test_what_is_foreseen_is_what_the_trials_tell(tmp_path: Path) -> None:
    trials, preview = planned(tmp_path, "d_optimal")
    rows = rows_of(trials)
    (law,) = preview.expected.laws
    assert law.standard_errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(rows.T @ rows))))
    assert preview.expected.log_determinant == pytest.approx(log_determinant(rows))
    assert 0.9 < preview.expected.efficiency < 1


def test_each_kind_is_best_at_what_it_is_for(tmp_path: Path) -> None:
    kinds = ("d_optimal", "i_optimal", "c_optimal", "latin_hypercube")
    region = linear_law()
    effect = np.array([0.0, 3.0, 0.0])  # of the rate, from 1 to 4, at the first size
    found: dict[str, tuple[float, float, float]] = {}
    for kind in kinds:
        rows = rows_of(planned(tmp_path, kind)[0])
        covariance = np.linalg.inv(rows.T @ rows)
        mean_variance = float(np.einsum("np,pq,nq->n", region, covariance, region).mean())
        found[kind] = (-log_determinant(rows), mean_variance, float(effect @ covariance @ effect))
    for place, kind in enumerate(kinds[:3]):
        assert found[kind][place] == min(one[place] for one in found.values())


@pytest.mark.parametrize(
    ("method", "low", "high"), [(Method.LEAST_SQUARES, 0.7, 0.88), (Method.MIXED, 0.92, 0.99)]
)
def test_a_mixed_fit_does_not_pretend_more_than_groups_tell(
    tmp_path: Path, method: Method, low: float, high: float
) -> None:
    """How often the 95 % interval of what is hard to change holds the truth, where groups differ as trials do."""
    plan, blueprint = experiment.read(plans.write(tmp_path, HARD_PLAN, HARD_MODEL))
    trials = experiment.design_trials(plan, blueprint)
    size, cpu = (np.array([one.assignment.as_dict()[name] for one in trials]) for name in ("size", "cpu"))
    groups = np.array([one.block for one in trials])
    law = made("c + a * size + b * size * cpu", ("size", "cpu"), method=method)
    effect, rng, held, repeats = np.array([0.0, 7.0, 14.0]), np.random.default_rng(8), 0, 300
    for _ in range(repeats):
        offsets = rng.normal(size=groups.max() + 1)[groups]
        observed = 1 + 2 * size + 3 * size * cpu + offsets + rng.normal(size=len(trials))
        found = solve(law.task({"size": size, "cpu": cpu}, observed, blocks=groups.tolist()))
        error = np.sqrt(effect @ found.covariance @ effect)
        held += abs(effect @ found.values - 56.0) < stats.t.ppf(0.975, found.df) * error
    assert low < held / repeats < high
