"""Trials inside a capped run: the cap holds, and a trial that it held back does not count."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from insitu.injectors.confinement import Caps
from insitu.injectors.journal import read
from insitu.injectors.processes import start_time
from insitu.injectors.undo import UndoKind
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial, TrialRecord, TrialState
from tests import machine

pytestmark = pytest.mark.root

RUN = f"confinetest{os.getpid()}"
GUARDS = Guards(trial_timeout_s=60, free_disk_bytes=0)
BURN = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"

Agents = Callable[[Caps], NodeAgent]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with ExitStack() as stack:

        def agent(caps: Caps) -> NodeAgent:
            pid = os.getpid()
            setup = AgentSetup(RUN, tmp_path / "work", tmp_path, pid, start_time(pid), caps=caps)
            return stack.enter_context(closing(NodeAgent(setup)))

        yield agent
    assert machine.leftovers(f"insitu-{RUN}", (str(tmp_path / "work"),), 5.0) == []


def run(agent: NodeAgent, script: str, *levels: SetLevel) -> TrialRecord:
    order = TrialOrder(
        planned=PlannedTrial(1, 1, Assignment(())),
        command=Program(("{python}", "-c", script)),
        prepare=None,
        environment=(),
        page_cache="cold",
        levels=levels,
        parameters=(),
        guards=GUARDS,
    )
    return agent.run(order).record


def because_of_the_cap(record: TrialRecord) -> list[str]:
    return [reason for reason in record.reasons if "blast radius" in reason]


def test_a_trial_that_was_held_back_is_invalid(agents: Agents) -> None:
    record = run(agents(Caps(0.1)), BURN)
    assert record.state is TrialState.INVALID
    (reason,) = because_of_the_cap(record)
    assert reason.startswith("held back by the blast radius: cores (a processor was taken away for ")
    assert record.measurements["cpu_time"] / record.measurements["wall_time"] < 0.15


def test_a_level_below_the_cap_is_held_as_ever(agents: Agents) -> None:
    record = run(agents(Caps(0.9, 2e9)), BURN, SetLevel("cores", "cpu.cores", "core", 0.3))
    assert because_of_the_cap(record) == []
    (cores,) = record.levels
    assert cores.achieved is not None
    assert cores.achieved < 0.31


def test_a_subject_that_wants_too_much_memory(agents: Agents) -> None:
    agent = agents(Caps(None, 100e6))
    record = run(agent, "x = bytearray(400_000_000)")
    assert record.state is TrialState.FAILED
    (reason,) = record.reasons
    assert reason.startswith("out of memory: ")
    assert reason.endswith(" (it reached its blast radius: memory (more was wanted))")
    assert because_of_the_cap(run(agent, "x = bytearray(10_000_000)")) == [], "an earlier trial's refusals"


def test_everything_of_the_run_is_inside(agents: Agents) -> None:
    agent = agents(Caps(0.9, 2e9))
    assert run(agent, "pass").exit_status == 0
    pending = [undo for undo in read(agent.bench.journal.path).pending if undo.kind is UndoKind.CGROUP]
    outer = set(agent.bench.confinement.group.paths)
    ahead = [Path(undo.path) for undo in pending if Path(undo.path) not in outer]
    assert {path.parent for path in ahead} >= outer
    assert [Path(undo.path) for undo in pending][-len(outer) :] == list(agent.bench.confinement.group.paths)


def test_a_cap_that_the_kernel_refuses(agents: Agents, tmp_path: Path) -> None:
    foreign = cgroups.plan_group(cgroups.discover(), f"insitu-{RUN}", ("cpu",))
    cgroups.create(foreign)
    try:
        with pytest.raises(CannotExecute, match=r"the limits of this run cannot be held here: .* exists already"):
            agents(Caps(0.5))
    finally:
        for path in foreign.paths:
            cgroups.remove(path)
    assert list((tmp_path / "work").iterdir()) == []
