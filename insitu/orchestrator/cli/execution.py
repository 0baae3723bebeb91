"""What ``run`` and ``resume`` share: a clean node, a store, a cluster, the loop, the results."""

from __future__ import annotations

import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.orchestrator.cli.interruption import Interruption
from insitu.orchestrator.cli.saying import say
from insitu.orchestrator.plan.goals import EffectGoal

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.report.summary import Summary
    from insitu.orchestrator.steering.endings import Outcome
    from insitu.orchestrator.store.encoding import Json
    from insitu.orchestrator.store.run import RunStore

_UNFINISHED = ("running", "interrupted", "failed")
"""What a run's status is until it has ended by itself."""
_RESULTS_WRITTEN = "results_written"
"""The fact that a run which has ended has its samples, fit and report, too; false from its end until then."""


def begin(prepared: Experiment, directory: Path, *, quiet: bool) -> None:
    """Make the run directory with every planned trial in it, and execute them."""
    from insitu import __version__
    from insitu.injectors.contract import new_run_id
    from insitu.orchestrator import experiment
    from insitu.orchestrator.store.run import RunStore

    plan = prepared.plan
    _clean_node()
    _refuse_crowd(prepared)
    facts: dict[str, Json] = {
        "name": plan.name,
        "run_id": new_run_id(),
        "created_at": time.time(),
        "status": "running",
        "seed": plan.design.seed,
        "insitu_version": __version__,
        "python_version": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count() or 0,
    }
    for left in prepared.left_unset:
        facts[f"left_unset_{left.variable}"] = f"{left.reason}; to set it: {left.remedy}"
    for capability in prepared.capabilities:
        if capability.weaker:
            facts[f"weaker_{capability.variable}"] = f"{capability.mechanism}: {capability.reason}"
    priors = {law.variable: law.prior.source for law in plan.model.laws if law.prior is not None}
    with RunStore.create(directory, plan.plan_source, plan.model_source, facts, priors) as store:
        store.plan_trials(experiment.design_trials(plan, prepared.blueprint))
        _execute(prepared, store, quiet=quiet)


