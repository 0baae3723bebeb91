"""One trial on one node: prepare, hold, execute, watch, judge. Reads as the trial's time line."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

from insitu.injectors import lifecycle
from insitu.injectors.actuator import Host
from insitu.injectors.confinement import Confinement, held_back
from insitu.injectors.contract import Node
from insitu.injectors.errors import InjectorError, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.errors import Aborted, CannotExecute, NodeDirty
from insitu.orchestrator.execution import host, page_cache
from insitu.orchestrator.execution.ahead import Ahead
from insitu.orchestrator.execution.conditions.watch import HostWatch, NotWell
from insitu.orchestrator.execution.exhaustion import out_of_memory, out_of_processes
from insitu.orchestrator.execution.judgement import Observation, judge
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.execution.pace import Pace, Watch
from insitu.orchestrator.execution.place import Place
from insitu.orchestrator.execution.sampler import Sampler
from insitu.orchestrator.execution.sandbox.client import Launcher
from insitu.orchestrator.execution.supervision import Watched, run_to_end, why_failed
from insitu.orchestrator.execution.workspace import Workspace
from insitu.orchestrator.plan.types import Guards

_DATA_TIMEOUT_S = 600.0
"""Of a command that makes the run's data: it works once for all trials."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an agent keeps ready for its trials; `name` is the node's."""

    place: Place
    journal: Journal
    launcher: Launcher
    name: str
    ahead: Ahead
    watch: HostWatch
    confinement: Confinement
    pace: Pace

    @property
    def node(self) -> Node:
        return self.place.node

    @property
    def workspace(self) -> Workspace:
        return self.place.workspace


def execute(bench: Bench, order: TrialOrder) -> TrialOutcome:
    """Run one trial; its failure is a value in the record.

    Raises
    ------
    CannotExecute
        If the node cannot hold a level or build the sandbox: no later trial would do better.
    NodeDirty
        If something of the trial could not be undone.
    """
    began, clock = time.time(), time.monotonic()
    with _errors_for_users(bench, trial=order.planned.trial):
        observation = _observe(bench, order)
    record = judge(order, observation, bench.node, bench.name, began, time.monotonic() - clock)
    return TrialOutcome(record, {name: column.tolist() for name, column in observation.samples.items()})


def _observe(bench: Bench, order: TrialOrder) -> Observation:
    interventions = [level.intervention for level in order.levels]
    with ExitStack() as stack:
        name = f"t{order.planned.trial}"
        reserved = stack.enter_context(_reserve(bench, name, interventions, order.guards, linked=order.linked))
        bench.workspace.begin_trial(synchronous=reserved.treatment.synchronous_scratch)
        watched, resident_share = _prepare(bench, order, reserved)
        sampler = Sampler(reserved.group, bench.node.hierarchies, bench.node.device)
        stack.callback(sampler.close)
        for intervention in interventions:
            sampler.probe(intervention.injector.probes(bench.node), reserved.group)
        if resident_share is not None:
            sampler.watch({"input_in_memory": lambda: resident_share})
        applied = lifecycle.NOTHING_APPLIED
        if not watched.stopped_because:
            try:
                applied = reserved.apply(lambda: _host(bench, reserved, order.guards))
            except NotWell as exc:
                watched = Watched(stopped_because=str(exc), aborted=True)
        sampler.watch(applied.columns)
        pushed, host_times = bench.confinement.pushes(), host.HostTimes()
        sampler.accompany(host_times.take)
        sampler.take(0.0)
        pace = Watch()
        if not watched.stopped_because:
            with bench.pace.watched() if math.isfinite(order.tolerated_slowdown) else nullcontext(pace) as pace:
                watched = run_to_end(
                    bench.launcher,
                    bench.place.subject(order, applied.stop_and_go),
                    order.guards,
                    bench.workspace,
                    bench.watch,
                    sampler,
                    reserved.join_files,
                    when_started=applied.started,
                    lift_caps=reserved.lift_caps,
                )
        moments = applied.ended()
        readings = host_times.end()
        _final_sample(sampler, watched)
        stderr_tail = bench.workspace.stderr_tail()
        wall_s = watched.exited.wall_s if watched.exited else 0.0
        capped = held_back(pushed, bench.confinement.pushes(), wall_s)
        return Observation(
            watched=watched,
            failure=_failure(order, reserved, watched, stderr_tail, capped),
            samples=sampler.columns(),
            peak_memory_bytes=sampler.peak_memory_bytes(),
            readings=readings,
            stderr_tail=stderr_tail,
            held_back=capped,
            moments=moments,
            epoch_s=time.time() - time.monotonic(),
            slower_share=bench.pace.slower_share(pace.looks, pace.busy_s),
            resident_share=resident_share if reserved.treatment.input_in_memory is None else None,
        )


def _failure(
    order: TrialOrder,
    reserved: lifecycle.Reserved,
    watched: Watched,
    stderr_tail: str,
    capped: tuple[str, ...],
) -> str:
    """Why the subject did not do its work; empty if it did."""
    if watched.aborted:
        return watched.stopped_because
    failure = out_of_memory(reserved.group, order.levels)
    if not failure and not watched.succeeded:
        failure = why_failed(watched, stderr_tail) + out_of_processes(reserved.group, order.guards)
    return failure + f" (it reached its blast radius: {', '.join(capped)})" if failure and capped else failure


def _host(bench: Bench, reserved: lifecycle.Reserved, guards: Guards) -> Host:
    init = bench.launcher.confirm_ready(reserved.join_files)
    meanwhile = bench.watch.insisting(guards)
    return Host(init, reserved.group, bench.workspace.scratch, guards.trial_timeout_s, meanwhile)


@contextmanager
def _reserve(
    bench: Bench, name: str, interventions: Sequence[Intervention], guards: Guards, *, linked: bool = False
) -> Iterator[lifecycle.Reserved]:
    steps = bench.place.steps(name, interventions, guards, linked=linked)
    with lifecycle.hold(steps, bench.journal, ready=bench.ahead.take(steps.group)) as reserved:
        yield reserved


def _final_sample(sampler: Sampler, watched: Watched) -> None:
    """The last sample stands at the program's end, which only its process 1 knew exactly."""
    if watched.exited is None:
        return
    sampler.drop_from(watched.exited.wall_s)
    sampler.take(watched.exited.wall_s)
    if not sampler.measures_cpu:  # the process tree is gone by now
        usage = watched.exited.usage
        sampler.correct_last(cpu_s=usage["utime"] + usage["stime"])


