"""A real run in which somebody stops or kills one of its processes during a trial: told, undone, resumable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from insitu.injectors import inventory, session
from insitu.injectors.guard import LEASE_S
from insitu.injectors.processes import all_pids, command_of, environment_of
from insitu.injectors.recovery import journals
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store.run import RunStore
from tests import machine, plans
from tests.injectors.holder import guards_of

pytestmark = pytest.mark.ray

SLEEPY = plans.subject("[sleep, '30']").replace("trial_timeout: 20 s", "trial_timeout: 40 s")
GONE_WITHIN_S = LEASE_S + 1.0 + 2.0
"""The promise is lease plus one second; the rest is for a slow machine's process table."""


class Run:
    """A run that is in the middle of a trial that takes long."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.directory, self.state = folder / "run", state
        plan = plans.write(folder / "plan", plan=SLEEPY)
        self.command = subprocess.Popen(
            [sys.executable, "-m", "insitu", "run", str(plan), "--out", str(self.directory), "--quiet"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=machine.heed_signals,
        )
        self._wait_for_a_trial()

    def _wait_for_a_trial(self) -> None:
        deadline = time.monotonic() + 60
        while self.command.poll() is None and time.monotonic() < deadline:
            if any(command_of(pid)[:2] == ("sleep", "30") and self._is_ours(pid) for pid in all_pids()):
                return
            time.sleep(0.05)
        self.command.kill()
        raise AssertionError(self.command.communicate()[1])

    def _is_ours(self, pid: int) -> bool:
        """Whether a subject is this run's: its home is a folder of the run."""
        homes = [word.removeprefix("HOME=") for word in environment_of(pid) if word.startswith("HOME=")]
        return any(Path(home).is_relative_to(self.directory / "work") for home in homes)

    def id(self) -> str:
        with RunStore.open(self.directory, read_only=True) as store:
            return str(store.meta()["run_id"])

    def process(self, title: str) -> int:
        """The one of ray's processes with `title` in its command line."""
        mark = f"{session.VARIABLE}=/"
        (pid,) = [
            pid
            for pid in all_pids()
            if title in " ".join(command_of(pid))
            and any(word.startswith(mark) and inventory.run_of(word) == self.id() for word in environment_of(pid))
        ]
        return pid

    def agents_guard(self) -> int:
        agent = self.process("ray::NodeAgent")
        name = f"insitu-{self.id()}-{agent}.journal"
        (pid,) = [pid for pid in guards_of(self.state) if str(self.state / name) in command_of(pid)]
        return pid

    def wait(self, within_s: float = 60.0) -> str:
        """Wait for its end; gives what it has said."""
        _, said = self.command.communicate(timeout=within_s)
        assert "Traceback" not in said
        return said

    def left(self) -> list[str]:
        mark = f"insitu-{self.id()}"
        return machine.leftovers(mark, (str(self.directory), str(self.state)), GONE_WITHIN_S)

    def end(self) -> None:
        self.command.kill()
        with suppress(InputError):
            self.left()
        self.command.communicate()


@pytest.fixture
def run(tmp_path: Path, state: Path) -> Iterator[Run]:
    one = Run(tmp_path, state)
    yield one
    one.end()


def held(run: Run) -> list[str]:
    """What the agent holds for a trial."""
    folders = machine.folders_below(run.directory / "work", "insitu-", "-scratch")
    return [*machine.control_groups(f"insitu-{run.id()}-"), *folders]


