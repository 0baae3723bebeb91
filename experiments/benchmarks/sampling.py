"""What the sampler costs, as a share of one core at its own rate and at 20 Hz, beside psutil on one process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks.trials import group_here, journal_here
from insitu.injectors import cgroups, node
from insitu.injectors.cgroups import PRESSURE
from insitu.orchestrator.execution.sampler import Sampler
from insitu.orchestrator.execution.supervision import SAMPLE_INTERVAL_S


def cost_s(take: Callable[[], object], rounds: int = 2000) -> float:
    """Median processor time of one call, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        take()
        times.append(time.thread_time() - begin)
    return statistics.median(times)


def main() -> None:
    """Print the cost per sample and the shares of a core."""
    here = node.survey(Path.cwd())
    controllers = ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)
    with journal_here() as journal:
        planned = cgroups.plan_group(here.hierarchies, f"{journal.header.ownership.prefix}-own", controllers)
        with group_here(journal, planned) as plan:
            sampler = Sampler(plan.directories, here.hierarchies, here.device)
            sampler.follow(os.getpid())
            ours = cost_s(lambda: sampler.take(0.0))
            sampler.close()
    print(f"{'':10}{'per sample':>12}{'at 20 Hz':>12}{f'at {1 / SAMPLE_INTERVAL_S:.0f} Hz':>12}")
    print(f"{'insitu':10}{ours * 1e6:>9.0f} us{ours * 20:>12.2%}{ours / SAMPLE_INTERVAL_S:>12.2%}")
    try:
        import psutil
    except ImportError:
        return
    process = psutil.Process()

    def peer() -> None:
        process.cpu_times()
        process.io_counters()
        process.memory_info()
        psutil.disk_io_counters()

    theirs = cost_s(peer)
    print(f"{'psutil':10}{theirs * 1e6:>9.0f} us{theirs * 20:>12.2%}{theirs / SAMPLE_INTERVAL_S:>12.2%}")
    print(f"ratio of psutil to insitu: {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
