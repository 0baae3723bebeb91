"""A benchmark that is killed leaves nothing that its guard, or ``insitu recover``, does not end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from insitu.injectors.contract import RUN_ID
from insitu.injectors.guard import LEASE_S
from tests import machine
from tests.injectors.holder import guards_of

ROOT = Path(__file__).parents[2]
NAMED = re.compile(rf"insitu-({RUN_ID})-[0-9]+\.journal")


@contextmanager
def started(state: Path, *module: str) -> Iterator[subprocess.Popen[bytes]]:
    """The anomalies beside their peer, in the middle of a level of ours."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=machine.heed_signals,
    ) as process:
        try:
            deadline = time.monotonic() + 30
            while not machine.control_groups(mark(state)):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def mark(state: Path) -> str:
    """What everything of the benchmark's run begins with, as its journal says; of nobody's before there is one."""
    runs = [found[1] for path in state.glob("*") if (found := NAMED.fullmatch(path.name))]
    return f"insitu-{runs[0] if runs else 'nobody'}"


@pytest.mark.root
@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="the benchmark needs stress-ng")
@pytest.mark.parametrize("guard_too", [False, True])
def test_a_killed_benchmark_leaves_nothing(state: Path, guard_too: bool) -> None:
    with started(state, "experiments.benchmarks.anomalies") as benchmark:
        own = mark(state)
        if guard_too:
            os.kill(benchmark.pid, signal.SIGSTOP)  # or it would start another guard
            for guard in guards_of(state):
                os.kill(guard, signal.SIGKILL)
        benchmark.kill()
    if guard_too:
        recover = [sys.executable, "-m", "insitu", "recover", "--json"]
        done = subprocess.run(recover, capture_output=True, text=True, timeout=60, check=False)
        assert any(own in one for one in json.loads(done.stdout)["undone"])
    assert machine.leftovers(own, (str(state),), LEASE_S + 3.0) == []
    assert list(state.iterdir()) == []


@pytest.mark.root
@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="the benchmark needs stress-ng")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_process_of_one_benchmark_ends_with_that_of_all(state: Path, number: signal.Signals) -> None:
    with started(state, "experiments.benchmarks", "anomalies", "disturbance") as benchmarks:
        own = mark(state)
        benchmarks.send_signal(number)
        benchmarks.wait(timeout=30)
    assert machine.leftovers(own, (str(state),), LEASE_S + 3.0) == []
    assert list(state.iterdir()) == []
