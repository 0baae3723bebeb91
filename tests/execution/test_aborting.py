"""Trials that end, or do not begin, for the node's sake."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from insitu.injectors.anomalies.client import LoadServer, RunningLoad
from insitu.injectors.anomalies.order import StartLoad
from insitu.injectors.processes import start_time
from insitu.orchestrator.errors import Aborted, Postponed
from insitu.orchestrator.execution import page_cache
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Condition, Guards, Probe, Relation
from insitu.orchestrator.store.records import Assignment, PlannedTrial, TrialState
from tests import machine

RUN = f"aborttest{os.getpid()}"
GUARDS = Guards(trial_timeout_s=60, free_disk_bytes=0)
FULL = replace(GUARDS, abort_when=(Condition("host.disk.free", Relation.BELOW, 1e18),))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    setup = AgentSetup(RUN, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent
    assert list((tmp_path / "work").iterdir()) == []
    assert machine.leftovers(f"insitu-{RUN}", (str(tmp_path / "work"),), 5.0) == []


def order(script: str, guards: Guards, prepare: str = "") -> TrialOrder:
    return TrialOrder(
        planned=PlannedTrial(1, 1, Assignment(())),
        command=Program(("sh", "-c", script)),
        prepare=Program(("sh", "-c", prepare)) if prepare else None,
        environment=(),
        page_cache="cold",
        levels=(),
        parameters=(),
        guards=guards,
    )


def until(flag: Path) -> Guards:
    """Guards with a probe that fails as soon as `flag` is there."""
    probe = Probe(("sh", "-c", f"test ! -e {flag} || {{ echo flagged; exit 9; }}"), every_s=0.1, timeout_s=10.0)
    return replace(GUARDS, probe=probe)


FLAGGED = "the probe ended with exit status 9: flagged"


def aborted(outcome: TrialOutcome) -> str:
    record = pickle.loads(pickle.dumps(outcome)).record  # as ray does it
    assert record.state is TrialState.ABORTED
    assert record.exit_status is None
    (reason,) = record.reasons
    assert isinstance(reason, str)
    return reason


def test_nothing_starts_on_a_node_that_is_not_well(agent: NodeAgent, tmp_path: Path) -> None:
    with pytest.raises(Postponed) as caught:
        agent.run(order(f"touch {tmp_path}/ran", FULL))
    assert caught.value.message.startswith("host.disk.free is ")
    assert caught.value.message.endswith("below 1e+06 TB")
    assert caught.value.exit_code == 1
    with pytest.raises(Postponed):
        agent.make_data((("text", Program(("echo", "x"))),), FULL)
    assert list(agent.bench.workspace.data.iterdir()) == []
    assert agent.run(order("true", GUARDS)).record.state in (TrialState.VALID, TrialState.INVALID)


def test_a_condition_that_comes_true_ends_the_trial(agent: NodeAgent) -> None:
    """The subject itself brings the condition about: it uses memory, which is the node's."""
    available = agent._watch._state.read("host.memory.available")
    assert available is not None
    least = Condition("host.memory.available", Relation.BELOW, available - 1e9)
    script = "{python} -c 'import time; x = bytearray(2_500_000_000); time.sleep(1000)'"
    reason = aborted(agent.run(order(script, replace(GUARDS, abort_when=(least,)))))
    assert reason.startswith("host.memory.available is ")
    assert ", below " in reason


def test_a_probe_that_fails_ends_the_trial(agent: NodeAgent) -> None:
    slot = agent.bench.workspace.slot  # the one folder that the subject and the probe both see
    flag = slot / "flag"
    try:
        assert aborted(agent.run(order(f"touch {flag}; sleep 1000 & sleep 1000", until(flag)))) == FLAGGED
        with pytest.raises(Postponed, match=FLAGGED):
            agent.run(order("true", until(flag)))
    finally:
        flag.unlink()
    assert agent.run(order("true", until(flag))).record.exit_status == 0


def test_a_probe_that_fails_ends_the_preparation(agent: NodeAgent) -> None:
    flag = agent.bench.workspace.slot / "flag"
    try:
        assert aborted(agent.run(order("true", until(flag), prepare=f"touch {flag}; sleep 1000"))) == FLAGGED
    finally:
        flag.unlink()


def come_true(agent: NodeAgent, flag: Path, guards: Guards) -> None:
    flag.touch()
    while not agent._watch.look(guards).problem:
        time.sleep(0.01)


def test_a_probe_that_fails_while_the_input_is_written_back_ends_the_trial(
    agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = agent.bench.workspace.slot
    flag, ran = slot / "flag", slot / "ran"
    write_back = page_cache._write_back

    def late(descriptor: int, size: int, meanwhile: Callable[[], None]) -> None:
        come_true(agent, flag, until(flag))
        write_back(descriptor, size, meanwhile)

    monkeypatch.setattr(page_cache, "_write_back", late)
    try:
        assert aborted(agent.run(order(f"touch {ran}", until(flag), prepare="echo input"))) == FLAGGED
        assert not ran.exists()
    finally:
        flag.unlink()


def test_a_probe_that_fails_while_a_level_is_applied_ends_the_trial(
    agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = agent.bench.workspace.slot
    flag, ran = slot / "flag", slot / "ran"
    start_load = LoadServer.start_load

    def late(server: LoadServer, load: StartLoad, meanwhile: Callable[[], None]) -> RunningLoad:
        come_true(agent, flag, until(flag))
        return start_load(server, load, meanwhile)

    monkeypatch.setattr(LoadServer, "start_load", late)
    level = SetLevel("load", "anomaly.cpu", "core", 1.0)
    try:
        assert aborted(agent.run(replace(order(f"touch {ran}", until(flag)), levels=(level,)))) == FLAGGED
        assert not ran.exists()
    finally:
        flag.unlink()


def test_a_probe_that_fails_ends_the_making_of_data(agent: NodeAgent) -> None:
    flag = agent.bench.workspace.slot / "flag"
    programs = (("text", Program(("sh", "-c", f"touch {flag}; sleep 1000"))),)
    try:
        with pytest.raises(Aborted) as caught:
            agent.make_data(programs, until(flag))
    finally:
        flag.unlink()
    assert caught.value.message == f"{FLAGGED}, while {{data}}/text was made"
    assert not isinstance(caught.value, Postponed)


def test_waiting_is_over_as_soon_as_the_node_is_well(agent: NodeAgent) -> None:
    flag = agent.bench.workspace.slot / "flag"
    flag.touch()
    guards = replace(GUARDS, probe=Probe(("sh", "-c", f"rm {flag} 2>/dev/null && exit 1; exit 0"), 0.1, 10.0))
    began = time.time()
    record = None
    while record is None:
        with contextlib.suppress(Postponed):  # on a slow machine the next probe takes longer than one wait
            record = agent.run(order("true", guards)).record
    assert not flag.exists()
    assert record.exit_status == 0
    assert record.started_at > began, "waiting is not a part of the trial"


def test_a_subject_that_fills_its_scratch_folder_has_failed_by_itself(agent: NodeAgent) -> None:
    guards = replace(GUARDS, scratch_bytes=1e6)
    fill = "i=0; while :; do head -c 90000 /dev/zero > f$i; i=$((i+1)); done"
    record = agent.run(order(fill, guards)).record
    assert record.state is TrialState.FAILED
    assert record.reasons[0].startswith("scratch full")