def wait_until_let_go(run: Run) -> None:
    deadline = time.monotonic() + LEASE_S + 1.0
    while held(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert held(run) == []


def test_a_stopped_agent_is_ended_and_the_user_is_told(run: Run) -> None:
    assert held(run)
    os.kill(run.process("ray::NodeAgent"), signal.SIGSTOP)
    wait_until_let_go(run)
    said = run.wait()
    assert run.command.returncode == 3
    assert "the agent of this node was ended by its guard: it gave no sign of life for 2 s" in said
    assert "insitu resume RUN" in said
    assert run.left() == []


def test_a_killed_agent_leaves_nothing(run: Run) -> None:
    os.kill(run.process("ray::NodeAgent"), signal.SIGKILL)
    wait_until_let_go(run)
    assert "the agent of this node ended" in run.wait()
    assert run.command.returncode == 3
    assert run.left() == []


def test_the_command_undoes_what_an_agent_held_that_was_killed_with_its_guard(run: Run) -> None:
    agent, guard = run.process("ray::NodeAgent"), run.agents_guard()
    os.kill(agent, signal.SIGSTOP)  # or it would start another guard
    os.kill(guard, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    assert "the agent of this node ended" in run.wait()
    assert run.command.returncode == 3
    assert run.left() == []


def test_a_command_that_is_killed_with_all_guards_leaves_nothing(run: Run) -> None:
    run.command.send_signal(signal.SIGSTOP)  # or it would start another guard; its agent does
    for guard in guards_of(run.state):
        os.kill(guard, signal.SIGKILL)
    run.command.kill()
    run.wait()
    assert run.left() == []
    assert journals(run.state) == ()


@pytest.mark.parametrize("to_guard", [signal.SIGKILL, signal.SIGSTOP])
def test_the_command_ends_a_stopped_agent_whose_guard_cannot(run: Run, to_guard: signal.Signals) -> None:
    agent, guard = run.process("ray::NodeAgent"), run.agents_guard()
    os.kill(agent, signal.SIGSTOP)  # or it would start another guard
    os.kill(guard, to_guard)
    wait_until_let_go(run)
    assert "it was stopped, and its guard had been ended or stopped" in run.wait()
    assert run.command.returncode == 3
    if to_guard is signal.SIGSTOP:
        os.kill(guard, signal.SIGCONT)
    assert run.left() == []


def test_a_killed_guard_is_replaced_during_the_trial_and_undoes(run: Run) -> None:
    first = run.agents_guard()
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while first in guards_of(run.state) or len(guards_of(run.state)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert held(run)
    assert run.agents_guard() != first
    time.sleep(0.3)  # the new one may still be starting
    run.command.kill()
    wait_until_let_go(run)
    run.wait()
    assert run.left() == []


def test_an_interruption_without_rays_raylet_leaves_nothing(run: Run) -> None:
    os.kill(run.process("raylet/raylet"), signal.SIGKILL)
    time.sleep(1.0)
    run.command.send_signal(signal.SIGINT)
    run.wait()
    assert run.left() == []


def test_further_requests_to_end_do_not_break_off_the_clean_up(run: Run) -> None:
    mark = f"insitu-{run.id()}-ray-"
    assert machine.session_folders(mark)
    while machine.session_folders(mark):  # deleted by the clean-up, which is not at its end then
        run.command.send_signal(signal.SIGINT)
        time.sleep(0.02)
    assert "interrupted; the node is clean" in run.wait()
    assert run.command.returncode == 1
    assert journals(run.state) == ()
    assert run.left() == []


@pytest.mark.parametrize("then", [None, signal.SIGINT])
def test_the_command_does_not_wait_for_a_control_service_that_has_ended(
    run: Run, then: signal.Signals | None
) -> None:
    os.kill(run.process("gcs_server"), signal.SIGKILL)
    if then is not None:
        run.command.send_signal(then)
    said = run.wait(within_s=20.0)
    assert ("ray's control service on this node ended" in said) == (then is None)
    assert run.command.returncode == (3 if then is None else 1)
    assert "insitu resume" in said
    assert run.left() == []


def test_a_trial_whose_result_nobody_can_take_is_ended_at_once(run: Run) -> None:
    os.kill(run.process("raylet/raylet"), signal.SIGKILL)
    wait_until_let_go(run)
    run.wait()
    assert run.command.returncode == 3
    assert run.left() == []


def test_a_suspended_command_loses_nothing(run: Run) -> None:
    os.killpg(run.command.pid, signal.SIGTSTP)
    os.kill(run.command.pid, signal.SIGSTOP)
    time.sleep(LEASE_S + 1.0)
    assert held(run)
    os.killpg(run.command.pid, signal.SIGCONT)
    run.command.send_signal(signal.SIGINT)
    assert "insitu resume" in run.wait()
    assert run.command.returncode == 1
    assert run.left() == []
