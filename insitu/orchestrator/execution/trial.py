"""One trial on one node: prepare, hold, execute, watch, judge. Reads as the trial's time line."""

from __future__ import annotations

import errno
import math
import os
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from insitu.injectors import lifecycle
from insitu.injectors.cgroups import PRESSURE
from insitu.injectors.contract import Node, Setting
from insitu.injectors.errors import InjectorError, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.registry import injectors
from insitu.orchestrator.errors import CannotExecute, NodeDirty
from insitu.orchestrator.execution import host, page_cache
from insitu.orchestrator.execution.judgement import Observation, judge
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.execution.sampler import Sampler
from insitu.orchestrator.execution.sandbox import protocol
from insitu.orchestrator.execution.sandbox.client import Launcher
from insitu.orchestrator.execution.workspace import TrialFolder, free_bytes, size_of
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.units import format_quantity

SAMPLE_INTERVAL_S = 0.025
_GUARD_INTERVAL_S = 0.25
_SANDBOX_START_S = 20.0
_SANDBOX_END_S = 20.0
_ALWAYS = ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)
"""Controllers that measure or guard every trial, where the node has them."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an agent keeps ready for its trials.

    Attributes
    ----------
    workspace
        Folder on the node in which trial folders are made.
    data
        Folder with the run's data, shown read-only to subjects.
    name
        Of the node.
    """

    node: Node
    journal: Journal
    launcher: Launcher
    workspace: Path
    data: Path
    name: str

    @property
    def mark(self) -> str:
        return self.journal.header.ownership.prefix


@dataclass(slots=True)
class Watched:
    """What was seen of one program from launch to the end of its sandbox."""

    started: protocol.Started | None = None
    exited: protocol.Exited | None = None
    not_started: protocol.NotStarted | None = None
    stopped_because: str = ""


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
    folder = TrialFolder(bench.workspace / f"{bench.mark}-t{order.planned.trial}")
    try:
        observation = _observe(bench, order, folder)
    except UndoFailed as exc:
        raise NodeDirty(exc.message, hint=exc.remedy or None, trial=order.planned.trial) from exc
    except InjectorError as exc:
        raise CannotExecute(exc.message, hint=exc.remedy or None, trial=order.planned.trial) from exc
    except OSError as exc:
        raise out_of_space(exc, bench.workspace) from exc
    record = judge(order, observation, bench.node, bench.name, began, time.monotonic() - clock)
    return TrialOutcome(record, {name: column.tolist() for name, column in observation.samples.items()})


def _observe(bench: Bench, order: TrialOrder, folder: TrialFolder) -> Observation:
    interventions = [
        lifecycle.Intervention(injectors()[level.injector], level.level) for level in order.levels
    ]
    with ExitStack() as stack:
        reserved = stack.enter_context(
            lifecycle.hold(
                interventions,
                bench.node,
                name=folder.path.name,
                controllers=_ALWAYS,
                limits=(Setting("pids", "pids.max", str(order.guards.processes)),),
                folders=(folder.path,),
                journal=bench.journal,
            )
        )
        folder.make()
        failure, resident_share = _prepare(bench, order, folder, reserved.join_files)
        sampler = Sampler(reserved.group, bench.node.hierarchies, bench.node.device)
        stack.callback(sampler.close)
        duty_cycle = reserved.apply()
        before = host.read_times()
        sampler.take(0.0)
        watched = Watched(stopped_because=failure)
        if not failure:
            launch = _launch(
                bench, order.command, order.guards, order.environment, folder, reserved.join_files
            )
            if duty_cycle is not None:
                cycle = protocol.DutyCycle(duty_cycle.period_s, duty_cycle.share, duty_cycle.cpus)
                launch = replace(launch, duty_cycle=cycle)
            watched = run_to_end(bench, launch, order.guards, folder, sampler)
        after = host.read_times()
        _final_sample(sampler, watched)
        stderr_tail = folder.stderr_tail()
        failed = watched.exited is None or watched.exited.status != 0 or bool(watched.stopped_because)
        return Observation(
            watched=watched,
            failure=why_failed(watched, stderr_tail) if failed else "",
            samples=sampler.columns(),
            peak_memory_bytes=sampler.peak_memory_bytes(),
            host_before=before,
            host_after=after,
            stderr_tail=stderr_tail,
            resident_share=resident_share,
        )


