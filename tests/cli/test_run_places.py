"""However a run directory is spelled: what is journalled is the plain path of the folder itself, and is undone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insitu.injectors.guard import LEASE_S
from insitu.injectors.journal import read
from insitu.injectors.recovery import journals
from insitu.injectors.undo import UndoKind
from insitu.orchestrator.execution.agent import AgentSetup
from insitu.orchestrator.store.run import RunStore
from tests import machine, plans

INSITU = [sys.executable, "-m", "insitu"]


@pytest.fixture
def sub(tmp_path: Path) -> Path:
    """A folder that commands are given in; the plan is beside it."""
    short = plans.subject("[sleep, '0.5']", plans.PLAN.replace("replicates: 2", "replicates: 1"))
    plans.write(tmp_path, plan=short.replace("trials: 60", "trials: 6"))
    (tmp_path / "sub").mkdir()
    return tmp_path / "sub"


def insitu(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INSITU, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def folders_of(state: Path) -> set[str]:
    pending = [undo for path in journals(state) for undo in read(path).pending]
    return {undo.path for undo in pending if undo.kind is UndoKind.FOLDER}


@pytest.mark.ray
def test_a_run_above_the_working_directory_is_checked_run_killed_and_resumed(sub: Path, state: Path) -> None:
    assert insitu(sub, "check", "../plan.yaml", "--out", "../runs/one").returncode == 0
    words = ["run", "../plan.yaml", "--out", "../runs/one", "--quiet"]
    with subprocess.Popen([*INSITU, *words], cwd=sub, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (held := {one for one in folders_of(state) if one.endswith("-scratch")}):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    run = sub.parent / "runs/one"
    assert all(Path(one).is_relative_to(run / "work") for one in held)
    deadline = time.monotonic() + LEASE_S + 5.0
    while journals(state) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert journals(state) == ()
    resumed = insitu(sub, "resume", "../runs/one", "--quiet")
    assert resumed.returncode in (0, 1), resumed.stderr  # on a busy machine some trials may not count
    assert insitu(sub, "recover").stdout.startswith("nothing to do")
    with RunStore.open(run, read_only=True) as store:
        assert all(stored.record is not None for stored in store.trials())
        mark = f"insitu-{store.meta()['run_id']}"
    assert machine.leftovers(mark, (str(run), str(state)), LEASE_S) == []
    assert not (run / "work").exists()


@pytest.mark.root
def test_a_dry_run_names_plain_paths(sub: Path) -> None:
    shown = insitu(sub, "run", "../plan.yaml", "--dry-run", "--out", "../runs/one").stdout
    assert f"{sub.parent}/runs/one/work/insitu-RUN-slot/insitu-RUN-scratch" in shown
    assert "../runs/one/work" not in shown


def test_an_agent_is_told_the_folders_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far" / "runs").mkdir(parents=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "runs").symlink_to("far/runs")
    monkeypatch.chdir(tmp_path / "sub")
    run = Path("../runs/one")
    setup = AgentSetup("r", run / "work", run, os.getpid(), "1")
    assert setup.run_directory == tmp_path.resolve() / "far/runs/one"
    assert setup.workspace == setup.run_directory / "work"
    shutil.rmtree(tmp_path / "far")
