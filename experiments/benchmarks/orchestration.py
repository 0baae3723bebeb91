"""What one trial costs beyond the subject itself: full sandbox, CPU quota, ray call, durable record.

Peers, interleaved in one process: ``subprocess.run`` of the same command, and BenchExec's RunExecutor.
"""

from __future__ import annotations

import logging
import math
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from insitu.orchestrator.execution.cluster import LocalCluster, local_cluster
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import Assignment, PlannedTrial
from insitu.orchestrator.store.run import RunStore

COMMAND = ("true",)
_WARM_UP = 10


class Trials:
    """Trials of `COMMAND` through the whole path that ``insitu run`` takes."""

    def __init__(self, store: RunStore, cluster: LocalCluster, count: int) -> None:
        self._store = store
        self._cluster = cluster
        assignment = Assignment((("cpu_cores", 0.5),))
        self._planned = [PlannedTrial(number, 1, assignment) for number in range(count, 0, -1)]
        store.plan_trials(self._planned)

    def __call__(self) -> None:
        planned = self._planned.pop()
        self._store.start(planned.trial)
        order = TrialOrder(
            planned=planned,
            command=Program(COMMAND),
            prepare=None,
            environment=(),
            page_cache="cold",
            levels=(SetLevel("cpu_cores", "cpu.cores", "core", 0.5),),
            parameters=(),
            guards=Guards(),
        )
        outcome = self._cluster.run_trial(order)
        self._store.finish(outcome.record, outcome.samples)


def benchexec() -> Callable[[], None] | None:
    """One run of `COMMAND` by BenchExec, or ``None`` where it is not installed or cannot run."""
    try:
        from benchexec.runexecutor import RunExecutor
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)
    for container in (True, False):
        try:
            executor = RunExecutor(use_namespaces=container)
            executor.execute_run(list(COMMAND), output_filename="/dev/null")
        except (Exception, SystemExit):  # it ends the process where it finds no cgroups
            continue
        return lambda: executor.execute_run(list(COMMAND), output_filename="/dev/null")
    return None


def plain() -> None:
    """What everything is compared with."""
    subprocess.run(COMMAND, check=True)


def main(rounds: int = 150, pause_s: float = 0.0) -> None:
    """Print the medians over `rounds` interleaved rounds, `pause_s` apart."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        run = secrets.token_hex(4)
        directory = Path(folder) / "run"
        with (
            RunStore.create(directory, "", "", {}) as store,
            local_cluster(run, directory / "work", directory) as cluster,
        ):
            ways: dict[str, Callable[[], None]] = {
                "subprocess.run": plain,
                "insitu": Trials(store, cluster, rounds + _WARM_UP),
            }
            if (peer := benchexec()) is not None:
                ways["benchexec"] = peer
            took: dict[str, list[float]] = {name: [] for name in ways}
            for way in ways.values():
                for _ in range(_WARM_UP):
                    way()
            for _ in range(rounds):
                for name, way in ways.items():
                    time.sleep(pause_s)
                    begin = time.perf_counter()
                    way()
                    took[name].append(time.perf_counter() - begin)
    base = statistics.median(took["subprocess.run"])
    print(f"orchestration of `{' '.join(COMMAND)}`, {rounds} rounds, {pause_s * 1e3:.0f} ms apart")
    print(f"{'':16}{'median':>10}{'p90':>10}{'beyond subprocess':>20}{'ratio to insitu':>18}")
    insitu = statistics.median(took["insitu"]) - base
    for name, times in took.items():
        beyond = statistics.median(times) - base
        ratio = beyond / insitu if name not in ("insitu", "subprocess.run") else math.nan
        p90 = statistics.quantiles(times, n=10)[-1]
        print(
            f"{name:16}{statistics.median(times) * 1e3:>7.2f} ms{p90 * 1e3:>7.2f} ms{beyond * 1e3:>17.2f} ms"
            + (f"{ratio:>18.1f}" if math.isfinite(ratio) else "")
        )


def both() -> None:
    """Back to back, and with pauses: joining a control group is slow after a pause on version 1."""
    main()
    main(rounds=30, pause_s=0.1)


if __name__ == "__main__":
    both()
