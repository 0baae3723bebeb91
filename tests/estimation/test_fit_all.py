"""Every law of a run, from a model as it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.analysis import analyse, fit_all
from insitu.orchestrator.plan.types import LawText, ModelText, PriorText, Role, Variable
from insitu.orchestrator.store.records import StoredTrial
from tests.standins import exact, trial_of


def model(*laws: LawText) -> Blueprint:
    given = {law.variable for law in laws}
    variables = [
        Variable("size", "B", Role.PARAMETER),
        Variable("cores", "core", Role.PARAMETER),
        Variable("reading_time", "s", Role.LATENT),
        Variable("read", "B", Role.MEASURED, "read_bytes"),
        Variable("runtime", "s", Role.MEASURED, "wall_time"),
        Variable("faults", "", Role.MEASURED, "major_faults"),
    ]
    known = {one.name: one for one in variables if one.role is not Role.LATENT or one.name in given}
    return build_blueprint(ModelText(Path("model.yaml"), known, laws))


def text(variable: str, right: str, prior: PriorText | None = None) -> LawText:
    return LawText(variable, right, 1, 1, prior=prior)


READING = text("reading_time", "slow * read")
READ = text("read", "r * size")
RUNTIME = text("runtime", "c + reading_time + b * size / cores")


def run(seed: int = 1, trials: int = 24) -> list[StoredTrial]:
    rng = np.random.default_rng(seed)
    done = []
    for number in range(1, trials + 1):
        size, cores = float(rng.choice([1e6, 2e6, 4e6])), float(rng.choice([0.25, 0.5, 1.0]))
        read = 1.1 * size * (1 + rng.normal(0, 0.05))
        runtime = 0.2 + 1e-7 * read + 2e-7 * size / cores + rng.normal(0, 0.02)
        levels = (exact("size", size, "B"), exact("cores", cores, "core"))
        done.append(trial_of(number, levels, {"read_bytes": read, "wall_time": runtime}))
    return done


def test_every_measured_law_is_fitted_with_the_latent_ones_put_in() -> None:
    fitted = fit_all(model(READING, READ, RUNTIME), run())
    assert set(fitted.fits) == {"read", "runtime"}
    assert fitted.not_fitted == ()
    runtime = fitted.fits["runtime"]
    assert runtime.law == "c + slow * read + b * size / cores"
    assert runtime.values == pytest.approx([0.2, 1e-7, 2e-7], rel=0.2)
    assert fitted.fits["read"].values == pytest.approx([1.1], rel=0.02)


def test_a_law_that_cannot_be_fitted_says_why_and_leaves_the_others() -> None:
    fitted = fit_all(model(READING, READ, RUNTIME, text("faults", "f * size")), run())
    assert set(fitted.fits) == {"read", "runtime"}
    (left,) = fitted.not_fitted
    assert left.outcome == "faults"
    assert "valid trials can be fitted, which is too few" in left.reason
    assert "major_faults was not measured" in left.remedy
    assert fitted.why_not("faults") is left


def test_confidence_is_that_of_all_intervals() -> None:
    wide, narrow = (fit_all(model(READ), run(), level).fits["read"].estimates[0] for level in (0.99, 0.5))
    assert wide.reported_high - wide.reported_low > 2 * (narrow.reported_high - narrow.reported_low)


def test_a_damaged_prior_is_a_fault_of_the_input() -> None:
    prior = PriorText("read", Path("other/fitted.json"), "{}")
    with pytest.raises(InputError, match=r"other/fitted\.json is damaged"):
        fit_all(model(text("read", "r * size", prior)), run())


def test_an_analysis_is_of_the_law_with_latent_ones_put_in_and_tests_the_graph() -> None:
    found = analyse(model(READING, RUNTIME), run(), None)
    assert found.fit is not None
    assert found.fit.law == "c + slow * read + b * size / cores"
    assert found.graph is not None
    assert found.graph.failed == () or found.graph.tested
