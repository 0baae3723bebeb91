"""A stopped agent without a guard is ended by whoever looks after it, and what it held is undone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from insitu.injectors import oversight
from insitu.injectors.contract import Ownership
from insitu.injectors.oversight import Oversight
from insitu.injectors.processes import Process, is_stopped, start_time
from insitu.injectors.recovery import Fate, journals, recover_all
from tests.injectors.holder import Holder, guards_of

RUN = f"oversight{os.getpid()}"


def end_guards(state: Path) -> None:
    for guard in guards_of(state):
        os.kill(guard, signal.SIGKILL)
        while start_time(guard):
            pass


def test_agents_of_another_command_that_executes_a_copy_of_the_run_are_left_alone(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oversight, "LEASE_S", 0.0)
    watcher = Oversight(Ownership(RUN), Process.current(), state / f"insitu-{RUN}-1.journal", tmp_path / "why")
    agent = Holder(RUN, tmp_path / f"insitu-{RUN}-t1")
    try:
        agent.process.send_signal(signal.SIGSTOP)
        while not is_stopped(agent.process.pid):
            pass
        end_guards(state)
        for _ in range(3):
            watcher.look()
        assert is_stopped(agent.process.pid)
        assert agent.left()
        assert not (tmp_path / "why").exists()
    finally:
        agent.end()
    assert [outcome.fate for outcome in recover_all()] == [Fate.CLEAN]


@pytest.mark.parametrize("writable", [True, False])
def test_what_a_stopped_agent_held_is_undone_whether_its_notice_can_be_written_or_not(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    monkeypatch.setattr(oversight, "LEASE_S", 0.0)
    notice = tmp_path / ("why" if writable else "no folder/why")
    agent = Holder(RUN, tmp_path / f"insitu-{RUN}-t1")
    command = Process.of(agent.process.pid)
    watcher = Oversight(Ownership(RUN), command, state / f"insitu-{RUN}-1.journal", notice)
    try:
        agent.process.send_signal(signal.SIGSTOP)
        while not is_stopped(agent.process.pid):
            pass
        end_guards(state)
        assert agent.left()
        watcher.look()
        watcher.look()
        assert agent.process.wait(timeout=10) == -signal.SIGKILL
        assert agent.left() == []
        assert journals(state) == ()
        assert notice.exists() is writable
    finally:
        agent.end()
