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
from pathlib import Path

import pytest

from insitu.injectors.contract import RUN_ID
from insitu.injectors.guard import LEASE_S
from tests import machine
from tests.injectors.holder import guards_of

ROOT = Path(__file__).parents[2]
NAMED = re.compile(rf"insitu-({RUN_ID})-[0-9]+\.journal")


@pytest.fixture
def benchmark(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The anomalies beside their peer, in the middle of a level of ours."""
    command = [sys.executable, "-m", "experiments.benchmarks.anomalies"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
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
def test_a_killed_benchmark_leaves_nothing(
    benchmark: subprocess.Popen[bytes], state: Path, guard_too: bool
) -> None:
    own = mark(state)
    if guard_too:
        os.kill(benchmark.pid, signal.SIGSTOP)  # or it would start another guard
        for guard in guards_of(state):
            os.kill(guard, signal.SIGKILL)
    benchmark.kill()
    benchmark.wait()
    if guard_too:
        recover = [sys.executable, "-m", "insitu", "recover", "--json"]
        done = subprocess.run(recover, capture_output=True, text=True, timeout=60, check=False)
        assert any(own in one for one in json.loads(done.stdout)["undone"])
    assert machine.leftovers(own, (str(state),), LEASE_S + 3.0) == []
    assert list(state.iterdir()) == []
