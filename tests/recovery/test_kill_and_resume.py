"""SIGKILL to the orchestrator at random moments: nothing stays behind, and the run can be completed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insitu.injectors.guard import LEASE_S
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore
from tests import machine, plans

pytestmark = pytest.mark.ray

RUNS, KILLS = 4, 3
"""Of each run, the command that begins it is killed, and then those that resume it."""
LONGEST_S = 6.0
"""A whole run of the plan takes about this long, or somewhat longer."""
GONE_WITHIN_S = LEASE_S + 1.0 + 2.0
"""The promise is lease plus one second; the rest is for a slow machine's process table."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "insitu", *arguments]


@pytest.mark.parametrize("attempt", range(RUNS))
def test_killed_at_random_moments_leaves_nothing_and_resumes(
    attempt: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("INSITU_STATE", str(state))
    plan, run = plans.write(tmp_path / "plan"), tmp_path / "run"
    moments_s = random.Random(attempt)
    finished: dict[int, float] = {}
    for _ in range(KILLS):
        begun = _run_id(run) is not None
        words = ("resume", str(run)) if begun else ("run", str(plan), "--out", str(run))
        process = subprocess.Popen(
            command(*words, "--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        time.sleep(moments_s.uniform(0.2, LONGEST_S))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert _leftovers(run, state) == []
        if _run_id(run) is None:
            continue  # killed before there was anything to resume
        assert _planned(run) in (0, 10)
        finished |= _finished(run)
    if _run_id(run) is None:
        return
    done = subprocess.run(command("resume", str(run), "--quiet"), capture_output=True, text=True, check=False)
    _assert_complete(done)
    with RunStore.open(run, read_only=True) as store:
        trials = store.trials()
    originals = [stored for stored in trials if stored.planned.replaces is None]
    assert len(originals) == 10
    assert all(stored.record is not None for stored in trials)
    replaced = {stored.planned.replaces for stored in trials}
    last = [stored for stored in trials if stored.planned.trial not in replaced]
    assert len(last) == 10
    assert {stored.state for stored in last} <= {TrialState.VALID, TrialState.INVALID}
    assert finished.items() <= _finished(run).items(), "a stored trial was executed again"
    assert _leftovers(run, state) == []


@pytest.mark.parametrize("victim", ["raylet/raylet", "gcs/gcs_server", "ray::NodeAgent"])
def test_a_killed_part_of_ray_leaves_nothing_and_the_run_can_be_completed(
    victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("INSITU_STATE", str(state))
    plan, run = plans.write(tmp_path / "plan"), tmp_path / "run"
    process = subprocess.Popen(
        command("run", str(plan), "--out", str(run), "--quiet"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while _run_id(run) is None or not _finished(run):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pids = [pid for pid, line in machine.processes((str(state),)).items() if victim in line.split(" ")[0]]
    assert len(pids) == 1, f"{pids} of {victim}"
    os.kill(pids[0], signal.SIGKILL)
    _, said = process.communicate(timeout=90)
    assert "Traceback" not in said
    assert _leftovers(run, state) == []
    went_on = process.returncode == 0 or "no valid result" in said  # an agent can do without its raylet
    assert went_on or "insitu resume" in said, said
    assert not (went_on and victim == "ray::NodeAgent")
    done = subprocess.run(command("resume", str(run), "--quiet"), capture_output=True, text=True, check=False)
    _assert_complete(done)


def _leftovers(run: Path, state: Path) -> list[str]:
    mark = f"insitu-{_run_id(run) or 'no-run-yet'}"
    deadline = time.monotonic() + GONE_WITHIN_S
    left = machine.leftovers(mark, (str(run), str(state)), GONE_WITHIN_S)
    while (journals := sorted(state.glob("*.journal"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [*left, *map(str, journals)]


def _run_id(run: Path) -> str | None:
    """Id of a run that has begun: its directory is made first, and may be killed half way."""
    if not (run / "run.db").exists():
        return None
    try:
        with RunStore.open(run, read_only=True) as store:
            return str(store.meta()["run_id"])
    except InputError as error:
        if "interrupted before it began" not in error.message:
            raise
        return None


def _assert_complete(done: subprocess.CompletedProcess[str]) -> None:
    """Every planned trial was executed to its end; on a busy machine some may not count."""
    disturbed = done.returncode == 1 and "no valid result" in done.stderr
    assert done.returncode == 0 or disturbed, done.stderr


def _planned(run: Path) -> int:
    with RunStore.open(run, read_only=True) as store:
        return sum(stored.planned.replaces is None for stored in store.trials())


def _finished(run: Path) -> dict[int, float]:
    with RunStore.open(run, read_only=True) as store:
        return {stored.planned.trial: stored.record.started_at for stored in store.trials() if stored.record}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_run_ends_cleanly_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("INSITU_STATE", str(state))
    plan, run = plans.write(tmp_path / "plan"), tmp_path / "run"
    process = subprocess.Popen(
        command("run", str(plan), "--out", str(run)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=machine.heed_signals,
    )
    deadline = time.monotonic() + 60
    while _run_id(run) is None or not _finished(run):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"insitu resume {run}" in said
    assert "Traceback" not in said
    assert "received at" not in said
    assert _leftovers(run, state) == []
    done = subprocess.run(command("resume", str(run), "--quiet"), capture_output=True, text=True, check=False)
    _assert_complete(done)
