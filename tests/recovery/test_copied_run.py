"""A run directory that is copied while it executes: its copy does not disturb it, and can go on after it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insitu.injectors.guard import LEASE_S
from insitu.injectors.recovery import journals
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore
from tests import machine, plans

pytestmark = pytest.mark.ray

INSITU = [sys.executable, "-m", "insitu"]
SLEEPY = plans.subject("[sleep, '4']", plans.PLAN.replace("replicates: 2", "replicates: 1"))
ROOMY = SLEEPY.replace("trials: 60", "trials: 8") + "blast_radius: {trials: 2}\n"


def resume(run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*INSITU, "resume", str(run), "--quiet"], capture_output=True, text=True, check=False, timeout=200
    )


def wait_for_a_trial(run: Path, command: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not machine.folders_below(run, "insitu-", "-scratch"):
        assert command.poll() is None, command.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_copy_of_a_run_that_executes_is_refused_and_goes_on_when_that_is_dead(
    tmp_path: Path, state: Path
) -> None:
    plan, run, copy = plans.write(tmp_path / "plan", plan=ROOMY), tmp_path / "run", tmp_path / "copy"
    command = [*INSITU, "run", str(plan), "--out", str(run), "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as original:
        try:
            wait_for_a_trial(run, original)
            shutil.copytree(run, copy)
            held = journals(state)
            refused = resume(copy)
            assert original.poll() is None
            assert journals(state) == held
            assert machine.folders_below(run, "insitu-", "-scratch")
        finally:
            original.kill()
    assert refused.returncode == 3
    assert f"a copy of this run is executing: process {original.pid}, in {run}" in refused.stderr
    deadline = time.monotonic() + LEASE_S + 5.0
    while journals(state) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert machine.folders_below(copy, "insitu-", "-scratch")  # copied with the rest, and in no journal
    went_on = resume(copy)
    assert went_on.returncode in (0, 1), went_on.stderr  # on a busy machine some trials may not count
    with RunStore.open(copy, read_only=True) as store:
        states = {stored.state for stored in store.trials()}
        mark = f"insitu-{store.meta()['run_id']}"
    assert states <= {TrialState.VALID, TrialState.INVALID}
    assert not (copy / "work").exists()
    assert machine.leftovers(mark, (str(tmp_path),), LEASE_S) == []
