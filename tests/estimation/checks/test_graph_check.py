"""The test of the graph itself, on runs of a known truth."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.causal.independencies import Independence
from insitu.orchestrator.estimation.checks import graph_check
from insitu.orchestrator.estimation.checks.graph_check import check_graph, holm
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial
from tests.standins import exact, trial_of

VARIABLES = {
    "size": Variable("size", "", Role.PARAMETER),
    "cores": Variable("cores", "", Role.SET, "cpu.cores"),
    "read": Variable("read", "", Role.MEASURED, "read_bytes"),
    "memory": Variable("memory", "", Role.MEASURED, "peak_memory"),
    "runtime": Variable("runtime", "", Role.MEASURED, "wall_time"),
}
LAWS = {"read": "r * size", "memory": "m0 + m1 * size", "runtime": "c + a * read + b * size / cores"}


def model(confounded: tuple[tuple[str, str], ...] = (), **laws: str) -> Blueprint:
    texts = tuple(LawText(name, text, 1, 1) for name, text in {**LAWS, **laws}.items())
    found = build_blueprint(ModelText(Path("model.yaml"), VARIABLES, texts))
    return Blueprint(found.variables, found.laws, confounded)


def run(seed: int, trials: int = 48, swapping: float = 0.0) -> list[StoredTrial]:
    """The sort study with a throttle in two of three trials; `swapping` seconds more per unit of memory."""
    rng = np.random.default_rng(seed)
    done = []
    for number in range(1, trials + 1):
        size = float(rng.choice([1.0, 2.0, 4.0]))
        throttled = rng.random() < 2 / 3
        cores = float(rng.choice([0.3, 0.6])) if throttled else 1.0
        read = 3 * size + rng.normal(0, 0.3)
        memory = 2 + 0.5 * size + rng.normal(0, 0.5)
        runtime = 1 + read + 0.5 * size / cores + swapping * memory + rng.normal(0, 0.1)
        asked = cores if throttled else math.inf
        verdict = LevelVerdict.HELD if throttled else LevelVerdict.UNSET
        levels = (exact("size", size), LevelRecord("cores", asked, cores, 1.0, 0.0, verdict, "m", ""))
        measured = {"read_bytes": read, "peak_memory": memory, "wall_time": runtime}
        done.append(trial_of(number, levels, measured))
    return done


def test_a_right_graph_is_contradicted_one_time_in_twenty_at_most() -> None:
    right = model()
    alarms = [bool(check_graph(right, run(seed)).failed) for seed in range(80)]
    assert np.mean(alarms) <= 0.09


def test_an_edge_that_is_missing_is_found() -> None:
    found = check_graph(model(), run(1, swapping=0.3))
    assert {frozenset([one.first, one.second]) for one in found.failed} == {frozenset(["memory", "runtime"])}
    (failed,) = found.failed
    assert failed.p_value < 1e-4
    assert failed.correlation > 0.5
    assert failed.trials == 48
    assert "By the graph" in failed.sentence
    assert "an edge or a hidden common cause is missing" in failed.sentence
    assert found.sentence.startswith("The trials contradict 1 of ")


def test_a_hidden_common_cause_takes_the_statement_away() -> None:
    with_cause = model((("memory", "runtime"),))
    assert check_graph(with_cause, run(1, swapping=0.3)).failed == ()


def test_a_wrong_edge_is_found_by_what_it_leaves_out() -> None:
    found = check_graph(model(memory="m0"), run(1))
    assert frozenset(["memory", "size"]) in {frozenset([one.first, one.second]) for one in found.failed}


def test_what_the_design_chose_is_not_tested_and_said_so() -> None:
    found = check_graph(model(), run(1))
    (untested,) = [one for one in found.untested if {one.first, one.second} == {"size", "cores"}]
    assert untested.reason in (
        "the design chose the levels of both, or of what links them, in every trial",
        "cores does not vary in the trials that can show it",
    )


def test_the_statements_may_be_given() -> None:
    wrong = Independence("cores", "runtime", ("read",))
    (failed,) = graph_check.test_graph(model(runtime="c + a * read"), run(1), [wrong])
    assert (failed.first, failed.second, failed.given) == ("cores", "runtime", ("read",))
    assert failed.correlation < -0.5
    assert graph_check.test_graph(model(), run(1), []) == ()


def test_without_trials_nothing_is_tested() -> None:
    found = check_graph(model(), [])
    assert (found.tested, found.failed) == (0, ())
    assert "not tested" in found.sentence


def test_too_few_trials_are_said_to_be() -> None:
    found = check_graph(model(), run(1, trials=5))
    assert found.tested == 0
    assert any("too few" in one.reason for one in found.untested)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.5, 0.6], [1.0, 1.0]), ([], []), ([0.02], [0.02])],
)
def test_holm(p_values: list[float], adjusted: list[float]) -> None:
    assert holm(p_values) == pytest.approx(adjusted)
