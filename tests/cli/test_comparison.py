"""A comparison of two laws as a user meets it: before it runs, in the terminal, on the page, in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import insitu
from experiments.simulated import SimulatedNode, Truth
from insitu.orchestrator import experiment
from insitu.orchestrator.causal.graph import Blueprint
from insitu.orchestrator.cli import rival_previews
from insitu.orchestrator.cli.app import app
from insitu.orchestrator.cli.execution import _conclude
from insitu.orchestrator.cli.results import summary_of
from insitu.orchestrator.doubts import doubts_of
from insitu.orchestrator.errors import GoalNotReached, InputError
from insitu.orchestrator.estimation.rivals.verdict import Side
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.steering.choice import most_trials, steering_of
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.steering.rival_preview import RivalPreview, rival_preview_of
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import StoredTrial
from tests import plans
from tests.made_runs import make_run
from tests.steering.test_comparison import LARGER, ROOT, asking, truth
from tests.steering.test_sequential import MODEL, prepared

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A finished run of a comparison, with trials from a simulated subject."""

    def finished(text: str, noise_s: float = 0.1) -> Path:
        plan, blueprint = experiment.read(plans.write(tmp_path / "plan", text, MODEL))
        node = SimulatedNode(blueprint.variables, partial(truth, noise_s=noise_s), np.random.default_rng(11))
        trials: list[StoredTrial] = []
        if plan.design.kind == "factorial":
            trials = [node.stored(planned) for planned in experiment.design_trials(plan, blueprint)]
        else:
            steering = steering_of(plan, blueprint, most_trials(plan, 0))
            while (step := steering.advance(Ledger(trials), partial(tuple, trials), 0.0)).outcome is None:
                trials += [node.stored(planned) for planned in step.trials]
        return make_run(tmp_path / "run", trials, text, MODEL)

    return finished


def test_show_and_report_tell_which_law_holds(make: Make) -> None:
    run = make(asking(ROOT))
    shown = CliRunner().invoke(app, ["show", str(run)])
    assert shown.exit_code == 0, shown.output
    assert "The law runtime = c + a * size / rate + b * size / cores is " in shown.output
    assert f"as likely to have given these trials as the rival runtime = {ROOT}" in shown.output
    assert "The rival is rejected and the law is not." in shown.output
    reported = CliRunner().invoke(app, ["report", str(run)])
    assert reported.exit_code == 0, reported.output
    assert f"as the rival runtime = {ROOT}" in (run / "report.html").read_text().replace("\u00a0", " ")


def test_json_and_python_have_the_same_verdict(make: Make) -> None:
    run = make(asking(ROOT))
    document = json.loads(CliRunner().invoke(app, ["show", str(run), "--json"]).output)
    answer = insitu.open_run(run).answer
    assert answer is not None
    assert answer.verdict is not None
    assert answer.verdict.preferred is Side.LAW
    found = document["found"]["verdict"]
    assert found["log_odds"] == pytest.approx(answer.verdict.log_odds)
    assert found["law"]["side"] == "law"
    assert {one["name"] for one in found["rival"]["fit"]["estimates"]} == {"a", "b", "c"}


def test_a_design_that_is_fixed_ends_with_1_where_nothing_is_decided(make: Make) -> None:
    text = asking(ROOT, design="kind: factorial, replicates: 1", budget="trials: 60")
    decided = make(text)
    plan, _ = experiment.read(decided.parent / "plan" / "plan.yaml")
    _conclude(plan, Outcome(Ending.COMPLETE), summary_of(decided), decided)


def test_much_noise_decides_nothing(make: Make) -> None:
    text = asking(ROOT, design="kind: factorial, replicates: 1", budget="trials: 60")
    run = make(text, noise_s=20.0)
    plan, _ = experiment.read(run.parent / "plan" / "plan.yaml")
    with pytest.raises(GoalNotReached, match="the trials do not decide between the law and its rival"):
        _conclude(plan, Outcome(Ending.COMPLETE), summary_of(run), run)


