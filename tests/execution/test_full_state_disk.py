"""The disk that journals are on fills up while a node works: the message names that disk, not the run's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from experiments.benchmarks.trials import order
from insitu.injectors.processes import start_time
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.store.records import TrialState

RUN = f"fulltest{os.getpid()}"


@pytest.fixture
def small_state(state: Path) -> Iterator[Path]:
    """The state folder on a disk of its own."""
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "insitu-test", str(state)], check=True)
    yield state
    subprocess.run(["umount", str(state)], check=True)


def fill(folder: Path) -> Path:
    path, left = folder / "filling", os.statvfs(folder)
    path.write_bytes(bytes(left.f_bavail * left.f_frsize))
    return path


def run_until_refused(agent: NodeAgent, trials: int = 20) -> None:
    """The journal may have some room of its own left."""
    for _ in range(trials):
        agent.run(order("true"))


@pytest.mark.root
def test_a_full_disk_of_the_journal_is_named_and_work_goes_on_once_there_is_room(
    tmp_path: Path, small_state: Path
) -> None:
    setup = AgentSetup(RUN, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        filling = fill(small_state)
        with pytest.raises(CannotExecute) as caught:
            run_until_refused(agent)
        assert caught.value.message == f"the disk of the state folder {small_state} is full"
        assert "INSITU_STATE" in (caught.value.hint or "")
        filling.unlink()
        assert agent.run(order("sleep", "0.05")).record.state in (TrialState.VALID, TrialState.INVALID)
    assert list((tmp_path / "work").iterdir()) == []
