"""Duty cycles of ``anomaly.cpu.duty`` beside stress-ng's ``--cpu-load`` at the same level, on a quiet machine.

Both run in a control group that is read from outside: processor time per second and process, over some seconds.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.benchmarks.claims import Claim
from experiments.benchmarks.trials import group_here, journal_here, patiently, undone_after
from insitu.injectors import cgroups, node
from insitu.injectors.actuator import Host
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.anomalies.levels import How
from insitu.injectors.anomalies.load import Loads
from insitu.injectors.anomalies.process import die_with_parent
from insitu.injectors.anomalies.variables import CpuDuty
from insitu.injectors.contract import Node
from insitu.injectors.journal import Journal
from insitu.orchestrator.execution import host

DUTIES = (0.05, 0.2, 0.5, 0.8, 0.95)
PROCESSES = (1, 2)
_SETTLE_S, _MEASURED_S = 0.3, 2.0
_LONGEST_S = 60
"""Of one level of the peer's, should nobody end it before."""
_QUIET_CORES = 0.05
"""What others and the hypervisor may take: errors are compared that are a tenth of it."""
_ROUNDS = 5

Load = Callable[[float, int], AbstractContextManager[Callable[[], float]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Share of a processor per process that a load used; processors that all others had, and the hypervisor."""

    duty: float
    others: float

    @property
    def quiet(self) -> bool:
        return self.others <= _QUIET_CORES


def measure(load: Load, duty: float, processes: int) -> Measured:
    """One level of one load, again while others disturb it."""
    return patiently(lambda: _once(load, duty, processes), lambda measured: not measured.quiet)


def _once(load: Load, duty: float, processes: int) -> Measured:
    with load(duty, processes) as cpu_s:
        time.sleep(_SETTLE_S)
        before, host_before, began = cpu_s(), host.read_times(), time.monotonic()
        time.sleep(_MEASURED_S)
        used_s, host_after, wall_s = cpu_s() - before, host.read_times(), time.monotonic() - began
    stolen_s = host_after.steal_s - host_before.steal_s
    other_s = host_after.busy_s - host_before.busy_s - used_s + stolen_s
    return Measured(used_s / wall_s / processes, max(0.0, other_s) / wall_s)


def ours(actuator: LoadActuator, journal: Journal, name: str) -> Load:
    @contextmanager
    def load(duty: float, processes: int) -> Iterator[Callable[[], float]]:
        part = Loads((CpuDuty(How(processes=processes)).load(duty),))
        undone = undone_after(journal, actuator.undos(part, name))
        with undone, actuator.hold(part, name, Host(os.getpid(), {}, Path.cwd(), 60.0)) as in_force:
            yield in_force.columns()["anomaly.cpu.duty:cpu_s"]

    return load


def theirs(here: Node, journal: Journal, name: str) -> Load:
    @contextmanager
    def load(duty: float, processes: int) -> Iterator[Callable[[], float]]:
        with group_here(journal, cgroups.plan_group(here.hierarchies, name, ("cpu", "cpuacct"))) as plan:
            command = ["stress-ng", "--quiet", "--timeout", str(_LONGEST_S)]
            command += ["--cpu", str(processes), "--cpu-load", str(round(100 * duty))]
            process = subprocess.Popen(
                ["sh", "-c", 'for path; do echo 0 > "$path/cgroup.procs"; done; exec ' + " ".join(command), "sh"]
                + [str(path) for path in plan.paths],
                stdout=subprocess.DEVNULL,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            try:
                yield lambda: _cpu_s(plan)
            finally:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    cgroups.kill_members(plan.paths[0])
                    process.wait()

    return load


def _cpu_s(plan: cgroups.GroupPlan) -> float:
    old = plan.directories.get("cpuacct")
    if old is not None:
        return int((old / "cpuacct.usage").read_text()) / 1e9
    return int((plan.directories["cpu"] / "cpu.stat").read_text().split()[1]) / 1e6


_CLAIM = ("anomaly.cpu.duty beside stress-ng --cpu-load", "closer to the request, at every level")


def main() -> list[Claim]:
    """Print both errors at each level, averaged over turns, and whether ours is the smaller."""
    if os.geteuid() != 0 or shutil.which("stress-ng") is None:
        return [Claim(*_CLAIM, "needs root, for control groups, and stress-ng", None)]
    with tempfile.TemporaryDirectory() as folder, journal_here() as journal:
        here, mark = node.survey(Path(folder)), journal.header.ownership.prefix
        with closing(LoadActuator(here, Path(folder), journal)) as actuator:
            return [_compare(ours(actuator, journal, f"{mark}-ours"), theirs(here, journal, f"{mark}-peer"))]


def _compare(our_load: Load, their_load: Load) -> Claim:
    print(f"{'asked for':>18}{'insitu':>10}{'stress-ng':>11}{'error':>9}{'error':>11}{'ratio':>8}  closer?")
    met = missed = 0
    ours_off: list[float] = []
    theirs_off: list[float] = []
    for processes in PROCESSES:
        for duty in DUTIES:
            pairs = [
                (measure(our_load, duty, processes), measure(their_load, duty, processes)) for _ in range(_ROUNDS)
            ]
            mine, peer = (statistics.fmean(one.duty for one in ones) for ones in zip(*pairs, strict=True))
            our_error, their_error = (
                statistics.fmean(abs(one.duty - duty) for one in ones) for ones in zip(*pairs, strict=True)
            )
            quiet, closer = all(one.quiet for pair in pairs for one in pair), our_error < their_error
            met, missed = met + (quiet and closer), missed + (quiet and not closer)
            ours_off.append(our_error)
            theirs_off.append(their_error)
            verdict = ("ok" if closer else "MISSED") if quiet else "disturbed: others used processors"
            ratio = their_error / our_error if our_error else float("inf")
            print(
                f"{f'{processes} x {duty:.0%}':>18}{mine:>10.2%}{peer:>11.2%}{our_error:>9.2%}"
                f"{their_error:>11.2%}{ratio:>8.1f}  {verdict}"
            )
    levels = len(PROCESSES) * len(DUTIES)
    found = f"{met} of {levels}; off by {max(ours_off):.2%} at most, stress-ng by {max(theirs_off):.2%}"
    return Claim(*_CLAIM, found, False if missed else True if met == levels else None)


if __name__ == "__main__":
    main()