REFUSED = [
    (
        asking("b * (size / cores) + a * size / rate + c"),
        "plan.yaml:8:36: the law and the rival predict the same at every trial that the plan allows",
    ),
    (asking(LARGER, budget="trials: 8"), "a budget of 8 trials is too few for the rival: the first look takes 9"),
    (asking("c + a * size / rate + d * 2 * size / rate"), "no trial that the plan allows tells a and d apart"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_no_trial_could_decide_is_refused_before_any(tmp_path: Path, text: str, message: str) -> None:
    plan, blueprint = experiment.read(plans.write(tmp_path, text, MODEL))
    with pytest.raises(InputError) as caught:
        doubts_of(prepared(plan, blueprint), None)
    assert message in str(caught.value)


def test_a_sound_comparison_raises_no_doubt(tmp_path: Path) -> None:
    plan, blueprint = experiment.read(plans.write(tmp_path, asking(ROOT), MODEL))
    assert doubts_of(prepared(plan, blueprint), None) == ()


def foreseen(folder: Path, rival: str, budget: str = "trials: 60") -> RivalPreview:
    plan, blueprint = experiment.read(plans.write(folder, asking(rival, budget=budget), MODEL))
    return rival_preview_of(plan, blueprint, most_trials(plan, 0))


def test_more_noise_takes_more_trials(tmp_path: Path) -> None:
    found = foreseen(tmp_path, ROOT)
    assert found.containing is None
    for taken in ([one.if_law for one in found.decided], [one.if_rival for one in found.decided]):
        known = [one for one in taken if one is not None]
        assert known == sorted(known)
        assert len(known) >= 4
        assert known[-1] > known[0]
    assert foreseen(tmp_path, ROOT, "trials: 12").decided[-1].if_law is None


def test_the_preview_is_near_to_what_experiments_take(tmp_path: Path) -> None:
    """With parameters as large as their units, which is what the preview takes for want of better."""

    def nominal(levels: Mapping[str, float], rng: np.random.Generator, noise_s: float) -> dict[str, float]:
        mean_s = 1 + levels["size"] / levels["rate"] + 1e-6 * levels["size"] / levels["cores"]
        return {"wall_time": mean_s + rng.normal(0, noise_s)}

    plan, blueprint = experiment.read(plans.write(tmp_path, asking(ROOT), MODEL))
    expected = next(one.if_law for one in foreseen(tmp_path, ROOT).decided if one.spread == 0.5)
    assert expected is not None
    noise_s = 0.5 * largest_difference_s(plan)
    taken = [trials_of(plan, blueprint, partial(nominal, noise_s=noise_s), seed) for seed in range(9)]
    assert 0.6 < expected / float(np.median(taken)) < 1.7, (expected, taken)


def largest_difference_s(plan: Plan) -> float:
    """Of the law with parameters of one and the rival that comes nearest to it, over all allowed trials."""
    levels = {factor.variable: factor.levels for factor in plan.factors}
    every = np.array(list(product(levels["size"], levels["rate"], levels["cores"])))
    size, rate, cores = every.T
    law = 1 + size / rate + 1e-6 * size / cores
    rival = np.column_stack([np.ones(len(every)), size / rate, 1e-6 * size / cores**0.5])
    return float(np.abs(law - rival @ np.linalg.lstsq(rival, law, rcond=None)[0]).max())


def trials_of(plan: Plan, blueprint: Blueprint, subject: Truth, seed: int) -> int:
    steering = steering_of(plan, blueprint, 60)
    node = SimulatedNode(blueprint.variables, subject, np.random.default_rng(seed))
    trials: list[StoredTrial] = []
    while (step := steering.advance(Ledger(trials), partial(tuple, trials), 0.0)).outcome is None:
        trials += [node.stored(planned) for planned in step.trials]
    return len(trials)


def test_what_check_says(tmp_path: Path) -> None:
    found = foreseen(tmp_path, LARGER)
    lines: Sequence[str] = list(rival_previews.lines(found))
    assert lines[0].startswith("then 2 after each look, until one of the laws is rejected, at most 60 in all")
    assert lines[1] == "the rival contains the law: differences below 10 % do not matter"
    assert "the least difference that matters" in lines[2]
    assert "if the law holds" in lines[3]
    assert any("not foreseeably" in line for line in lines)
    document = json.loads(json.dumps(rival_previews.document(found), allow_nan=False))
    assert document["containing"] == "rival"
    assert document["decided"][0]["trials_if_law"] == found.decided[0].if_law
    assert document["first_trials"] == found.first
