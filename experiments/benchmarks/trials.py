"""Trials on this machine without ray: the node's agent in this process, and orders for it."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from insitu.injectors.processes import start_time
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial

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


@contextmanager
def agent_here() -> Iterator[NodeAgent]:
    """An agent with a workspace of its own below the working folder."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        run = f"bench{secrets.token_hex(4)}"
        setup = AgentSetup(run, Path(folder) / "work", Path(folder) / "run", os.getpid(), start_time(os.getpid()))
        with closing(NodeAgent(setup)) as agent:
            yield agent


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
