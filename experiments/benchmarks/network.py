"""Is a subject's network what was asked for, and what does it cost to make it so?

For rates the truth is what the receiver got per second, with 66 bytes of headers for each 1448 of its own; for
delays it is the round trip that the subject sees, less that of a link without delay.
`python -m experiments.benchmarks.network PART ...` runs some parts only: rates, delays, carries, wire, cost.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.benchmarks.claims import Claim, Off, worst
from experiments.benchmarks.far_end import FarEnd, far_end
from experiments.benchmarks.pings import gateway_of, round_trips_s
from experiments.benchmarks.trials import agent_here, journal_here, order, patiently
from insitu.injectors.actuator import Host
from insitu.injectors.network import support
from insitu.injectors.network.actuator import LinkActuator
from insitu.injectors.network.line import CARRIES_BYTES_PER_S
from insitu.injectors.network.link import Link
from insitu.orchestrator.execution import host
from insitu.orchestrator.execution.agent import NodeAgent
from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.store.records import TrialRecord, TrialState

RATES_MBIT = (1, 10, 100, 1000)
DELAYS_MS = (1, 5, 20, 50, 200)
LOADS_MBIT = (0, 100)
RATE_TARGET, COST_TARGET_S = 0.02, 0.010
_MBIT = 1e6 / 8
_WIRE = 1514 / 1448
_SECONDS = 3.0
_MOST_ROUNDS = 4
_SUBJECT = Path(__file__).with_name("net_subject.py")


def _trial(
    agent: NodeAgent, far: FarEnd, what: str, load: float, *levels: SetLevel
) -> tuple[TrialRecord, tuple[float, ...]]:
    """Repeat a trial that the machine disturbed; gives its record and what the subject reported."""
    return patiently(
        lambda: _once(agent, far, what, load, *levels), lambda found: found[0].state is TrialState.INVALID
    )


def _once(
    agent: NodeAgent, far: FarEnd, what: str, load: float, *levels: SetLevel
) -> tuple[TrialRecord, tuple[float, ...]]:
    command = ("{python}", str(_SUBJECT), far.address, str(far.port), what, str(_SECONDS), str(load))
    record = agent.run(order(*command, levels=levels)).record
    if record.state is TrialState.FAILED:
        raise RuntimeError("; ".join(record.reasons))
    return record, far.reported()


def _met(record: TrialRecord, *, ok: bool) -> bool | None:
    return ok if record.state is TrialState.VALID else None


def _remark(record: TrialRecord, *, ok: bool) -> str:
    said = "ok" if ok else "MISSED"
    return said if record.state is TrialState.VALID else f"disturbed: {record.reasons[0]}"


def rates(agent: NodeAgent, far: FarEnd) -> list[Claim]:
    """Requested, achieved and true rates, each direction."""
    print(f"{'variable':14}{'requested':>12}{'achieved':>11}{'off':>8}{'truth':>11}{'off':>8}{'target':>8}")
    rows: list[Off] = []
    for direction, what in (("in", "down"), ("out", "up")):
        for mbit in RATES_MBIT:
            level = SetLevel("rate", f"net.rate_{direction}", "bit/s", mbit * _MBIT)
            record, (count, seconds) = _trial(agent, far, what, 0.0, level)
            achieved, truth = (record.levels[0].achieved or 0.0) / _MBIT, count * _WIRE / seconds / _MBIT
            off = max((achieved / mbit - 1, truth / mbit - 1), key=abs)
            ok = abs(off) <= RATE_TARGET
            rows.append(Off(f"{direction}, {mbit} Mbit/s", off, _met(record, ok=ok)))
            print(
                f"{level.injector:14}{mbit:>7} Mbit/s{achieved:>11.4g}{achieved / mbit - 1:>+8.2%}"
                f"{truth:>11.4g}{truth / mbit - 1:>+8.2%}{RATE_TARGET:>8.0%}  {_remark(record, ok=ok)}",
                flush=True,
            )
    return [worst("net.rate_in, net.rate_out, 1 Mbit/s to 1 Gbit/s", f"within {RATE_TARGET:.0%}", rows)]


def delays(agent: NodeAgent, far: FarEnd) -> list[Claim]:
    """Requested and true delays, of a link that does nothing else and of one that carries 100 Mbit/s."""
    by_line = bool(support.examine().netem_problem)
    means, target_ms = ("the delay line", 2.0) if by_line else ("netem", 1.0)
    print(f"net.delay by {means}; `own` is the path's own round trip; all in ms\n")
    columns = ("requested", "own", "achieved", "off", "truth", "off", "p90", "target")
    print(f"{'load':>12}{''.join(f'{column:>10}' for column in columns)}")
    rows: list[Off] = []
    for load in LOADS_MBIT:
        _, (own_s, _, _) = _trial(agent, far, "trips", load * _MBIT, SetLevel("delay", "net.delay", "s", 0.0))
        for asked_ms in DELAYS_MS:
            level = SetLevel("delay", "net.delay", "s", asked_ms / 1e3)
            record, (median_s, p90_s, _) = _trial(agent, far, "trips", load * _MBIT, level)
            achieved_ms = 1e3 * (record.levels[0].achieved or 0.0)
            truth_ms, p90_ms = 1e3 * (median_s - own_s), 1e3 * (p90_s - own_s)
            off_ms = (achieved_ms - asked_ms, truth_ms - asked_ms)
            ok = all(abs(one) <= target_ms for one in off_ms)
            rows.append(Off(f"{asked_ms} ms, {load} Mbit/s", max(off_ms, key=abs), _met(record, ok=ok)))
            print(
                f"{load:>5} Mbit/s{asked_ms:>10}{own_s * 1e3:>10.2f}{achieved_ms:>10.2f}{off_ms[0]:>+10.2f}"
                f"{truth_ms:>10.2f}{off_ms[1]:>+10.2f}{p90_ms - asked_ms:>+10.2f}{target_ms:>10.0f}"
                f"  {_remark(record, ok=ok)}",
                flush=True,
            )
    what = f"net.delay by {means}, 1 to 200 ms, up to {max(LOADS_MBIT)} Mbit/s"
    return [worst(what, f"within {target_ms:.0f} ms", rows, "{:+.2f} ms")]


def carries(agent: NodeAgent, far: FarEnd) -> list[Claim]:
    """What a link carries at most; not repeated when disturbed, which only lowers it: a floor is declared."""
    declared = CARRIES_BYTES_PER_S / _MBIT
    print(f"{'link':34}{'down':>15}{'up':>15}{'declared':>15}")
    ways = {"no variable at a level": SetLevel("rate", "net.rate_in", "bit/s", float("inf"))}
    ways["delay 0"] = SetLevel("delay", "net.delay", "s", 0.0)
    ways["delay 10 ms"] = SetLevel("delay", "net.delay", "s", 0.01)
    least = math.inf
    for name, level in ways.items():
        found = []
        for what in ("down", "up"):
            _, (count, seconds) = _once(agent, far, what, 0.0, level)
            found.append(count * _WIRE / seconds / _MBIT)
        delayed = level.injector == "net.delay"
        least = min(least, *found) if delayed else least
        promised = f"{declared:>8.0f} Mbit/s" if delayed else ""
        print(f"{name:34}{found[0]:>8.0f} Mbit/s{found[1]:>8.0f} Mbit/s{promised:>15}", flush=True)
    what = "what a link with a delay carries"
    return [Claim(what, f"{declared:.0f} Mbit/s", f"{least:.0f} Mbit/s at least", least >= declared)]


def cost(rounds: int = 40) -> list[Claim]:
    """Apply and undo, beside the same pair of interfaces and one rate by spawned commands."""
    by_line = bool(support.examine().netem_problem)
    means = "delay line" if by_line else "netem"
    ways = {
        "net.rate_in, net.rate_out": Link(rate_in=_MBIT, rate_out=_MBIT),
        f"net.delay ({means})": Link(delay=0.01, by_line=by_line),
        f"all of them ({means})": Link(_MBIT, _MBIT, 0.01, 0.001, 0.01, by_line),
    }
    rows: list[Off] = []
    print(f"{'variables':28}{'apply':>10}{'undo':>10}{'both':>10}{'p90':>10}{'target':>8}")
    with _actuator() as (actuator, folder):
        for name, link in ways.items():
            applied, undone, quiet = patiently(
                lambda link=link: _timed(actuator, link, folder, rounds),  # type: ignore[misc]
                lambda found: not found[2],
            )
            both = [sum(pair) for pair in zip(applied, undone, strict=True)]
            found_s = map(statistics.median, (applied, undone, both))
            p90_s, middle_s = statistics.quantiles(both, n=10)[-1], statistics.median(both)
            ok = middle_s <= COST_TARGET_S if quiet else None
            rows.append(Off(name, middle_s * 1e3, ok))
            said = {True: "ok", False: "MISSED", None: "disturbed: the hypervisor took processors"}[ok]
            figures = "".join(f"{one * 1e3:>7.1f} ms" for one in (*found_s, p90_s))
            print(f"{name:28}{figures}{COST_TARGET_S * 1e3:>5.0f} ms  {said}", flush=True)
    if shutil.which("ip") and shutil.which("tc"):
        times = [_spawned() for _ in range(max(5, rounds // 4))]
        print(f"{'ip and tc, one rate':28}{'':>20}{statistics.median(times) * 1e3:>7.1f} ms")
    return [
        worst("apply and undo, network rates", "10 ms", rows[:1], "{:.1f} ms"),
        worst(f"apply and undo, all network variables, {means}", "10 ms", rows[1:], "{:.1f} ms"),
    ]


def wire() -> list[Claim]:
    """Requested and true delays between the two kernels alone, where programs are too slow to measure with."""
    by_line = bool(support.examine().netem_problem)
    means, target_ms = ("the delay line", 2.0) if by_line else ("netem", 1.0)
    print(f"net.delay by {means}, from kernel to kernel; all in ms\n")
    print("".join(f"{column:>10}" for column in ("requested", "own", "truth", "off", "p90", "target")))
    rows: list[Off] = []
    own_ms = 0.0
    with _actuator() as (actuator, folder):
        for number, asked_ms in enumerate((0, *DELAYS_MS)):
            with support.nobody() as init:
                link = Link(delay=asked_ms / 1e3, by_line=by_line)
                with actuator.hold(link, f"insitu-bench-{number}", Host(init, {}, folder, 60.0)):
                    trips = round_trips_s(init, gateway_of(os.getpid()))
            middle_ms, p90_ms = 1e3 * statistics.median(trips), 1e3 * statistics.quantiles(trips, n=10)[-1]
            if not asked_ms:
                own_ms = middle_ms
                continue
            off_ms = middle_ms - own_ms - asked_ms
            ok = abs(off_ms) <= target_ms
            rows.append(Off(f"{asked_ms} ms", off_ms, ok))
            figures = (own_ms, middle_ms - own_ms, off_ms, p90_ms - own_ms - asked_ms)
            print(
                f"{asked_ms:>10}{''.join(f'{one:>10.2f}' for one in figures)}{target_ms:>10.0f}"
                f"  {'ok' if ok else 'MISSED'}",
                flush=True,
            )
    what = f"net.delay by {means}, 1 to 200 ms, kernel to kernel"
    return [worst(what, f"within {target_ms:.0f} ms", rows, "{:+.2f} ms")]


@contextmanager
def _actuator() -> Iterator[tuple[LinkActuator, Path]]:
    own_folder = tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-")
    with own_folder as folder, journal_here() as journal, LinkActuator(journal) as actuator:
        yield actuator, Path(folder)


def _timed(actuator: LinkActuator, link: Link, folder: Path, rounds: int) -> tuple[list[float], list[float], bool]:
    """Seconds to apply and to undo, of rounds without the hypervisor; and whether there were enough of those."""
    applied: list[float] = []
    undone: list[float] = []
    stolen: list[bool] = []
    while len(stolen) < _MOST_ROUNDS * rounds and stolen.count(False) <= rounds:
        number, before = len(stolen), host.read_times()
        with support.nobody() as init:
            time.sleep(0.1)  # as between trials: the next gateway is made ready
            begin = time.perf_counter()
            with actuator.hold(link, f"insitu-bench-{number}", Host(init, {}, folder, 60.0)):
                applied.append(time.perf_counter() - begin)
                time.sleep(0.05)
                begin = time.perf_counter()
            undone.append(time.perf_counter() - begin)
        stolen.append(host.read_times().steal_s > before.steal_s or not number)  # the first one starts the server
    if not (quiet := stolen.count(False) >= rounds // 2):
        stolen = [not number for number in range(len(stolen))]
    kept = [number for number, out in enumerate(stolen) if not out]
    return [applied[number] for number in kept], [undone[number] for number in kept], quiet


def _spawned() -> float:
    """A pair of interfaces with one rate, made and removed by commands in a namespace of their own."""
    name = "insitu-bench"
    commands = (
        f"ip netns exec {name} ip link add {name}0 type veth peer name {name}1",
        f"ip netns exec {name} ip link set {name}0 up",
        f"ip netns exec {name} tc qdisc add dev {name}0 root tbf rate 1mbit burst 4kb latency 100ms",
        f"ip netns exec {name} ip link del {name}0",
    )
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        begin = time.perf_counter()
        for command in commands:
            subprocess.run(command.split(), check=True)
        return time.perf_counter() - begin
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


PARTS: dict[str, Callable[[NodeAgent, FarEnd], list[Claim]]] = {
    "rates": rates,
    "delays": delays,
    "carries": carries,
}
APART: dict[str, Callable[[], list[Claim]]] = {"wire": wire, "cost": cost}
"""Parts that need no agent."""


def main(*parts: str) -> list[Claim]:
    """Print a table per part."""
    chosen = parts or (*PARTS, *APART)
    claims: list[Claim] = []
    with far_end() as far, agent_here() as agent:
        for part in chosen:
            if part in PARTS:
                print()
                claims += PARTS[part](agent, far)
    for part in APART:
        if part in chosen:
            print()
            claims += APART[part]()
    return claims


if __name__ == "__main__":
    main(*sys.argv[1:])
