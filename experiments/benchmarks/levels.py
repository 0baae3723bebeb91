"""Are levels reached? Requested, what we report as achieved, and a truth that none of our counters enters.

For processors the truth is the subject's own resource usage, for disks the bytes or requests that it was told
to move, over its own time; requests to write, which a synchronous scratch folder multiplies, are those that the
disk completed. A trial that the machine disturbed is repeated, and a row that stays so says it.
`python -m experiments.benchmarks.levels PART ...` runs some parts only.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from experiments.benchmarks.claims import Claim, Off, worst
from experiments.benchmarks.trials import GUARDS, agent_here, burn, order, patiently
from insitu.orchestrator.execution.agent import NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder, TrialOutcome
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.units import format_quantity

CORES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 1.9, 2.0)
RATES_MB = (1, 5, 20, 50, 100, 200)
REQUESTS = (10, 100, 1000, 5000)
_FEW_REQUESTS = 1000
"""Writes per second below which the ten or so of everybody else would pass for the subject's."""
CPU_TARGET, DISK_TARGET = 0.02, 0.03
_BURN_S, _MOVE_S, _ASK_S, _SHORT_S = 6.0, 4.5, 6.0, 0.6
_REQUESTS_PER_WRITE = 3
"""What a write of one page takes in a synchronous folder: its data, and the file system's journal."""
_BLOCK = 1 << 20
_DATA_BYTES = round(max(RATES_MB) * 1e6 * _MOVE_S)


Truth = Callable[[TrialOutcome], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One level; `truth` gives the rate that was really there."""

    what: str
    order: TrialOrder
    truth: Truth
    target: float | None

    @property
    def asked(self) -> SetLevel:
        return self.order.levels[0]


def cores() -> Iterator[Row]:
    """Busy processes under a quota; one of all processors is slack, since the kernel needs some."""
    for level in CORES:
        target = CPU_TARGET if level < (os.cpu_count() or 1) else None
        for count in (1, 4):
            if level <= count:
                asked = SetLevel("cores", "cpu.cores", "core", level)
                yield Row(f"cpu.cores, {count} processes", burn(count, _BURN_S, asked), _usage, target)


def _usage(outcome: TrialOutcome) -> float:
    measured = outcome.record.measurements
    return (measured["user_time"] + measured["system_time"]) / measured["wall_time"]


def disk(direction: str) -> Iterator[Row]:
    """Direct transfers, as long ones and as ones of a few slices of the kernel's accounting."""
    for seconds, target in ((_MOVE_S, DISK_TARGET), (_SHORT_S, None)):
        for rate in RATES_MB:
            count = max(1, round(rate * 1e6 * seconds / _BLOCK))
            level = SetLevel("rate", f"disk.{direction}_rate", "B/s", rate * 1e6)
            what = level.injector if target else f"{level.injector}, {count * _BLOCK / rate / 1e6:.1f} s"
            yield Row(what, _dd(direction, _BLOCK, count, level), _moved(count * _BLOCK), target)


def requests(direction: str) -> Iterator[Row]:
    """Direct requests of a page each."""
    for rate in REQUESTS:
        level = SetLevel("requests", f"disk.{direction}_iops", "1/s", float(rate))
        count = round(rate * _ASK_S / (_REQUESTS_PER_WRITE if direction == "write" else 1))
        truth = _written if direction == "write" else _moved(count)
        target = None if direction == "write" and rate < _FEW_REQUESTS else DISK_TARGET
        yield Row(level.injector, _dd(direction, 4096, count, level), truth, target)


def _dd(direction: str, block: int, count: int, level: SetLevel) -> TrialOrder:
    ends = ("if={data}/blob", "of=/dev/null", "iflag=direct")
    if direction == "write":
        ends = ("if=/dev/zero", "of={scratch}/out", "oflag=direct")
    return order("dd", *ends, f"bs={block}", f"count={count}", levels=(level,))


def _moved(amount: float) -> Truth:
    return lambda outcome: amount / outcome.record.measurements["wall_time"]


def _written(outcome: TrialOutcome) -> float:
    completed = outcome.samples["device_write_ops"]
    return (completed[-1] - completed[0]) / outcome.record.measurements["wall_time"]


def measure(agent: NodeAgent, row: Row) -> Off:
    """Print a row, and give how far it is off at most."""
    outcome = patiently(lambda: agent.run(row.order), lambda one: one.record.state is TrialState.INVALID)
    record = outcome.record
    if record.state is TrialState.FAILED:
        print(f"{row.what:28} FAILED: {'; '.join(record.reasons)}", flush=True)
        return Off(row.what, math.inf, False)
    (level,) = record.levels
    wanted = row.asked.level
    truth, achieved = row.truth(outcome), level.achieved or 0.0
    off = [seen / wanted - 1 for seen in (achieved, truth)]
    met: bool | None = row.target is None or all(abs(one) <= row.target for one in off)
    verdict = level.verdict.value if row.target is None else "ok" if met else "MISSED"
    if record.state is not TrialState.VALID:
        verdict, met = f"disturbed: {record.reasons[0]}", None
    print(
        f"{row.what:28}{format_quantity(wanted, row.asked.unit):>10}"
        f"{format_quantity(achieved, row.asked.unit, 4):>13}{off[0]:>+8.2%}"
        f"{format_quantity(truth, row.asked.unit, 4):>13}{off[1]:>+8.2%}"
        f"{f'{row.target:.0%}' if row.target else '':>7}  {verdict}",
        flush=True,
    )
    return Off(f"{format_quantity(wanted, row.asked.unit)}", max(off, key=abs), met)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "cores": cores,
    "read": lambda: disk("read"),
    "write": lambda: disk("write"),
    "read-requests": lambda: requests("read"),
    "write-requests": lambda: requests("write"),
}


CLAIMS = {
    "cores": ("cpu.cores, 0.1 to 2 cores, less than all, 1 and 4 processes", f"within {CPU_TARGET:.0%}"),
    "read": ("disk.read_rate, 1 to 200 MB/s", f"within {DISK_TARGET:.0%}"),
    "write": ("disk.write_rate, 1 to 200 MB/s", f"within {DISK_TARGET:.0%}"),
    "read-requests": ("disk.read_iops, 10 to 5000 1/s", f"within {DISK_TARGET:.0%}"),
    "write-requests": ("disk.write_iops, 1000 to 5000 1/s", f"within {DISK_TARGET:.0%}"),
}


def main(*parts: str) -> list[Claim]:
    """Print a row per level."""
    print(f"{'variable':28}{'requested':>10}{'achieved':>13}{'off':>8}{'truth':>13}{'off':>8}{'target':>7}")
    chosen = parts or tuple(PARTS)
    with agent_here() as agent:
        if any(part.startswith("read") for part in chosen):
            agent.make_data((("blob", Program(("head", "-c", str(_DATA_BYTES), "/dev/zero"))),), GUARDS)
        claims = []
        for part in chosen:
            rows = [(row.target, measure(agent, row)) for row in PARTS[part]()]
            claims.append(worst(*CLAIMS[part], (off for target, off in rows if target is not None)))
    return claims


if __name__ == "__main__":
    main(*sys.argv[1:])