def _prepare(bench: Bench, order: TrialOrder, reserved: lifecycle.Reserved) -> tuple[Watched, float | None]:
    """Make the input, and its page cache cold or warm; gives why to go no further, and the share in memory."""
    join_files = reserved.join_files
    if (launch := bench.place.preparation(order)) is not None:
        watched = run_to_end(
            bench.launcher, launch, order.guards, bench.workspace, bench.watch, join_files=join_files
        )
        bench.launcher.make_ready(join_files)
        if watched.aborted:
            return Watched(stopped_because=watched.stopped_because, aborted=True), None
        if not watched.succeeded:
            failure = f"prepare: {why_failed(watched, bench.workspace.stderr_tail())}"
            return Watched(stopped_because=failure), None
    if not bench.place.input.exists():
        return Watched(), None
    share = bench.place.input_share(order, reserved.treatment)
    try:
        return Watched(), page_cache.keep(bench.place.input, share, bench.watch.insisting(order.guards))
    except NotWell as exc:
        return Watched(stopped_because=str(exc), aborted=True), None


@contextmanager
def _errors_for_users(bench: Bench, **context: int | str) -> Iterator[None]:
    """What an error of the injectors or of the operating system means for the user."""
    folder = bench.workspace.slot.parent
    try:
        yield
    except UndoFailed as exc:
        raise NodeDirty(exc.message, hint=exc.remedy or None, **context) from exc
    except InjectorError as exc:
        raise CannotExecute(exc.message, hint=exc.remedy or None, **context) from exc
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space, then: insitu resume RUN"
            raise CannotExecute(f"the disk under {folder} is full", hint=hint) from exc
        raise CannotExecute(f"{exc.strerror or exc}: {exc.filename or folder}") from exc


def data_timeout_s(guards: Guards) -> float:
    """How long a command that makes data may take."""
    return max(guards.trial_timeout_s, _DATA_TIMEOUT_S)


def make_data_file(bench: Bench, name: str, program: Program, guards: Guards, number: int) -> None:
    """Execute one of the run's data commands, unthrottled, its stdout into the data folder.

    Raises
    ------
    CannotExecute
        If it fails.
    Aborted
        If a condition of the plan comes true meanwhile.
    """
    with _errors_for_users(bench, data=name), _reserve(bench, f"d{number}", (), guards) as reserved:
        bench.workspace.begin_trial()
        launch = bench.place.data(program, guards)
        patient = replace(guards, trial_timeout_s=data_timeout_s(guards))
        watched = run_to_end(
            bench.launcher, launch, patient, bench.workspace, bench.watch, join_files=reserved.join_files
        )
        if watched.aborted:
            raise Aborted(f"{watched.stopped_because}, while {{data}}/{name} was made")
        if not watched.succeeded:
            reason = why_failed(watched, bench.workspace.stderr_tail())
            raise CannotExecute(f"the command that makes {{data}}/{name} failed: {reason}")
        bench.place.made_data.rename(bench.workspace.data / name)
