"""Trials on this machine without ray: the agent in this process, orders for it, and groups that end with us."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from insitu.injectors import cgroups
from insitu.injectors.cgroups import GroupPlan
from insitu.injectors.contract import new_run_id
from insitu.injectors.errors import UndoFailed
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.processes import start_time
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial

T = TypeVar("T")

GUARDS = Guards(trial_timeout_s=120.0, scratch_bytes=8e9)

BURN = """
import os, sys, time
count, seconds = int(sys.argv[1]), float(sys.argv[2])
end = time.monotonic() + seconds
for _ in range(count - 1):
    if os.fork() == 0:
        while time.monotonic() < end: pass
        os._exit(0)
while time.monotonic() < end: pass
for _ in range(count - 1): os.wait()
"""
"""Processes that do nothing but use processors, for so many seconds."""


_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0)
_PATIENCE_S = 1200.0
"""How long all rows of a command wait together for others to leave the machine alone."""


@dataclass(slots=True)
class _Patience:
    left_s: float = _PATIENCE_S

    def pause(self, seconds: float) -> bool:
        """Wait, unless that is more than is left."""
        if seconds > self.left_s:
            return False
        self.left_s -= seconds
        time.sleep(seconds)
        return True


_patience = _Patience()


def patiently(once: Callable[[], T], is_disturbed: Callable[[T], bool]) -> T:
    """Do something again while others disturb it, after ever longer pauses; gives what it was like at last."""
    found = once()
    for pause_s in _PAUSES_S:
        if not is_disturbed(found) or not _patience.pause(pause_s):
            break
        found = once()
    return found


@contextmanager
def agent_here() -> Iterator[NodeAgent]:
    """An agent with a workspace of its own below the working folder."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        run = new_run_id()
        setup = AgentSetup(run, Path(folder) / "work", Path(folder) / "run", os.getpid(), start_time(os.getpid()))
        with closing(NodeAgent(setup)) as agent:
            yield agent


@contextmanager
def journal_here() -> Iterator[Journal]:
    """A journal where ``insitu recover`` looks, and a guard that undoes what it says when we are killed."""
    header = Header(new_run_id(), os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state_folder(), header) as journal, Lease(journal):
        yield journal


@contextmanager
def undone_after(journal: Journal, undos: Sequence[Undo]) -> Iterator[None]:
    """Make things inside this context that `undos` take away again, whatever happens."""
    intent = journal.intend(undos)
    try:
        yield
    finally:
        if failures := carry_out_all(undos, journal.header.ownership):
            raise UndoFailed("; ".join(failures), "insitu recover")
        journal.done(intent)


@contextmanager
def group_here(journal: Journal, plan: GroupPlan) -> Iterator[GroupPlan]:
    """A control group for a while."""
    cgroups.refuse_existing(plan)
    with undone_after(journal, [Undo(UndoKind.CGROUP, str(path)) for path in plan.paths]):
        cgroups.create(plan)
        yield plan


def order(*command: str, **changes: object) -> TrialOrder:
    """One trial of a command; `changes` are attributes of the order."""
    plain = TrialOrder(
        planned=PlannedTrial(1, 1, Assignment(())),
        command=Program(command),
        prepare=None,
        environment=(),
        page_cache="cold",
        levels=(),
        parameters=(),
        guards=GUARDS,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def burn(count: int, seconds: float, *levels: SetLevel) -> TrialOrder:
    """So many busy processes for so long."""
    return order("{python}", "-c", BURN, str(count), str(seconds), levels=levels)
