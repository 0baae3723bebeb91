"""``insitu resume`` of runs that have nothing left to execute: told at once, without ray, and no error."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from insitu.injectors.confinement import NO_CAPS
from insitu.injectors.demand import Demand
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.plan.blast_radius import allowed
from insitu.orchestrator.radius import Radius
from insitu.orchestrator.steering.choice import most_trials
from insitu.orchestrator.steering.endings import Ending
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore
from tests import plans
from tests.cli.without_ray import insitu
from tests.injectors import nodes
from tests.told_node import Node, Watcher

Executed = Callable[..., Path]


@pytest.fixture
def executed(tmp_path: Path) -> Executed:
    """Execute a plan whose trials end in the given states; gives the run directory."""

    def execute(*states: TrialState, budget: str, status: str, ending: Ending) -> Path:
        source = plans.PLAN.replace("budget: {trials: 60}", f"budget: {budget}")
        plan, blueprint = experiment.read(plans.write(tmp_path / "plan", plan=source))
        radius = Radius(allowed(plan.blast_radius, None), NO_CAPS, Demand())
        trials = experiment.design_trials(plan, blueprint)
        most = most_trials(plan, len(trials))
        prepared = experiment.Experiment(
            plan,
            blueprint,
            (),
            (),
            most,
            radius,
            nodes.node(),
        )
        directory, node = tmp_path / "run", Node(*states)
        facts = {"run_id": "0a1b2c3d", "status": status}
        with RunStore.create(directory, plan.plan_source, plan.model_source, facts) as store:
            store.plan_trials(trials)
            outcome = loop.execute(prepared, store, node, Watcher(), node.clock, node.pause)  # type: ignore[arg-type]
            assert outcome.ending is ending
        return directory

    return execute


def resume(directory: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return insitu("resume", str(directory), broken=tmp_path / "broken")


@pytest.mark.parametrize(
    ("states", "budget", "ending", "why"),
    [
        ((), "{trials: 60}", Ending.COMPLETE, ""),
        (
            (TrialState.INVALID, TrialState.VALID, TrialState.INVALID),
            "{trials: 10}",
            Ending.BUDGET,
            ": 2 of 10 planned trials have no valid result (trials 1, 3)",
        ),
        ((), "{trials: 60, time: 4.5 s}", Ending.BUDGET, ": 4 of 10 trials within the budget of time"),
        (
            (TrialState.INVALID,) * 40,
            "{trials: 60}",
            Ending.INVALID,
            ": 10 of 10 planned trials have no valid result (trials 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        ),
    ],
)
def test_nothing_left(
    executed: Executed,
    tmp_path: Path,
    states: tuple[TrialState, ...],
    budget: str,
    ending: Ending,
    why: str,
) -> None:
    directory = executed(*states, budget=budget, status=ending, ending=ending)
    before = {path.name for path in directory.iterdir()}
    done = resume(directory, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"nothing left to execute in {directory}{why}",
        f"see it with: insitu show {directory}",
    ]
    assert {path.name for path in directory.iterdir()} == before


def test_a_run_killed_after_its_last_trial_gets_its_results(executed: Executed, tmp_path: Path) -> None:
    directory = executed(budget="{trials: 60}", status="running", ending=Ending.COMPLETE)
    assert not (directory / "report.html").exists()
    assert resume(directory, tmp_path).returncode == 0
    assert (directory / "report.html").exists()
    with RunStore.open(directory, read_only=True) as store:
        assert store.meta()["status"] == "complete"
        assert store.meta()["results_written"] is True


def test_a_link_out_of_the_run_directory_is_not_followed(executed: Executed, tmp_path: Path) -> None:
    directory = executed(budget="{trials: 60}", status="running", ending=Ending.COMPLETE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (directory / "work").symlink_to(elsewhere)
    refused = resume(directory, tmp_path)
    assert refused.returncode == 2
    assert f"{directory}/work is a link, and trials would write where it leads: {elsewhere}" in refused.stderr
    assert list(elsewhere.iterdir()) == []
    (directory / "work").unlink()
    assert resume(directory, tmp_path).returncode == 0


@pytest.mark.parametrize("obstacle", ["samples/trial-00010.parquet", "report.html"])
def test_results_that_could_not_be_written_at_the_end_are_written_by_the_next_resume(
    executed: Executed, tmp_path: Path, obstacle: str
) -> None:
    """A folder in a file's place fails the steps that a full disk may fail."""
    directory = executed(budget="{trials: 60}", status="running", ending=Ending.COMPLETE)
    report, in_the_way = directory / "report.html", directory / obstacle
    in_the_way.mkdir()
    failed = resume(directory, tmp_path)
    assert failed.returncode == 3, failed.stderr
    with RunStore.open(directory, read_only=True) as store:
        assert (store.meta()["status"], store.meta()["results_written"]) == ("complete", False)
    in_the_way.rmdir()
    done = resume(directory, tmp_path)
    assert done.returncode == 0, done.stderr
    assert report.is_file()
    assert len(list((directory / "samples").iterdir())) == 10
    with RunStore.open(directory) as store:
        assert store.export_samples() == 0, "none is left to write"
        assert store.meta()["results_written"] is True
    written_at = report.stat().st_mtime_ns
    assert resume(directory, tmp_path).returncode == 0
    assert report.stat().st_mtime_ns == written_at, "what is there is not written again"