def go_on(directory: Path, inventory: Path | None, *, quiet: bool) -> None:
    """Execute the trials of a run that have no result yet."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.cli import machine
    from insitu.orchestrator.store.run import RunStore

    with RunStore.open(directory) as store:
        plan, blueprint = experiment.read_stored(store)
        _refuse_link(directory / "work")
        _clean_node()
        store.reset_running()
        if (ended := _ended(plan, blueprint, store)) is not None:
            if not _has_results(store):  # killed after the last trial, or no space was left for them
                store_results(store, ended)
            why = f": {ended.text}" if ended.text else ""
            say(f"nothing left to execute in {directory}{why}")
            say(f"see it with: insitu show {directory}")
            return
        machine.require_state_folder()
        _refuse_twin(store.run_id)
        with machine.probe_folder(directory) as folder:
            prepared = experiment.prepare(plan, blueprint, folder, machine.inventory(inventory))
        _refuse_crowd(prepared)
        if not store.trials():  # killed between making the directory and planning
            store.plan_trials(experiment.design_trials(prepared.plan, prepared.blueprint))
        _execute(prepared, store, quiet=quiet)


def _refuse_link(workspace: Path) -> None:
    """What trials write is deleted after them: it must be in the run directory, and not where a link leads."""
    from insitu.orchestrator.errors import InputError

    if workspace.is_symlink():
        raise InputError(
            f"{workspace} is a link, and trials would write where it leads: {workspace.readlink()}",
            hint=f"rm {workspace}; for another disk, move the whole run directory there",
        )


def _ended(plan: Plan, blueprint: Blueprint, store: RunStore) -> Outcome | None:
    """How a run has ended that has no trial to execute any more; it needs nothing of the machine."""
    from insitu.orchestrator.loop import spent_s
    from insitu.orchestrator.steering.choice import most_trials, steering_of
    from insitu.orchestrator.store.ledger import Ledger

    ledger = Ledger(store.trials())
    if not ledger.total:  # killed before they were planned
        return None
    steering = steering_of(plan, blueprint, most_trials(plan, ledger.total))
    return steering.advance(ledger, store.trials, spent_s(store, ledger)).outcome


def _has_results(store: RunStore) -> bool:
    """Whether a run needs no more than to be shown; one of an earlier version that has ended is taken to."""
    facts = store.meta()
    return facts.get("status") not in _UNFINISHED and facts.get(_RESULTS_WRITTEN) is not False


def _clean_node() -> None:
    """Undo what dead runs left here, before anything new is held."""
    from insitu.injectors import recovery
    from insitu.orchestrator.errors import NodeDirty

    failures = [failure for outcome in recovery.recover_all() for failure in outcome.failures]
    if failures:
        raise NodeDirty("\n".join(failures), hint="insitu recover")


def _refuse_twin(run_id: str) -> None:
    """Look before anything is made, as `_refuse_crowd`."""
    from insitu.injectors import neighbours
    from insitu.injectors.errors import TwinExecutes
    from insitu.injectors.processes import Process
    from insitu.orchestrator.errors import CannotExecute

    try:
        neighbours.refuse_twin(run_id, Process.current())
    except TwinExecutes as exc:
        raise CannotExecute(exc.message, hint=exc.remedy) from exc


def _refuse_crowd(prepared: Experiment) -> None:
    """Look before anything is made; `local_cluster` looks again, with no other run beginning meanwhile."""
    from insitu.injectors import neighbours
    from insitu.orchestrator.radius import refuse_crowd

    refuse_crowd(prepared.radius.allowed, neighbours.other_runs(""))


def _execute(prepared: Experiment, store: RunStore, *, quiet: bool) -> None:
    from insitu.orchestrator import loop
    from insitu.orchestrator.cli.progress import progress
    from insitu.orchestrator.errors import GoalNotReached, InsituError
    from insitu.orchestrator.execution.cluster import local_cluster
    from insitu.orchestrator.plan.blast_radius import UNITS
    from insitu.orchestrator.radius import refuse_crowd
    from insitu.orchestrator.report.terminal import print_summary
    from insitu.orchestrator.steering.endings import Ending
    from insitu.orchestrator.units import format_quantity

    directory = store.directory
    run_id = store.run_id
    workspace = directory / "work"
    store.set_meta("status", "running")
    for key, cap in prepared.radius.allowed.caps.items():
        if cap.place is not None:
            store.set_meta(f"blast_radius_{key}", f"{format_quantity(cap.value, UNITS[key])} ({cap.place})")
    try:
        with Interruption() as interruption, progress(prepared, quiet=quiet) as watcher:
            watcher.stage("starting ray on this machine")
            with local_cluster(
                run_id,
                workspace,
                directory,
                prepared.plan.guards.outside_writes_bytes,
                prepared.radius.caps,
                partial(refuse_crowd, prepared.radius.allowed),
                interruption.check,
            ) as cluster:
                outcome = loop.execute(prepared, store, cluster, watcher)
                watcher.stage("shutting ray down")
    except KeyboardInterrupt:
        store.set_meta("status", "interrupted")
        store.export_samples()
        _require_nothing_held(run_id)
        raise GoalNotReached(
            "interrupted; the node is clean and every finished trial is stored",
            hint=f"insitu resume {directory}",
            reason="interrupted",
        ) from None
    except InsituError:
        store.set_meta("status", "failed")
        raise
    finally:
        _remove_if_empty(workspace)
    summary = store_results(store, outcome)
    print_summary(summary, ending=outcome.ending is Ending.REACHED)
    say(f"run:    {directory}")
    say(f"report: {directory / 'report.html'}")
    _conclude(prepared.plan, outcome, summary, directory)


def _require_nothing_held(run_id: str) -> None:
    """See that an interruption has not broken off the clean-up, before the node is called clean."""
    from insitu.injectors import recovery
    from insitu.injectors.contract import Ownership
    from insitu.orchestrator.errors import NodeDirty

    if left := [str(path) for path in recovery.journals() if Ownership(run_id).owns(path)]:
        what = "interrupted while it cleaned up; a guard goes on with it when this command has ended"
        raise NodeDirty(f"{what}: {', '.join(left)}", hint="insitu recover")


def store_results(store: RunStore, outcome: Outcome) -> Summary:
    """Write what a run has found, which shows how it ended; that this is done is stored last."""
    from insitu.orchestrator.cli import results

    store.set_meta(_RESULTS_WRITTEN, False)
    store.set_meta("status", outcome.ending.value)
    store.set_meta("reason", outcome.text)
    store.set_meta("next_step", _advice(outcome, store.directory))
    store.set_meta("finished_at", time.time())
    store.export_samples()
    summary = results.write_results(store)
    store.set_meta(_RESULTS_WRITTEN, True)
    return summary


def _conclude(plan: Plan, outcome: Outcome, summary: Summary, directory: Path) -> None:
    """End with the exit code that the outcome has, and say what to do next."""
    from insitu.orchestrator.errors import Aborted, GoalNotReached, NotIdentified
    from insitu.orchestrator.steering.endings import Ending

    hint = _advice(outcome, directory) or None
    if outcome.ending is Ending.ABORTED:
        raise Aborted(outcome.text, hint=hint)
    if outcome.ending is Ending.REACHED:
        return
    if outcome.ending is not Ending.COMPLETE:
        raise GoalNotReached(outcome.text, hint=hint, reason=outcome.ending.value)
    if summary.analysis.fit is None:
        raise NotIdentified(summary.analysis.problem, hint=summary.analysis.remedy or None)
    _require_decided(summary)
    asked = plan.goal.relative_half_width if plan.goal is not None else None
    if asked is not None and summary.answer is not None and summary.answer.half_width > asked:
        what = "the effect" if isinstance(plan.goal, EffectGoal) else "what the goal asks for"
        in_blocks = plan.design.kind in ("factorial", "fractional")
        raise GoalNotReached(
            f"{what} is known to {summary.answer.half_width:.0%} only, not to the {asked:.0%} asked for",
            hint=f"raise `design.{'replicates' if in_blocks else 'trials'}`, have the trials chosen "
            f"(`design: {{kind: sequential}}`), or go on from this run: `design: {{augment: {directory}}}`",
            reason="budget",
        )


def _require_decided(summary: Summary) -> None:
    """A design that is fixed beforehand may end without a decision between two laws."""
    from insitu.orchestrator.errors import GoalNotReached
    from insitu.orchestrator.plan.goals import ComparisonGoal

    verdict = summary.answer.verdict if summary.answer is not None else None
    if isinstance(summary.goal, ComparisonGoal) and (verdict is None or verdict.preferred is None):
        raise GoalNotReached(
            "the trials do not decide between the law and its rival",
            hint="raise `design.replicates`, or have the trials chosen: `design: {kind: sequential}`",
            reason="budget",
        )


def _advice(outcome: Outcome, directory: Path) -> str:
    """What the user can do next; empty where nothing is left to do."""
    from insitu.orchestrator.steering.endings import Ending

    hints = {
        Ending.BUDGET: "see the reasons above; a quieter machine, or a new run with a larger `budget`, may help",
        Ending.SUBJECT_FAILED: _remedy(outcome.text),
        Ending.ABORTED: f"when the node is well again: insitu resume {directory}",
        Ending.INVALID: "see the reasons above; a quieter machine, other levels or a larger blast radius may help",
    }
    return outcome.next_step or hints.get(outcome.ending, "")


def _remedy(failure: str) -> str:
    """What to change in the plan when the subject failed in a way that a guard names."""
    for sign, key in (
        ("timeout:", "guards.trial_timeout"),
        ("scratch full", "guards.scratch_limit"),
        ("limit of", "guards.processes"),
    ):
        if sign in failure:
            return f"if the subject is right to do so, raise {key} in the plan"
    return "run the command by hand, and correct the plan"


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
