"""Every variable, set for real: brought about, read back, held by a subject, undone."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from insitu.injectors.processes import start_time
from insitu.injectors.registry import injectors
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.store.records import LevelVerdict
from tests.execution.test_held_levels import order

CAPS = {
    "cpu.cores": 0.5,
    "cpu.set": 1.0,
    "disk.read_rate": 10e6,
    "disk.write_rate": 10e6,
    "disk.read_iops": 100.0,
    "disk.write_iops": 100.0,
    "memory.limit": 256e6,
    "memory.high": 128e6,
    "net.rate_in": 1e6,
    "net.rate_out": 1e6,
    "net.delay": 0.01,
    "net.jitter": 0.01,
    "net.loss": 0.01,
}
LOADS = {"anomaly.cpu": 1.0, "anomaly.disk.rate": 1e6, "anomaly.net.rate": 1e5, "anomaly.memory": 32e6}

pytestmark = pytest.mark.root


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    run = f"vars{os.getpid()}"
    setup = AgentSetup(run, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent


def test_all_can_be_set_by_their_own_means_but_the_clock_of_processors_that_nothing_can_change(
    agent: NodeAgent,
) -> None:
    here = {name: one.capability(agent.bench.node) for name, one in injectors().items()}
    assert [name for name, one in here.items() if not one.settable] == ["cpu.frequency"]
    assert [f"{name}: {one.reason}" for name, one in here.items() if one.weaker] == []


@pytest.mark.parametrize("levels", [CAPS, LOADS], ids=["caps", "loads"])
def test_many_hold_in_one_trial(agent: NodeAgent, levels: dict[str, float]) -> None:
    asked = tuple(SetLevel(name, name, injectors()[name].unit, level) for name, level in levels.items())
    script = "dd if=/dev/zero of={scratch}/out bs=1M count=8 oflag=direct 2>/dev/null; sleep 1"
    record = agent.run(order("sh", "-c", script, levels=asked)).record
    assert record.exit_status == 0, record.reasons
    assert {level.variable: level.requested for level in record.levels} == levels
    for level in record.levels:
        injector = injectors()[level.variable]
        assert level.mechanism == injector.capability(agent.bench.node).mechanism
        assert level.verdict is not LevelVerdict.UNSET
        if injector.rest == math.inf and level.achieved is not None:  # other load takes from it, and never adds
            assert level.achieved <= level.requested * (1 + injector.tolerance) + level.uncertainty, level