def _final_sample(sampler: Sampler, watched: Watched) -> None:
    """The last sample stands at the program's end, which only its process 1 knew exactly."""
    if watched.exited is None:
        return
    sampler.drop_from(watched.exited.wall_s)
    sampler.take(watched.exited.wall_s)
    if not sampler.measures_cpu:  # the process tree is gone by now
        usage = watched.exited.usage
        sampler.correct_last(cpu_s=usage["utime"] + usage["stime"])


def _prepare(
    bench: Bench, order: TrialOrder, folder: TrialFolder, join_files: tuple[str, ...]
) -> tuple[str, float | None]:
    """Make the input, and its page cache cold or warm; gives why that failed, and the share in memory."""
    target = folder.scratch / "in"
    if order.prepare is not None:
        launch = _launch(
            bench, order.prepare, order.guards, order.environment, folder, join_files, str(target)
        )
        watched = run_to_end(bench, launch, order.guards, folder, None)
        if watched.exited is None or watched.exited.status != 0:
            return f"prepare: {why_failed(watched, folder.stderr_tail())}", None
    if not target.exists():
        return "", None
    change = page_cache.make_cold if order.page_cache == "cold" else page_cache.make_warm
    return "", change(target)


def _launch(
    bench: Bench,
    program: Program,
    guards: Guards,
    environment: tuple[tuple[str, str], ...],
    folder: TrialFolder,
    join_files: tuple[str, ...],
    stdout: str = "",
) -> protocol.Launch:
    scratch = str(folder.scratch)
    basic = {"PATH": os.environ.get("PATH", os.defpath), "HOME": scratch, "LANG": "C.UTF-8"}
    return protocol.Launch(
        command=program.on_node(scratch, str(bench.data)),
        environment=basic | dict(environment),
        scratch=scratch,
        data=str(bench.data),
        stage=str(folder.stage),
        stdout=stdout,
        stderr=str(folder.stderr),
        cgroup_files=join_files,
        private_bytes=int(guards.outside_writes_bytes),
        file_bytes=int(guards.scratch_bytes),
        processes=guards.processes,
        unprivileged=not bench.node.privileged,
    )


def run_to_end(
    bench: Bench,
    launch: protocol.Launch,
    guards: Guards,
    folder: TrialFolder,
    sampler: Sampler | None,
) -> Watched:
    """Launch a program and stay with it until its sandbox is gone, sampling and guarding meanwhile.

    Raises
    ------
    CannotExecute
        If the sandbox itself could not be built.
    """
    watched = Watched()
    bench.launcher.launch(launch)
    next_sample = next_check = math.inf
    deadline = time.monotonic() + guards.trial_timeout_s + _SANDBOX_START_S
    while True:
        wake = min(next_sample, next_check, deadline)
        message = bench.launcher.next_message(wake - time.monotonic())
        now = time.monotonic()
        match message:
            case protocol.Started():
                watched.started = message
                deadline = message.at + guards.trial_timeout_s
                next_check = now + _GUARD_INTERVAL_S
                if sampler is not None:
                    sampler.follow(message.init)
                    next_sample = message.at + SAMPLE_INTERVAL_S
            case protocol.Exited():
                watched.exited = message
                next_sample = next_check = math.inf
                deadline = now + _SANDBOX_END_S
            case protocol.NotStarted():
                watched.not_started = message
                deadline = now + _SANDBOX_END_S
            case protocol.Reaped():
                break
        if watched.started is None or watched.exited is not None:
            if now >= deadline:
                raise CannotExecute("a sandbox neither starts nor ends; the kernel log may say why")
            continue
        if sampler is not None and now >= next_sample:
            sampler.take(now - watched.started.at)
            next_sample += SAMPLE_INTERVAL_S * math.ceil((now - next_sample) / SAMPLE_INTERVAL_S + 1e-9)
        if now >= next_check and not watched.stopped_because:
            watched.stopped_because = _guard(guards, folder)
            next_check = now + _GUARD_INTERVAL_S
        if now >= deadline and not watched.stopped_because:
            watched.stopped_because = f"timeout: still running after {guards.trial_timeout_s:g} s"
        if watched.stopped_because:
            _end(watched.started.init)
            next_sample = next_check = math.inf
            deadline = now + _SANDBOX_END_S
    if watched.not_started is not None and not watched.not_started.missing:
        raise CannotExecute(
            f"the sandbox cannot be built here: {watched.not_started.reason}", hint="insitu doctor"
        )
    return watched


