"""How a run goes on, waits and ends when a node comes to a state in which the plan lets nothing go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from insitu.injectors.confinement import NO_CAPS
from insitu.injectors.demand import Demand
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.errors import Aborted, CannotExecute, InputError
from insitu.orchestrator.execution.conditions.host_state import HostState
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.blast_radius import allowed
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.radius import Radius
from insitu.orchestrator.steering.endings import Ending, Outcome
from insitu.orchestrator.steering.fixed import MOST_REPLACEMENTS, FixedSteering
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.injectors import nodes
from tests.told_node import Node, Watcher


@pytest.fixture
def prepared(tmp_path: Path) -> experiment.Experiment:
    plan, blueprint = experiment.read(plans.write(tmp_path / "plan"))
    plan = replace(plan, guards=replace(plan.guards, node_wait_s=10.0))
    radius = Radius(allowed(plan.blast_radius, None), NO_CAPS, Demand())
    return experiment.Experiment(plan, blueprint, (), (), 30, radius, nodes.node())


@pytest.fixture
def store(tmp_path: Path, prepared: experiment.Experiment) -> Iterator[RunStore]:
    plan = prepared.plan
    with RunStore.create(tmp_path / "run", plan.plan_source, plan.model_source, {}) as store:
        store.plan_trials(experiment.design_trials(plan, prepared.blueprint))
        yield store


def execute(prepared: experiment.Experiment, store: RunStore, node: Node, watcher: Watcher) -> Outcome:
    return loop.execute(prepared, store, node, watcher, node.clock, node.pause)  # type: ignore[arg-type]


def states(store: RunStore) -> list[TrialState]:
    return [trial.state for trial in store.trials()]


def test_an_aborted_trial_ends_the_run_and_is_replaced_when_it_resumes(
    prepared: experiment.Experiment, store: RunStore
) -> None:
    node, watcher = Node(TrialState.VALID, TrialState.ABORTED), Watcher()
    outcome = execute(prepared, store, node, watcher)
    assert outcome == Outcome(Ending.ABORTED, "aborted: it was aborted")
    assert states(store) == [TrialState.VALID, TrialState.ABORTED, *[TrialState.PLANNED] * 8]
    assert execute(prepared, store, Node(), watcher) == Outcome(Ending.COMPLETE)
    *_, last = store.trials()
    assert last.planned.replaces == 2
    assert states(store).count(TrialState.VALID) == 10


def test_aborts_do_not_count_as_attempts(prepared: experiment.Experiment, store: RunStore) -> None:
    for _ in range(2 * MOST_REPLACEMENTS):
        assert execute(prepared, store, Node(TrialState.ABORTED), Watcher()).ending is Ending.ABORTED
    assert execute(prepared, store, Node(), Watcher()) == Outcome(Ending.COMPLETE)


@pytest.mark.parametrize("before", [0, 1, 9])
def test_an_abort_takes_nothing_of_a_budget_that_is_exact(
    prepared: experiment.Experiment, store: RunStore, before: int
) -> None:
    exact = replace(prepared, most_trials=10)
    node = Node(*[TrialState.VALID] * before, TrialState.ABORTED)
    assert execute(exact, store, node, Watcher()).ending is Ending.ABORTED
    steering = FixedSteering(exact.plan, exact.most_trials)
    assert steering.advance(Ledger(store.trials()), store.trials, 0.0).outcome is None
    assert execute(exact, store, Node(), Watcher()) == Outcome(Ending.COMPLETE)
    assert [trial.planned.replaces for trial in store.trials()] == [None] * 10 + [before + 1]


def test_what_an_abort_leaves_of_a_budget_goes_to_the_same_trial(
    prepared: experiment.Experiment, store: RunStore
) -> None:
    exact = replace(prepared, most_trials=10)
    node = Node(TrialState.INVALID, TrialState.VALID, TrialState.ABORTED)
    assert execute(exact, store, node, Watcher()).ending is Ending.ABORTED
    text = "1 of 10 planned trials has no valid result (trial 1)"
    assert execute(exact, store, Node(), Watcher()) == Outcome(Ending.BUDGET, text)


def test_an_abort_is_no_failure_of_the_subject(prepared: experiment.Experiment, store: RunStore) -> None:
    spoilt = (TrialState.FAILED, TrialState.FAILED, TrialState.ABORTED)
    assert execute(prepared, store, Node(*spoilt), Watcher()).ending is Ending.ABORTED
    again = Node(TrialState.FAILED, TrialState.FAILED, TrialState.VALID)
    assert execute(prepared, store, again, Watcher()) == Outcome(Ending.COMPLETE)


def test_a_node_that_gets_well_again_is_waited_for(prepared: experiment.Experiment, store: RunStore) -> None:
    node, watcher = Node(None, None, TrialState.VALID, None, None, None), Watcher()
    assert execute(prepared, store, node, watcher) == Outcome(Ending.COMPLETE)
    waited = "waiting for the node: host.load1 is 9, above 3"
    assert watcher.stages == ["making the run's data", waited, waited]
    assert node.data_made == 1
    assert states(store) == [TrialState.VALID] * 10


def test_a_node_that_stays_unwell_before_the_first_trial(prepared: experiment.Experiment, store: RunStore) -> None:
    node = Node()
    node.well = False
    outcome = execute(prepared, store, node, Watcher())
    waited = "nothing was started, after waiting for 10 s"
    assert outcome == Outcome(Ending.ABORTED, f"aborted: host.load1 is 9, above 3; {waited}")
    assert node.now == 11.0
    assert set(states(store)) == {TrialState.PLANNED}


def test_a_node_that_stays_unwell_later(prepared: experiment.Experiment, store: RunStore) -> None:
    class Worsening(Node):
        def run_trial(self, order: TrialOrder) -> TrialOutcome:
            self.well = order.planned.trial < 4
            return super().run_trial(order)

    outcome = execute(prepared, store, Worsening(), Watcher())
    assert outcome.ending is Ending.ABORTED
    assert states(store) == [TrialState.VALID] * 3 + [TrialState.PLANNED] * 7, "the fourth has not begun"
    assert execute(prepared, store, Node(), Watcher()) == Outcome(Ending.COMPLETE)


def test_data_that_cannot_be_made_now(prepared: experiment.Experiment, store: RunStore) -> None:
    class Sudden(Node):
        def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
            raise Aborted("host.load1 is 9, above 3, while {data}/text was made")

    outcome = execute(prepared, store, Sudden(), Watcher())
    assert outcome.text == "aborted: host.load1 is 9, above 3, while {data}/text was made"


def test_a_condition_that_cannot_be_watched_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("meminfo", "loadavg"):
        (tmp_path / name).write_text(Path("/proc", name).read_text())
    monkeypatch.setattr(experiment, "HostState", partial(HostState, proc=tmp_path))  # a proc without pressure
    guards = "guards: {abort_when: [host.load1 > 9000, host.io.pressure_avg10 > 80%]}"
    path = plans.write(tmp_path / "plan", plans.PLAN.replace("guards: {trial_timeout: 20 s}", guards))
    with pytest.raises(CannotExecute) as caught:
        experiment.prepare(*experiment.read(path), tmp_path)
    assert caught.value.message == (
        f"{path}:14:42: host.io.pressure_avg10 cannot be watched here: "
        "this kernel gives no pressure information (PSI)"
    )
    assert "psi=1" in (caught.value.hint or "")


def test_a_probe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    guards = "guards: {probe: {command: [no-such-program]}}"
    path = plans.write(tmp_path / "plan", plans.PLAN.replace("guards: {trial_timeout: 20 s}", guards))
    with pytest.raises(InputError, match="the probe's program 'no-such-program' is not on this machine"):
        experiment.prepare(*experiment.read(path), tmp_path)


def insitu(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "insitu", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.ray
def test_from_the_command_line(tmp_path: Path) -> None:
    flag, run = tmp_path / "flag", tmp_path / "run"
    probe = f'[sh, -c, "if [ -e {flag} ]; then echo the queue is full; exit 2; fi"]'
    guards = f"guards: {{trial_timeout: 20 s, node_wait: 1 s, probe: {{command: {probe}, timeout: 10 s}}}}"
    plan = plans.write(tmp_path / "plan", plans.PLAN.replace("guards: {trial_timeout: 20 s}", guards))
    checked = json.loads(insitu("check", str(plan), "--out", str(run), "--json").stdout)
    assert checked["probe"]["timeout_s"] == 10
    assert [one["true_now"] for one in checked["abort_when"]] == [False, False]
    flag.touch()
    ended = insitu("run", str(plan), "--out", str(run), "--quiet")
    assert ended.returncode == 1
    said = "the probe ended with exit status 2: the queue is full; nothing was started, after waiting for 1 s"
    assert ended.stderr == f"ended: aborted: {said}\n  hint: when the node is well again: insitu resume {run}\n"
    with RunStore.open(run, read_only=True) as store:
        assert store.meta()["status"] == "aborted"
        assert set(states(store)) == {TrialState.PLANNED}
    flag.unlink()
    resumed = insitu("resume", str(run), "--quiet")
    assert resumed.returncode in (0, 1), resumed.stderr
    with RunStore.open(run, read_only=True) as store:
        assert store.meta()["status"] in ("complete", "invalid")
        assert TrialState.PLANNED not in states(store)
