"""A node at work, as a command has it: an owner, and an agent that executes trials until it is ended.

``python -m tests.recovery.soak.node FOLDER RUN``; the agent is the same program, started by the owner, and ends
with it as a ray worker does. Every variable that this machine can set is set in every trial.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from insitu.injectors.contract import Node
from insitu.injectors.processes import start_time
from insitu.injectors.registry import injectors
from insitu.orchestrator.errors import InsituError
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.execution.sandbox import kernel
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial

LEVELS = {
    "cpu.cores": 0.5,
    "cpu.set": 1.0,
    "disk.read_rate": 20e6,
    "disk.write_rate": 20e6,
    "memory.limit": 256e6,
    "net.rate_out": 1.25e6,
    "net.rate_in": 1.25e6,
    "net.delay": 0.01,
    "cache.page": 0.0,
    "anomaly.cpu": 2.0,
    "anomaly.disk": 1.0,
    "anomaly.memory": 64e6,
}
_SUBJECT = (
    "dd if=/dev/zero of={scratch}/file bs=1M count=2 oflag=direct; "
    "dd if={scratch}/file of=/dev/null bs=1M iflag=direct; sleep 0.3 & sleep 0.2; wait"
)


def order(number: int, node: Node) -> TrialOrder:
    """A trial that sets whatever can be set here."""
    known = injectors()
    levels = tuple(
        SetLevel(name.replace(".", "_"), name, known[name].unit, level)
        for name, level in LEVELS.items()
        if name in known and known[name].capability(node).settable
    )
    return TrialOrder(
        planned=PlannedTrial(number, 1, Assignment(tuple((one.variable, one.level) for one in levels))),
        command=Program(("sh", "-c", _SUBJECT)),
        prepare=Program(("head", "-c", "1000000", "/dev/zero")),
        environment=(),
        page_cache="cold",
        levels=levels,
        parameters=(),
        guards=Guards(trial_timeout_s=20.0, free_disk_bytes=1e8),
    )


def work(folder: Path, run: str, owner: int) -> None:
    """Execute trials for ever; what a trial could not do ends the agent, as it ends a run."""
    kernel.die_with_parent()
    setup = AgentSetup(run, folder, folder, owner, start_time(owner))
    agent = NodeAgent(setup)
    number = 0
    try:
        while True:
            number += 1
            outcome = agent.run(order(number, agent.bench.node))
            descriptors = len(os.listdir("/proc/self/fd"))
            print(number, outcome.record.state, descriptors, flush=True)
    except InsituError as exc:
        print(f"ended: {type(exc).__name__}: {exc}", flush=True)
    finally:
        agent.close()


def main() -> None:
    folder, run = Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        work(folder, run, int(sys.argv[3]))
        return
    command = [sys.executable, "-m", "tests.recovery.soak.node", str(folder), run, str(os.getpid())]
    agent = subprocess.Popen(command)
    while agent.poll() is None:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
