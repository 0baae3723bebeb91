"""Two laws compared by a whole run on a subject whose law is known: what ends it, and what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from experiments.simulated import SimulatedNode, Truth
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.design.stopping import Look
from insitu.orchestrator.estimation.analysis import analyse
from insitu.orchestrator.estimation.rivals.verdict import Side, Verdict
from insitu.orchestrator.execution.orders import TrialOrder, TrialOutcome
from insitu.orchestrator.report.document import run_document
from insitu.orchestrator.report.page import render_report
from insitu.orchestrator.report.summary import Standing, summarise
from insitu.orchestrator.report.terminal import render_summary
from insitu.orchestrator.report.verdicts import times
from insitu.orchestrator.steering.choice import answer_of
from insitu.orchestrator.steering.comparison import RivalLook, judge_rivals
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.steering.test_sequential import MODEL, PLAN, Beset, Ended, MissesAll, prepared
from tests.told_node import Watcher

CONSTANTS = "constants: {one: 1 core}\n"
ROOT = "c + a * size / rate + b * size / cores^0.5"
"""A rival: work goes with the root of the processors."""
LARGER = "c + a * size / rate + b * size / cores + d * size"

Compare = Callable[..., Ended]


def truth(
    levels: Mapping[str, float], rng: np.random.Generator, power: float = 1.0, noise_s: float = 0.1
) -> dict[str, float]:
    work_s = 0.1 + levels["size"] / levels["rate"] + 0.03e-6 * levels["size"] / levels["cores"] ** power
    return {"wall_time": work_s + rng.normal(0, noise_s)}


def asking(rival: str, more: str = "", design: str = "seed: 3", budget: str = "trials: 60") -> str:
    goal = f"{{comparison: runtime, rival: {rival}{more}}}"
    text = PLAN.replace("{effect: cores -> runtime, relative_half_width: 0.1}", goal)
    return text.replace("kind: sequential, seed: 3", design).replace("trials: 60", budget)


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Execute a comparison on a simulated subject, with the real loop and a real store."""

    def execute(
        plan: str, truth: Truth = truth, model: str = MODEL, kind: type[SimulatedNode] = SimulatedNode
    ) -> Ended:
        loaded, blueprint = experiment.read(plans.write(tmp_path / "plan", plan, model))
        node = kind(blueprint.variables, truth, np.random.default_rng(11))
        with RunStore.create(tmp_path / "run", loaded.plan_source, loaded.model_source, {}) as store:
            ready = prepared(loaded, blueprint)
            if loaded.design.kind == "factorial":
                store.plan_trials(experiment.design_trials(loaded, blueprint))
            outcome = loop.execute(ready, store, node, Watcher(), node.clock, node.pause)  # type: ignore[arg-type]
            return Ended(outcome, loaded, blueprint, store.trials())

    return execute


def verdict_of(ended: Ended) -> Verdict:
    found = ended.answer.verdict
    assert found is not None
    return found


def test_it_ends_when_the_rival_is_rejected(compare: Compare) -> None:
    ended = compare(asking(ROOT))
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    assert verdict_of(ended).preferred is Side.LAW
    assert len(ended.trials) <= 20
    assert ended.outcome.text == f"the rival is rejected after {len(ended.trials)} valid trials"


def test_it_ends_when_the_law_is_rejected(compare: Compare) -> None:
    ended = compare(asking(ROOT), partial(truth, power=0.5, noise_s=0.05))
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    assert verdict_of(ended).preferred is Side.RIVAL
    assert ended.outcome.next_step == "write the rival into the model, and ask further"


def test_a_law_is_enough_where_a_larger_one_differs_by_too_little_to_matter(compare: Compare) -> None:
    ended = compare(asking(LARGER))
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    assert verdict_of(ended).preferred is Side.LAW
    assert verdict_of(ended).rival.against < 0
    assert ended.outcome.text.startswith(
        "the rival is rejected where it differs from the law by 10 % or more, after"
    )


def test_a_rival_that_is_curved_in_its_parameters(compare: Compare) -> None:
    law = "c + a * size / rate + b * size / (cores / one)^k"
    rival = f"{{law: {law}, parameters: {{k: {{start: 0.5}}, b: {{unit: s/MB}}}}}}"
    ended = compare(asking(rival), partial(truth, power=1.6), MODEL + CONSTANTS)
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    verdict = verdict_of(ended)
    assert verdict.preferred is Side.RIVAL
    (power,) = (one for one in verdict.rival.fit.estimates if one.name == "k")
    assert power.reported_low < 1.6 < power.reported_high
    assert verdict.rival.against_difference is not None


