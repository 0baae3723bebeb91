"""Whole trials beside an added load: the subject feels it, the record says what it was and when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from insitu.injectors.options import Schedule, Window
from insitu.injectors.processes import start_time
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.store.records import LevelVerdict, TrialState
from insitu.orchestrator.store.run import RunStore
from tests.execution.test_trials import GUARDS, order

RUN = f"contention{os.getpid()}"
BURN = "import time\nwhile time.process_time() < 0.4: pass"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    setup = AgentSetup(RUN, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent
    assert list((tmp_path / "work").iterdir()) == []


def eight(**options: object) -> SetLevel:
    return SetLevel("crowd", "anomaly.cpu", "", 8.0, tuple(options.items()))  # type: ignore[arg-type]


def test_a_subject_that_computes_takes_longer_beside_a_load_that_computes(agent: NodeAgent) -> None:
    alone = agent.run(order("{python}", "-c", BURN, levels=(SetLevel("crowd", "anomaly.cpu", "", 0.0),))).record
    beside = agent.run(order("{python}", "-c", BURN, levels=(eight(preset="bigroots"),))).record
    assert beside.measurements["wall_time"] > 1.3 * alone.measurements["wall_time"]
    (level,) = beside.levels
    assert (level.verdict, level.mechanism) == (LevelVerdict.HELD, "load.cpu.bigroots")
    assert level.achieved == pytest.approx(8.0, rel=0.06)
    assert level.note.startswith("took ")
    assert beside.measurements["anomaly.cpu:cpu_s"] > 0.4
    assert not any("other processes used 1" in reason for reason in beside.reasons)
    assert beside.host["added_cores"] > 0.5
    assert [(event.kind, event.variable, event.planned_s) for event in beside.events] == [
        ("onset", "anomaly.cpu", None),
        ("offset", "anomaly.cpu", None),
    ]
    onset, offset = beside.events
    assert onset.actual_s < 0 < beside.measurements["wall_time"] - 0.1 < offset.actual_s
    assert offset.at - onset.at == pytest.approx(offset.actual_s - onset.actual_s)
    (unset,) = alone.levels
    assert (unset.verdict, unset.achieved, unset.mechanism) == (LevelVerdict.UNSET, 0.0, "none")
    assert alone.events == ()


def test_windows_reach_the_store(agent: NodeAgent, tmp_path: Path) -> None:
    windows = Schedule((Window(0.1, 0.3), Window(0.5, 0.7), Window(30.0, 31.0)))
    wanted = order("sleep", "0.9", levels=(eight(windows=windows),))
    outcome = agent.run(wanted)
    with RunStore.create(tmp_path / "kept", "name: x\n", "variables: {}\n") as store:
        store.add(wanted.planned)
        store.start(wanted.planned.trial)
        store.finish(outcome.record, outcome.samples)
        (stored,) = store.trials()
    assert stored.record is not None
    assert stored.record.events == outcome.record.events
    assert [(event.kind, event.planned_s) for event in stored.record.events] == [
        ("onset", 0.1),
        ("offset", 0.3),
        ("onset", 0.5),
        ("offset", 0.7),
    ]
    (level,) = stored.record.levels
    assert level.bound_share == pytest.approx(0.4 / stored.record.measurements["wall_time"], rel=0.1)


def test_windows_of_another_node_are_not_for_this_one(agent: NodeAgent) -> None:
    elsewhere = Schedule(by_node=(("no-such-node", (Window(0.0, 5.0),)),))
    record = agent.run(order("sleep", "0.3", levels=(eight(windows=elsewhere),))).record
    (level,) = record.levels
    assert (level.verdict, level.achieved, level.bound_share) == (LevelVerdict.SLACK, 0.0, 0.0)
    assert record.events == ()


@pytest.mark.root
def test_a_cap_that_a_load_leaves_no_room_for_is_slack_and_says_why(agent: NodeAgent) -> None:
    cores = SetLevel("cores", "cpu.cores", "core", 1.5)
    burn_twice = f"import os\nos.fork()\n{BURN}"
    record = agent.run(order("{python}", "-c", burn_twice, levels=(cores, eight()))).record
    capped, crowd = record.levels
    assert crowd.verdict is LevelVerdict.HELD
    assert capped.verdict in (LevelVerdict.SLACK, LevelVerdict.HELD)
    assert capped.bound_share < 0.5
    assert capped.note == "what was added beside the subject took the rest"


def test_a_subject_that_fails_beside_a_load_leaves_nothing_of_it(agent: NodeAgent) -> None:
    record = agent.run(order("{python}", "-c", "raise SystemExit(3)", levels=(eight(),))).record
    assert record.state is TrialState.FAILED
    assert agent.run(order("no-such-program", levels=(eight(),))).record.state is TrialState.FAILED
    for parent in agent.bench.node.hierarchies.parents.values():
        assert list(parent.glob(f"insitu-{RUN}-*cpu")) == []


def test_two_variables_that_ask_for_the_same_resource_are_refused(agent: NodeAgent) -> None:
    duty = SetLevel("duty", "anomaly.cpu.duty", "fraction", 0.5)
    with pytest.raises(CannotExecute, match="both ask for load of the cpu"):
        agent.run(order("true", levels=(eight(), duty)))


def test_a_part_of_a_process_is_refused(agent: NodeAgent) -> None:
    half = SetLevel("crowd", "anomaly.cpu", "", 2.5)
    with pytest.raises(CannotExecute, match=r"anomaly\.cpu = 2\.5 is not a multiple of 1"):
        agent.run(order("true", levels=(half,), guards=GUARDS))
