"""How long after an abort condition comes true a trial has ended and everything of it is undone.

Each condition is brought about at a random moment of a trial that would last, and an observer of its own dates the
moment at which it is true. The peer is the promise: one second.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

from experiments.benchmarks import beside
from insitu.injectors.processes import start_time
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.conditions.host_state import HostState
from insitu.orchestrator.execution.orders import Program, TrialOrder
from insitu.orchestrator.plan.types import Condition, Guards, Probe, Relation
from insitu.orchestrator.store.records import Assignment, PlannedTrial, TrialState

PROMISE_S = 1.0
ROUNDS = 6
GUARDS = Guards(trial_timeout_s=60, free_disk_bytes=0)
_LONGEST_S = 60.0
"""Of what brings a condition about; as long as a trial may take."""


@dataclass(frozen=True, slots=True)
class Case:
    """A condition, what brings it about, and how to see from outside that it is true."""

    name: str
    guards: Guards
    provoke: Callable[[], list[BaseProcess]]
    is_true: Callable[[], bool]


def cases(folder: Path) -> list[Case]:
    """One for each way of watching: a probe, a quantity, a pressure over the last second."""
    flag = folder / "flag"
    state = HostState(folder)
    available = state.read("host.memory.available") or 0.0
    least = Condition("host.memory.available", Relation.BELOW, available - 1e9)
    crowded = Condition("host.cpu.pressure", Relation.ABOVE, 0.6)

    def allocate() -> list[BaseProcess]:
        return [beside.started(partial(beside.allocate, 2_000_000_000), _LONGEST_S)]

    def burn() -> list[BaseProcess]:
        return [beside.started(beside.burn, _LONGEST_S) for _ in range(3 * (os.cpu_count() or 1))]

    def raise_flag() -> list[BaseProcess]:
        flag.touch()
        return []

    def holds(condition: Condition) -> Callable[[], bool]:
        return lambda: (value := state.read(condition.quantity)) is not None and condition.holds_for(value)

    probe = Probe(("test", "!", "-e", str(flag)))
    return [
        Case("probe, as by default", replace(GUARDS, probe=probe), raise_flag, flag.exists),
        Case(str(least), replace(GUARDS, abort_when=(least,)), allocate, holds(least)),
        Case(str(crowded), replace(GUARDS, abort_when=(crowded,)), burn, holds(crowded)),
    ]


def reaction_s(agent: NodeAgent, case: Case, rng: random.Random) -> float:
    """From the moment at which the condition is true to the end of the trial, undo included."""
    order = TrialOrder(
        PlannedTrial(1, 1, Assignment(())), Program(("sleep", "60")), None, (), "cold", (), (), case.guards
    )
    provoked: list[BaseProcess] = []
    true_at: list[float] = []
    delay_s = 1.0 + rng.random()
    ended = threading.Event()

    def bring_about() -> None:
        began = time.monotonic()
        while time.monotonic() - began < 30:
            if not provoked and not true_at and time.monotonic() - began > delay_s:
                provoked.extend(case.provoke())
            if case.is_true():
                true_at.append(time.monotonic())
                ended.wait()  # what this thread has started ends with it
                return
            time.sleep(0.005)

    observer = threading.Thread(target=bring_about)
    observer.start()
    try:
        record = agent.run(order).record
        ended_at = time.monotonic()
    finally:
        ended.set()
        observer.join()
        beside.end(provoked)
    if record.state is not TrialState.ABORTED or not true_at:
        raise RuntimeError(f"the trial was not aborted: {record.state} {record.reasons}")
    return ended_at - true_at[0]


def wait_until_calm(case: Case, for_s: float = 1.2) -> None:
    """Until the condition has not been true for a while: the trial before, or others, may have left it so."""
    since = time.monotonic()
    while time.monotonic() - since < for_s:
        if case.is_true():
            since = time.monotonic()
        time.sleep(0.02)


def main() -> None:
    """Print the median and the worst reaction per case."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="insitu-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        os.environ.setdefault("INSITU_STATE", str(folder / "state"))
        pid = os.getpid()
        print(f"{'condition':44}{'median':>10}{'worst':>10}{'promise':>10}")
        for case in cases(folder):
            setup = AgentSetup("bench", folder / "work", folder / "run", pid, start_time(pid))
            times = []
            with closing(NodeAgent(setup)) as agent:
                for _ in range(ROUNDS):
                    wait_until_calm(case)
                    times.append(reaction_s(agent, case, rng))
                    (folder / "flag").unlink(missing_ok=True)
            figures = (statistics.median(times), max(times), PROMISE_S)
            print(f"{case.name:44}" + "".join(f"{figure:>8.2f} s" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