def test_trials_are_where_the_laws_differ(compare: Compare) -> None:
    """Both laws say the same of the rate; a design for all parameters would vary it as much as the others."""
    ended = compare(asking(ROOT), partial(truth, noise_s=0.4))
    later = [trial.planned for trial in ended.trials if trial.planned.block > 1 and not trial.planned.baseline]
    sizes = [one.assignment.as_dict()["size"] for one in later]
    assert len(later) >= 6
    assert sizes.count(32e6) > 0.6 * len(sizes)


def test_the_budget_ends_it_with_the_odds_so_far(compare: Compare) -> None:
    ended = compare(asking(ROOT, budget="trials: 14"), partial(truth, noise_s=2.0))
    assert ended.outcome.ending is Ending.BUDGET
    assert len(ended.trials) == 14
    assert "the budget of trials is used up: the " in ended.outcome.text
    assert "neither law is rejected" in ended.outcome.text
    assert verdict_of(ended).preferred is None


def test_a_rival_without_any_parameter(compare: Compare) -> None:
    ended = compare(asking("size / rate"))
    assert verdict_of(ended).preferred is Side.LAW


def test_laws_that_differ_in_how_trials_spread_alone(compare: Compare) -> None:
    def uneven(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        return {"wall_time": truth(levels, rng, noise_s=0.0)["wall_time"] * rng.lognormal(0, 0.2)}

    rival = "{law: c + a * size / rate + b * size / cores, noise: lognormal}"
    ended = compare(asking(rival), uneven)
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    assert verdict_of(ended).preferred is Side.RIVAL


def test_laws_with_a_measured_variable_on_the_way(compare: Compare) -> None:
    """The rival knows nothing of the time that the processor is busy, and the law knows it as measured."""
    model = MODEL.replace("  runtime: {unit", "  busy: {unit: s, measured_by: cpu_time}\n  runtime: {unit")
    model = model.replace("b * size / cores", "b * busy\n  busy: w * size / cores").replace(
        "  b: {unit: core*s/MB}", '  b: {unit: ""}'
    )

    def mediated(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        busy_s = 0.03e-6 * levels["size"] / levels["cores"] * rng.lognormal(0, 0.3)
        wall_s = 0.1 + levels["size"] / levels["rate"] + busy_s + rng.normal(0, 0.05)
        return {"cpu_time": busy_s, "wall_time": wall_s}

    ended = compare(asking("c + a * size / rate + d * size"), mediated, model)
    assert ended.outcome.ending is Ending.REACHED, ended.outcome
    assert verdict_of(ended).preferred is Side.LAW


def test_two_spellings_of_one_law_cannot_be_told_apart(compare: Compare) -> None:
    ended = compare(asking("b * (size / cores) + a * size / rate + c"))
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE
    assert "predict the same at every trial that the plan allows" in ended.outcome.text
    assert ended.trials == ()


def test_a_rival_whose_parameters_no_trial_tells(compare: Compare) -> None:
    ended = compare(asking("c + a * size / rate + d * 2 * size / rate"))
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE
    assert ended.outcome.text.startswith("no trial that the plan allows tells a and d apart")


def test_two_wrong_laws_are_both_rejected(compare: Compare) -> None:
    """Work goes with the square of the size, and neither law knows of it."""

    def square(levels: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
        return {"wall_time": 0.5 + 6e-15 * levels["size"] ** 2 / levels["cores"] + rng.normal(0, 0.01)}

    ended = compare(asking("c + d * rate + b * cores", more=", tolerance: 0.02"), square)
    assert ended.outcome.ending is Ending.MODEL_REJECTED, ended.outcome
    assert ended.outcome.text.startswith("neither law holds: the law ")
    assert ended.outcome.next_step


class Useless(SimulatedNode):
    """No trial is valid, and none of its levels is to blame."""

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        return replace(outcome, record=replace(outcome.record, state=TrialState.INVALID))


@pytest.mark.parametrize(("kind", "batches"), [(Useless, 3), (Beset, 9)])
def test_trials_that_never_come_out_stall_it(compare: Compare, kind: type[SimulatedNode], batches: int) -> None:
    ended = compare(asking(ROOT, budget="trials: 600"), kind=kind)
    assert ended.outcome.ending is Ending.STALLED
    assert ended.outcome.text == f"no trial of the last {batches} batches could be fitted"


def test_levels_that_are_never_held_leave_nothing_to_compare(compare: Compare) -> None:
    ended = compare(asking(ROOT, budget="trials: 600"), kind=MissesAll)
    assert ended.outcome.ending is Ending.UNIDENTIFIABLE


def test_the_budget_of_time(compare: Compare) -> None:
    ended = compare(asking(ROOT, budget="time: 30 s"), partial(truth, noise_s=2.0))
    assert ended.outcome.ending is Ending.BUDGET
    assert ended.outcome.text.startswith("the budget of time is used up: ")


def test_a_run_that_is_killed_anywhere_goes_on_as_it_would_have(compare: Compare, tmp_path: Path) -> None:
    whole = compare(asking(ROOT), partial(truth, noise_s=0.3))
    node = SimulatedNode(whole.blueprint.variables, partial(truth, noise_s=0.3), np.random.default_rng(11))

    class Killed(Exception):
        pass

    class Fragile(Watcher):
        def ended(self, record: object, ledger: object) -> None:
            raise Killed

    with RunStore.create(tmp_path / "again", whole.plan.plan_source, whole.plan.model_source, {}) as store:
        outcome: Outcome | None = None
        while outcome is None:
            try:
                ready = prepared(whole.plan, whole.blueprint)
                outcome = loop.execute(ready, store, node, Fragile(), node.clock, node.pause)  # type: ignore[arg-type]
            except Killed:
                continue
        assert store.trials() == whole.trials
    assert outcome == whole.outcome


def test_a_factorial_design_answers_with_what_its_trials_say(compare: Compare) -> None:
    ended = compare(asking(ROOT, design="kind: factorial, replicates: 1", budget="trials: 60"))
    assert ended.outcome.ending is Ending.COMPLETE
    assert verdict_of(ended).preferred is Side.LAW


def looks(evidence: tuple[float, ...], trials: tuple[int, ...], verdict: Verdict) -> list[RivalLook]:
    found = []
    for size, count in zip(evidence, trials, strict=True):
        law = replace(verdict.law, against=size, against_difference=None)
        rival = replace(verdict.rival, against=-5.0, against_difference=None)
        found.append(RivalLook(Look(count, math.inf), replace(verdict, law=law, rival=rival)))
    return found


def test_evidence_that_does_not_grow_while_trials_double_stalls_it(compare: Compare) -> None:
    verdict = verdict_of(compare(asking(ROOT)))
    many, few = (8, 10, 12, 14, 16, 18), (8, 9, 10, 11, 12, 13)
    flat, growing = (1.0, 0.9, 0.8, 0.9, 0.7, 0.9), (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    ruling = judge_rivals(looks(flat, many, verdict), 0.1)
    assert ruling is not None
    assert ruling.text == "10 further valid trials brought no evidence against either law"
    assert judge_rivals(looks(growing, many, verdict), 0.1) is None
    assert judge_rivals(looks(flat, few, verdict), 0.1) is None
    assert judge_rivals([], 0.1) is None


def test_what_is_shown_of_a_decision(compare: Compare) -> None:
    ended = compare(asking(ROOT))
    analysis = analyse(ended.blueprint, ended.trials, ended.plan.goal)
    summary = summarise(ended.blueprint, ended.trials, analysis, {}, ended.plan.goal, 0.03, ended.answer)
    law, rival = "runtime = c + a * size / rate + b * size / cores", f"runtime = {ROOT}"
    odds = times(verdict_of(ended).log_odds)
    expected = f"The law {law} is {odds} as likely to have given these trials as the rival {rival}"
    assert summary.headline == expected
    assert "20 times decides: so the wrong law is chosen in at most 5 % of experiments" in summary.conditions
    by_title = {reason.title: reason for reason in summary.reasons}
    assert by_title["Decided"].standing is Standing.GOOD
    assert by_title["Decided"].text == "The rival is rejected and the law is not."
    assert by_title["The rival"].text.startswith(f"{rival}, with c = ")
    page = render_report(summary).replace("\u00a0", " ")
    assert "There is no answer" not in page
    assert f"Does the model's law give runtime, or the rival {ROOT}" in unescape(page)
    assert "is enough" not in page
    assert f"the rival {rival}" in page
    assert render_summary(summary) is not None
    document = json.loads(json.dumps(run_document(summary), allow_nan=False))
    assert document["goal"]["rival"]["text"] == ROOT
    assert document["found"]["verdict"]["rival"]["against"] == pytest.approx(verdict_of(ended).rival.against)


def test_what_is_shown_while_it_is_open(compare: Compare) -> None:
    ended = compare(asking(ROOT, budget="trials: 14"), partial(truth, noise_s=2.0))
    analysis = analyse(ended.blueprint, ended.trials, ended.plan.goal)
    summary = summarise(ended.blueprint, ended.trials, analysis, {}, ended.plan.goal, 0.03, ended.answer)
    assert summary.headline.startswith("Open between the law runtime = ")
    by_title = {reason.title: reason for reason in summary.reasons}
    assert by_title["Not decided"].standing is Standing.WARNING
    early = answer_of(ended.plan, ended.blueprint, ended.trials[:4])
    assert early is None
    assert summarise(ended.blueprint, (), analyse(ended.blueprint, (), ended.plan.goal), {}, ended.plan.goal)
