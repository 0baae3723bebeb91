"""Whoever of those that hold a load is killed or stopped: nothing of it is left after the lease and one second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from insitu.injectors.guard import LEASE_S
from insitu.injectors.journal import read
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import journals

PROMISED_S = LEASE_S + 1.0


@dataclass(frozen=True)
class Holder:
    """The process, with what it said that it made."""

    process: subprocess.Popen[str]
    server: int
    others: tuple[int, ...]
    paths: tuple[Path, ...]

    def left(self) -> list[str]:
        pids = [str(pid) for pid in (self.server, *self.others) if start_time(pid)]
        return pids + [str(path) for path in self.paths if path.exists()]


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    command = [sys.executable, "-m", "tests.injectors.anomalies.holder", f"loadkill{os.getpid()}", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids, _, paths = process.stdout.readline().strip().partition(";")
    server, *others = map(int, pids.split())
    one = Holder(process, server, tuple(others), tuple(map(Path, paths.split())))
    assert len(one.others) == 2 + 3  # two leaders, three workers
    assert all(path.exists() for path in one.paths)
    yield one
    process.kill()
    process.communicate()


def assert_clean_in_time(one: Holder, state: Path) -> None:
    deadline = time.monotonic() + PROMISED_S
    while (one.left() or journals(state)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert one.left() == []
    assert journals(state) == ()


def test_the_agent_is_killed(holder: Holder, state: Path) -> None:
    holder.process.kill()
    assert_clean_in_time(holder, state)


def test_the_agent_is_killed_while_the_server_and_the_leaders_are_stopped(holder: Holder, state: Path) -> None:
    for pid in (holder.server, *holder.others):
        os.kill(pid, signal.SIGSTOP)
    holder.process.kill()
    assert_clean_in_time(holder, state)


def test_the_agent_is_stopped(holder: Holder, state: Path) -> None:
    holder.process.send_signal(signal.SIGSTOP)
    assert_clean_in_time(holder, state)


def test_the_server_is_killed(holder: Holder, state: Path) -> None:
    os.kill(holder.server, signal.SIGKILL)
    deadline = time.monotonic() + PROMISED_S
    while any(map(start_time, holder.others)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(start_time, holder.others))
    (journal,) = journals(state)
    assert read(journal).pending  # its groups and files wait for the agent
    holder.process.kill()
    assert_clean_in_time(holder, state)