def _end(init: int) -> None:
    """Kill process 1 of a sandbox, and with it everything inside."""
    try:
        os.kill(init, signal.SIGKILL)
    except ProcessLookupError:
        return


def _guard(guards: Guards, folder: TrialFolder) -> str:
    """Why the node needs protection from the subject now, or nothing."""
    if (used := size_of(folder.scratch)) > guards.scratch_bytes:
        return f"scratch full: {format_quantity(used, 'B')} of {format_quantity(guards.scratch_bytes, 'B')} allowed"
    if (free := free_bytes(folder.path)) < guards.free_disk_bytes:
        return f"disk nearly full: {format_quantity(free, 'B')} left under the run directory"
    return ""


def why_failed(watched: Watched, stderr_tail: str) -> str:
    """One line on how a program failed, with the last thing that it said."""
    if watched.stopped_because:
        return watched.stopped_because
    if watched.not_started is not None:
        return watched.not_started.reason
    if watched.exited is None:
        return "the sandbox ended before its program (killed from outside, or out of memory)"
    said = stderr_tail.splitlines()[-1:] or ["it wrote nothing to stderr"]
    if watched.exited.status == 128 + signal.SIGXFSZ:
        return "scratch full: a file reached the size that the plan's guards allow"
    return f"exit status {watched.exited.status}: {said[0][:300]}"


def out_of_space(exc: OSError, folder: Path) -> CannotExecute:
    """What an operating-system error of the agent means for the user."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotExecute(
            f"the disk under {folder} is full", hint="free some space, then: insitu resume RUN"
        )
    return CannotExecute(f"{exc.strerror or exc}: {exc.filename or folder}")


def make_data_file(bench: Bench, name: str, program: Program, guards: Guards, number: int) -> None:
    """Execute one of the run's data commands, unthrottled, its stdout into the data folder.

    Raises
    ------
    CannotExecute
        If it fails.
    """
    folder = TrialFolder(bench.workspace / f"{bench.mark}-d{number}")
    try:
        with lifecycle.hold(
            (),
            bench.node,
            name=folder.path.name,
            controllers=_ALWAYS,
            limits=(Setting("pids", "pids.max", str(guards.processes)),),
            folders=(folder.path,),
            journal=bench.journal,
        ) as reserved:
            folder.make()
            target = folder.scratch / "out"
            launch = _launch(bench, program, guards, (), folder, reserved.join_files, stdout=str(target))
            watched = run_to_end(bench, launch, guards, folder, None)
            if watched.exited is None or watched.exited.status != 0:
                reason = why_failed(watched, folder.stderr_tail())
                raise CannotExecute(f"the command that makes {{data}}/{name} failed: {reason}")
            target.rename(bench.data / name)
    except UndoFailed as exc:
        raise NodeDirty(exc.message, hint=exc.remedy or None) from exc
    except InjectorError as exc:
        raise CannotExecute(exc.message, hint=exc.remedy or None) from exc
    except OSError as exc:
        raise out_of_space(exc, bench.workspace) from exc
