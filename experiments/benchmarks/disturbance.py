"""Is a trial on a machine that another load disturbs marked invalid, every time? And a quiet one not?

Loads of somebody else: busy loops on all processors or on one, some that come and go, and a reader of the same
disk. Whether a load has really slowed a trial down is the subject's to say: by its own resource usage, or by the
time that it took to read, beside the median of trials on the quiet machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.benchmarks import beside
from experiments.benchmarks.claims import Claim
from experiments.benchmarks.trials import GUARDS, agent_here, burn, order
from insitu.orchestrator.execution.agent import NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.store.records import TrialRecord, TrialState

_CORES = os.cpu_count() or 1
_BLOB_BYTES = 200_000_000
_NOTHING = "nothing"
_SLOWED = 0.05
"""Share of its usual pace that a trial must have lost to count; trials on a quiet machine differ by 1 or 2 %."""
_LONGEST_S = 1800.0
"""Far above the time that all trials beside one load take."""


@contextmanager
def others(load: str, blob: Path) -> Iterator[None]:
    """A load of somebody else, for as long as the context lasts."""
    tasks: dict[str, Sequence[Callable[[], None]]] = {
        _NOTHING: [],
        "busy loops on all": [beside.burn] * _CORES,
        "busy loops that come and go": [partial(beside.burn, 0.4, 0.4)] * (2 * _CORES),
        "a busy loop on one": [beside.burn] * (_CORES - 1),
        "a reader of the disk": [partial(beside.read, str(blob))],
    }
    processes = [beside.started(task, _LONGEST_S) for task in tasks[load]]
    try:
        time.sleep(0.3 if processes else 0.0)
        yield
    finally:
        beside.end(processes)


@dataclass(frozen=True, slots=True)
class Case:
    """A subject, and a load beside it."""

    subject: str
    order: TrialOrder
    load: str


def cases() -> Iterator[Case]:
    """Every subject, beside nothing first and then beside every load that says something about it."""
    half = SetLevel("cores", "cpu.cores", "core", 0.5)
    rate = SetLevel("rate", "disk.read_rate", "B/s", 20e6)
    reading = ("dd", "if={data}/blob", "of=/dev/null", "iflag=direct", "bs=1M")
    loops, reader = ("busy loops on all", "busy loops that come and go"), ("a reader of the disk",)
    subjects: dict[str, tuple[TrialOrder, Sequence[str]]] = {
        "capped at 0.5 core, 1 s": (burn(1, 1.0, half), (*loops, "a busy loop on one", *reader)),
        "one process, 1 s": (burn(1, 1.0), loops),
        "four processes, 1 s": (burn(4, 1.0), loops),
        "one process, 0.1 s": (burn(1, 0.07), loops[:1]),
        "reading at 20 MB/s, 1 s": (order(*reading, "count=20", levels=(rate,)), reader),
        "reading without a cap": (order(*reading, "count=190"), reader),
    }
    for subject, (trial, loads) in subjects.items():
        for load in (_NOTHING, *loads):
            yield Case(subject, trial, load)


@dataclass(slots=True)
class Tally:
    """Trials that were slowed down, how many of them were marked, and how many of the quiet ones were, too."""

    slowed: int = 0
    marked: int = 0
    quiet: int = 0
    alarms: int = 0


def measure(agent: NodeAgent, case: Case, rounds: int, usual: float, tally: Tally) -> list[float]:
    """Print a row, and give the paces of its trials."""
    records = [agent.run(case.order).record for _ in range(rounds)]
    paces = [_progress(case, record) / record.measurements["wall_time"] for record in records]
    invalid = [record.state is TrialState.INVALID for record in records]
    slowed = [case.load != _NOTHING and pace < (1 - _SLOWED) * usual for pace in paces]
    marked = sum(one and other for one, other in zip(slowed, invalid, strict=True))
    tally.slowed, tally.marked = tally.slowed + sum(slowed), tally.marked + marked
    if case.load == _NOTHING:
        tally.quiet, tally.alarms = tally.quiet + rounds, tally.alarms + sum(invalid)
    verdict = "" if marked == sum(slowed) else "MISSED"
    figures = f"{sum(slowed):>5}/{rounds}{marked:>12}{sum(invalid) - marked:>12}"
    print(f"{case.subject:28}{case.load:30}{figures}  {verdict}", flush=True)
    return paces


def _progress(case: Case, record: TrialRecord) -> float:
    """What the subject itself knows of its progress: processor time, or that it has read everything."""
    if case.subject.startswith("reading"):
        return 1.0
    return record.measurements["user_time"] + record.measurements["system_time"]


def main(rounds: int = 20, only: str = "") -> list[Claim]:
    """Print, per subject and load, how many trials were slowed down, and how many of them were marked invalid."""
    print(f"{'subject':28}{'beside':30}{'slowed':>8}{'marked':>12}{'others, too':>12}")
    tally, usual = Tally(), 0.0
    with agent_here() as agent:
        agent.make_data((("blob", Program(("head", "-c", str(_BLOB_BYTES), "/dev/zero"))),), GUARDS)
        blob = agent.bench.workspace.data / "blob"
        for case in cases():
            if only in case.subject:
                with others(case.load, blob):
                    paces = measure(agent, case, rounds, usual, tally)
                usual = statistics.median(paces) if case.load == _NOTHING else usual
    found = f"{tally.marked} of {tally.slowed}; of {tally.quiet} beside nothing {tally.alarms}, too"
    what = f"trials that others slowed down by over {_SLOWED:.0%}"
    return [Claim(what, "marked invalid, every time", found, tally.marked == tally.slowed)]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "")
