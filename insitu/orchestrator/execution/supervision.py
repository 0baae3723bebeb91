"""Staying with one program from launch to the end of its sandbox: sampling, and guarding the node."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from insitu.injectors.processes import members
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.conditions.watch import WATCH_INTERVAL_S, HostWatch
from insitu.orchestrator.execution.sampler import Sampler
from insitu.orchestrator.execution.sandbox import protocol
from insitu.orchestrator.execution.sandbox.client import Launcher
from insitu.orchestrator.execution.scratch import ScratchUse
from insitu.orchestrator.execution.workspace import Workspace
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.printable import printable
from insitu.orchestrator.units import format_quantity

SAMPLE_INTERVAL_S = 0.025
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ
_SANDBOX_START_S = 20.0
_SANDBOX_END_S = 20.0
_LINGERS_S = 0.1
"""After which a sandbox that should have ended is held up by something; most take a few milliseconds."""


@dataclass(slots=True)
class Watched:
    """What was seen of one program from launch to the end of its sandbox.

    Attributes
    ----------
    stopped_because
        Why we ended it; empty if it ended by itself.
    aborted
        Whether that was for the node's sake, by a condition of the plan.
    """

    launched: protocol.Launched | None = None
    started: protocol.Started | None = None
    exited: protocol.Exited | None = None
    not_started: protocol.NotStarted | None = None
    stopped_because: str = ""
    aborted: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the program is executing and nothing has been held against it."""
        return self.started is not None and self.exited is None and not self.stopped_because

    @property
    def succeeded(self) -> bool:
        return self.exited is not None and self.exited.status == 0 and not self.stopped_because


def run_to_end(
    launcher: Launcher,
    launch: protocol.Launch,
    guards: Guards,
    workspace: Workspace,
    watch: HostWatch,
    sampler: Sampler | None = None,
    join_files: tuple[str, ...] = (),
    when_started: Callable[[float], None] | None = None,
    lift_caps: Callable[[], None] = lambda: None,
) -> Watched:
    """Launch a program and stay with it until its sandbox is gone, sampling and guarding meanwhile.

    Parameters
    ----------
    lift_caps
        Called when the sandbox takes long to end: a process that waits for a throttle of its group's cannot.

    Raises
    ------
    CannotExecute
        If the sandbox itself could not be built, or does not end.
    """
    watched = Watched()
    launcher.launch(launch, join_files)
    next_sample = next_check = lingers = math.inf
    deadline = time.monotonic() + guards.trial_timeout_s + _SANDBOX_START_S
    with closing(ScratchUse(workspace.scratch, lambda: _members(watched, join_files))) as scratch:
        while True:
            wake = min(next_sample, next_check, lingers, deadline)
            message = launcher.next_message(wake - time.monotonic(), watch.news() if watched.goes_on else ())
            now = time.monotonic()
            match message:
                case protocol.Launched():
                    watched.launched = message
                    if sampler is not None:
                        sampler.follow(message.init)
                case protocol.Started():
                    watched.started = message
                    deadline = message.at + guards.trial_timeout_s
                    next_check = now + WATCH_INTERVAL_S
                    if when_started is not None:
                        when_started(message.at)
                    if sampler is not None:
                        next_sample = message.at + SAMPLE_INTERVAL_S
                case protocol.Exited():
                    watched.exited = message
                    next_sample = next_check = math.inf
                    lingers, deadline = now + _LINGERS_S, now + _SANDBOX_END_S
                case protocol.NotStarted():
                    watched.not_started = message
                    deadline = now + _SANDBOX_END_S
                case protocol.Reaped():
                    break
            if watched.started is None or not watched.goes_on:
                if now >= lingers:
                    lingers = math.inf
                    lift_caps()
                if now >= deadline:
                    raise CannotExecute(_hangs(watched))
                continue
            if sampler is not None and now >= next_sample:
                sampler.take(now - watched.started.at)
                next_sample += SAMPLE_INTERVAL_S * math.ceil((now - next_sample) / SAMPLE_INTERVAL_S + 1e-9)
            if now >= next_check or watch.has_news():
                _check(watched, guards, scratch, watch)
                next_check = now + WATCH_INTERVAL_S
            if now >= deadline and watched.goes_on:
                watched.stopped_because = f"timeout: still running after {guards.trial_timeout_s:g} s"
            if watched.stopped_because and watched.launched is not None:
                _end(watched.launched.init)
                next_sample = next_check = math.inf
                lingers, deadline = now + _LINGERS_S, now + _SANDBOX_END_S
    if watched.not_started is not None and not watched.not_started.missing:
        raise CannotExecute(
            f"the sandbox cannot be built here: {watched.not_started.reason}", hint="insitu doctor"
        )
    return watched


def _hangs(watched: Watched) -> str:
    stopped = f" after it was stopped ({watched.stopped_because})" if watched.stopped_because else ""
    what = "start" if watched.started is None and watched.not_started is None else f"end{stopped}"
    return f"a sandbox does not {what}; the kernel log may say why"


def _members(watched: Watched, join_files: tuple[str, ...]) -> list[int]:
    return [] if watched.launched is None else members(join_files, watched.launched.init)


def _end(init: int) -> None:
    """Kill process 1 of a sandbox, and with it everything inside."""
    try:
        os.kill(init, signal.SIGKILL)
    except ProcessLookupError:
        return


def _check(watched: Watched, guards: Guards, scratch: ScratchUse, watch: HostWatch) -> None:
    """Note why the program must not go on: for what it did, or for what the node has come to."""
    if (used := scratch.look()) > guards.scratch_bytes:
        allowed = format_quantity(guards.scratch_bytes, "B")
        watched.stopped_because = f"scratch full: {format_quantity(used, 'B')} of {allowed} allowed"
    elif problem := watch.look(guards).problem:
        watched.stopped_because = problem
        watched.aborted = True


def why_failed(watched: Watched, stderr_tail: str) -> str:
    """One line on how a program failed, with the last thing that it said."""
    if watched.stopped_because:
        return watched.stopped_because
    if watched.not_started is not None:
        return watched.not_started.reason
    if watched.exited is None:
        return "the sandbox ended before its program (killed from outside, or out of memory)"
    if watched.exited.status == _FILE_TOO_LARGE:
        return "scratch full: a file grew beyond the limit"
    said = stderr_tail.splitlines()[-1:] or ["it wrote nothing to stderr"]
    return f"exit status {watched.exited.status}: {printable(said[0][:300])}"
