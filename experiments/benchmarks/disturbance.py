"""Is a trial on a machine that another load disturbs marked invalid, every time? And a quiet one not?

Loads of somebody else: busy loops on all processors or on one, some that come and go, and a reader of the same
disk. Each kind of subject is run several times beside each load that takes what it wants, and beside those that
do not.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.claims import Claim
from experiments.benchmarks.trials import GUARDS, agent_here, burn, order
from insitu.orchestrator.execution.agent import NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.store.records import TrialState

_CORES = os.cpu_count() or 1
_BLOB_BYTES = 200_000_000


def _busy(on_s: float, off_s: float) -> None:
    """Come and go by the clock, all at the same time: else the breaks of one are when the others work."""
    while True:
        into_s = time.monotonic() % (on_s + off_s)
        if into_s >= on_s:
            time.sleep(on_s + off_s - into_s)


def _read(path: str) -> None:
    """Read a file over and over, past the page cache."""
    import mmap

    buffer = mmap.mmap(-1, 1 << 20)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    while True:
        offset = 0
        while got := os.preadv(descriptor, [buffer], offset):
            offset += got


@contextmanager
def others(load: str, blob: Path) -> Iterator[None]:
    """A load of somebody else, for as long as the context lasts."""
    tasks: dict[str, list[tuple[object, tuple[object, ...]]]] = {
        "nothing": [],
        "busy loops on all": [(_busy, (1.0, 0.0))] * _CORES,
        "busy loops that come and go": [(_busy, (0.4, 0.4))] * (2 * _CORES),
        "a busy loop on one": [(_busy, (1.0, 0.0))] * (_CORES - 1),
        "a reader of the disk": [(_read, (str(blob),))],
    }
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=task, args=given, daemon=True) for task, given in tasks[load]]  # type: ignore[arg-type]
    for process in processes:
        process.start()
    try:
        time.sleep(0.3 if processes else 0.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


@dataclass(frozen=True, slots=True)
class Case:
    """A subject, and whether a load takes what it wants."""

    subject: str
    order: TrialOrder
    load: str
    disturbs: bool


def cases() -> Iterator[Case]:
    """Every subject beside every load that says something about it."""
    half = SetLevel("cores", "cpu.cores", "core", 0.5)
    rate = SetLevel("rate", "disk.read_rate", "B/s", 20e6)
    reading = ("dd", "if={data}/blob", "of=/dev/null", "iflag=direct", "bs=1M")
    subjects: dict[str, tuple[TrialOrder, Sequence[str], Sequence[str]]] = {
        "capped at 0.5 core, 1 s": (
            burn(1, 1.0, half),
            ("busy loops on all", "busy loops that come and go"),
            ("nothing", "a busy loop on one", "a reader of the disk"),
        ),
        "one process, 1 s": (burn(1, 1.0), ("busy loops on all", "busy loops that come and go"), ("nothing",)),
        "four processes, 1 s": (burn(4, 1.0), ("busy loops on all", "busy loops that come and go"), ("nothing",)),
        "one process, 0.1 s": (burn(1, 0.07), ("busy loops on all",), ("nothing",)),
        "reading at 20 MB/s, 1 s": (
            order(*reading, "count=20", levels=(rate,)),
            ("a reader of the disk",),
            ("nothing",),
        ),
        "reading without a cap": (order(*reading, "count=190"), ("a reader of the disk",), ("nothing",)),
    }
    for subject, (trial, disturbing, harmless) in subjects.items():
        for load in disturbing:
            yield Case(subject, trial, load, True)
        for load in harmless:
            yield Case(subject, trial, load, False)


def count(agent: NodeAgent, case: Case, rounds: int) -> tuple[int, Counter[str]]:
    """How many of `rounds` trials were marked invalid, and why."""
    why: Counter[str] = Counter()
    invalid = 0
    for _ in range(rounds):
        record = agent.run(case.order).record
        invalid += record.state is TrialState.INVALID
        why.update(" ".join(word for word in reason.split() if word.isalpha()) for reason in record.reasons)
    return invalid, why


def main(rounds: int = 20, only: str = "") -> list[Claim]:
    """Print, per subject and load, how many trials were marked invalid."""
    print(f"{'subject':28}{'beside':30}{'invalid':>9}{'should be':>11}")
    missed = alarms = quiet = disturbed = 0
    with agent_here() as agent:
        agent.make_data((("blob", Program(("head", "-c", str(_BLOB_BYTES), "/dev/zero"))),), GUARDS)
        blob = agent.bench.workspace.data / "blob"
        for case in cases():
            if only not in f"{case.subject} {case.load}":
                continue
            with others(case.load, blob):
                invalid, why = count(agent, case, rounds)
            if case.disturbs:
                missed, disturbed = missed + rounds - invalid, disturbed + rounds
            else:
                alarms, quiet = alarms + invalid, quiet + rounds
            wrong = invalid != (rounds if case.disturbs else 0)
            said = f"  {why.most_common(1)[0][0]}" if wrong and why else ""
            should = rounds if case.disturbs else 0
            print(f"{case.subject:28}{case.load:30}{invalid:>5}/{rounds}{should:>8}/{rounds}{said}", flush=True)
    found = f"{disturbed - missed} of {disturbed}; of {quiet} quiet ones {alarms}, too"
    return [
        Claim("trials beside a load that takes what they want", "marked invalid, every time", found, missed == 0)
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "")
