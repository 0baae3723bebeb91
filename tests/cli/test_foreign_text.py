"""Texts of others, such as what a probe said, are shown as they are: none is markup, and none breaks a command."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from insitu.injectors.confinement import NO_CAPS
from insitu.injectors.contract import Capability
from insitu.injectors.demand import Demand
from insitu.orchestrator import experiment
from insitu.orchestrator.cli import doctor
from insitu.orchestrator.cli.app import app
from insitu.orchestrator.cli.progress import progress
from insitu.orchestrator.experiment import Experiment, LeftUnset
from insitu.orchestrator.plan.blast_radius import allowed
from insitu.orchestrator.radius import Radius
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import StoredTrial, TrialRecord, TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.estimation.chains import chain_trials
from tests.injectors import nodes
from tests.made_runs import make_run

FOREIGN = ["disk [/data] is full", "[bold]slow[/] at [/", "node:100:up", "C:\\[/dim]\\"]
"""The first makes rich raise where it is taken for markup; the others would be shown as something else."""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def with_remarks(prepared: Experiment, text: str) -> Experiment:
    """The same, with a factor that is left as it is and one that is held weakly, both for a given reason."""
    weak = Capability(
        "cpu.cores", "core", "signals", 0.0, 2.0, weaker=True, reason=f"1 {text}", remedy=f"2 {text}"
    )
    left = LeftUnset("disk_read_rate", f"3 {text}", f"4 {text}")
    return replace(prepared, capabilities=(weak,), left_unset=(left,))


@pytest.fixture
def prepared(tmp_path: Path) -> Experiment:
    plan, blueprint = experiment.read(plans.write(tmp_path / "plan"))
    radius = Radius(allowed(plan.blast_radius, None), NO_CAPS, Demand())
    return experiment.Experiment(plan, blueprint, (), (), 30, radius, nodes.node())


@pytest.mark.parametrize("on_a_terminal", [False, True])
@pytest.mark.parametrize("text", FOREIGN)
def test_in_the_progress(
    prepared: Experiment,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    on_a_terminal: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1" if on_a_terminal else "")
    planned = experiment.design_trials(prepared.plan, prepared.blueprint)[0]
    ledger = Ledger([StoredTrial(planned, TrialState.PLANNED)])
    failed = TrialRecord(planned.trial, TrialState.FAILED, "here", 0.0, 1.0, 1, {}, (), reasons=(f"6 {text}",))
    with progress(with_remarks(prepared, text), quiet=False) as watcher:
        watcher.stage(f"5 {text}")
        watcher.started(planned, ledger)
        ledger.finish(failed)
        watcher.ended(failed, ledger)
        watcher.stage(f"7 {text}")
    seen = capsys.readouterr().err
    expected = (
        (1, 2, 3, 4, 6, 7) if on_a_terminal else range(1, 8)
    )  # a live line may be too short-lived to be seen
    assert [number for number in expected if f"{number} {text}" not in seen] == []
    assert ("\x1b[" in seen) == on_a_terminal


@pytest.mark.root
@pytest.mark.parametrize("text", FOREIGN)
def test_in_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    prepare = experiment.prepare
    monkeypatch.setattr(experiment, "prepare", lambda *given: with_remarks(prepare(*given), text))
    probe = f"guards: {{probe: {{command: [echo, '5 {text}']}}}}"
    plan = plans.write(tmp_path / "plan", plans.PLAN.replace("guards: {trial_timeout: 20 s}", probe))
    done = CliRunner().invoke(app, ["check", str(plan), "--out", str(tmp_path / "run")])
    assert done.exception is None, done.output
    assert [number for number in range(1, 6) if f"{number} {text}" not in done.output] == []


@pytest.mark.parametrize("text", FOREIGN)
def test_of_the_probe_in_a_dry_run(tmp_path: Path, text: str) -> None:
    probe = f"guards: {{probe: {{command: [echo, '{text}']}}}}"
    plan = plans.write(tmp_path / "plan", plans.PLAN.replace("guards: {trial_timeout: 20 s}", probe))
    done = CliRunner().invoke(app, ["run", str(plan), "--dry-run", "--out", str(tmp_path / "run")])
    assert done.exception is None, done.output
    assert f"echo '{text}'" in done.output or f"echo {text}" in done.output


@pytest.mark.parametrize("text", FOREIGN)
def test_in_what_doctor_finds(capsys: pytest.CaptureFixture[str], text: str) -> None:
    doctor._print([doctor.Finding(f"1 {text}", "missing", f"2 {text}", f"3 {text}")])
    seen = capsys.readouterr().out
    assert [number for number in range(1, 4) if f"{number} {text}" not in seen] == []


STEERING = "\x1b]0;owned\x07\x1b[2J\u202egnp"
ESCAPED = "\\x1b]0;owned\\x07\\x1b[2J\\u202egnp"


@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_no_text_steers_the_terminal_that_shows_progress(
    prepared: Experiment,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    on_a_terminal: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1" if on_a_terminal else "")
    planned = experiment.design_trials(prepared.plan, prepared.blueprint)[0]
    ledger = Ledger([StoredTrial(planned, TrialState.PLANNED)])
    failed = TrialRecord(planned.trial, TrialState.FAILED, "here", 0.0, 1.0, 1, {}, (), reasons=(STEERING,))
    with progress(with_remarks(prepared, STEERING), quiet=False) as watcher:
        watcher.stage(STEERING)
        watcher.started(planned, ledger)
        ledger.finish(failed)
        watcher.ended(failed, ledger)
    seen = capsys.readouterr().err
    assert seen.count("\\x1b]0;owned") >= 5
    for mark in ("\x1b]", "\x1b[2J", "\x07", "\u202e"):
        assert mark not in seen


@pytest.mark.parametrize("command", ["show", "show --compare"])
def test_no_run_directory_of_a_stranger_steers_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    trials = list(chain_trials(np.random.default_rng(9), 30))
    record = trials[2].record
    assert record is not None
    spoilt = replace(record, state=TrialState.INVALID, reasons=(STEERING,))
    trials[2] = replace(trials[2], state=TrialState.INVALID, record=spoilt)
    directory = make_run(tmp_path / "run", trials)
    with RunStore.open(directory) as store:
        for fact in ("status", "reason", "next_step", "name"):
            store.set_meta(fact, STEERING)
    words = command.split()
    words = [words[0], str(directory), *(words[1:] and [words[1], str(directory)])]
    done = CliRunner().invoke(app, words)
    assert done.exception is None, done.output
    assert "\x1b" in done.output  # colours
    for mark in ("\x1b]", "\x1b[2J", "\x07", "\u202e"):
        assert mark not in done.output
    assert command != "show" or "\\x1b]0;owned" in done.output


def test_no_error_steers_the_terminal() -> None:
    command = [sys.executable, "-m", "insitu", "show", f"run{STEERING}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: run{ESCAPED}")
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stderr)
