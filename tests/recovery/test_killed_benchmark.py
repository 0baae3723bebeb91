"""A benchmark that is killed leaves nothing that its guard, or ``insitu recover``, does not end.

What it has started beside its trials, as of somebody else, is in no journal: that ends with it.
"""

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

from experiments.benchmarks import beside
from insitu.injectors.contract import RUN_ID
from insitu.injectors.guard import LEASE_S
from insitu.injectors.processes import Process, members
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


BEGIN = "import os, sys, time; from pathlib import Path; blob = Path(sys.argv[1])"
STAY = "print('begun', flush=True); time.sleep(600)"
OTHERS = f"""
{BEGIN}
from experiments.benchmarks.disturbance import others
with others(sys.argv[2], blob):
    {STAY}
"""
PROVOKED = f"""
{BEGIN}
from experiments.benchmarks.reaction import cases
here = [case for case in cases(blob.parent) if sys.argv[2] in case.name]
here[0].provoke()
{STAY}
"""
PEER = f"""
{BEGIN}
from experiments.benchmarks.anomalies import theirs
from experiments.benchmarks.trials import journal_here
from insitu.injectors.node import survey
with journal_here() as journal:
    with theirs(survey(blob.parent), journal, journal.header.ownership.prefix + "-peer")(0.5, 2):
        {STAY}
"""
FAR_END = f"""
{BEGIN}
from experiments.benchmarks.far_end import far_end
with far_end():
    {STAY}
"""


@pytest.mark.parametrize(
    ("program", "word", "least"),
    [
        (OTHERS, "busy loops on all", os.cpu_count() or 1),
        (OTHERS, "busy loops that come and go", 2 * (os.cpu_count() or 1)),
        (OTHERS, "a reader of the disk", 1),
        (PROVOKED, "host.memory.available", 1),
        (PROVOKED, "host.cpu.pressure", 3 * (os.cpu_count() or 1)),
        (FAR_END, "", 1),
    ],
)
def test_what_a_benchmark_has_started_ends_with_it(tmp_path: Path, program: str, word: str, least: int) -> None:
    (tmp_path / "blob").write_bytes(bytes(1 << 20))
    command = [sys.executable, "-c", program, str(tmp_path / "blob"), word]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        assert benchmark.stdout.readline() == "begun\n"
        helpers = helpers_of(benchmark.pid, least)
        benchmark.kill()
    assert len(helpers) >= least
    assert_ended(helpers)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="the benchmark needs stress-ng")
def test_the_peer_ends_with_the_benchmark_where_no_guard_could_end_it(tmp_path: Path, state: Path) -> None:
    command, workers = [sys.executable, "-c", PEER, str(tmp_path / "blob")], 2
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        assert benchmark.stdout.readline() == "begun\n"
        helpers = helpers_of(benchmark.pid, 1 + workers)
        benchmark.send_signal(signal.SIGSTOP)  # or it would start another guard
        for guard in guards_of(state):
            os.kill(guard, signal.SIGKILL)
        benchmark.kill()
    assert len(helpers) > workers
    assert_ended(helpers)
    subprocess.run([sys.executable, "-m", "insitu", "recover"], check=True, capture_output=True, timeout=60)


def helpers_of(benchmark: int, least: int) -> list[Process]:
    """Its descendants, once there are as many."""
    deadline = time.monotonic() + 10
    while len(found := members((), benchmark)) <= least and time.monotonic() < deadline:
        time.sleep(0.02)
    return [Process.of(pid) for pid in found if pid != benchmark]


def assert_ended(helpers: list[Process]) -> None:
    deadline = time.monotonic() + 10
    while (left := [one for one in helpers if one.alive()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    for one in left:
        one.end()
    assert left == []


def test_what_a_benchmark_has_started_ends_by_itself_in_time() -> None:
    process = beside.started(beside.burn, 0.05)
    process.join(30)
    assert process.exitcode == -signal.SIGALRM
