"""A made-up machine of a few processors on which a subject runs beside others: what a trial's record would hold.

Time is shared out fairly, as a scheduler does; what others do besides is as the anomalies' own description has it.
It knows nothing of the rules by which a cause is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial, TrialState
from tests.estimation.chains import trial_of

CORES = 2
CACHE_BYTES = 32e6


@dataclass(frozen=True)
class Crowd:
    """What others do.

    Attributes
    ----------
    busy
        Processes that want a processor all the time.
    slower
        Factor on the processor time of the subject's work.
    disk_bytes_per_s, network_bytes_per_s, held_bytes, kernel_share
        What they move and hold, and how much of their processor time is the kernel's.
    disk_factor
        How much longer the subject waits for its disk.
    """

    busy: float = 0.0
    slower: float = 1.0
    disk_bytes_per_s: float = 0.0
    network_bytes_per_s: float = 0.0
    held_bytes: float = 0.0
    kernel_share: float = 0.05
    disk_factor: float = 1.0
    memory_stall_s: float = 0.0


def crowd_of(cause: str, rng: np.random.Generator) -> Crowd:
    """An anomaly of some size."""
    processes = int(rng.integers(2, 9))
    match cause:
        case "anomaly.cpu":
            return Crowd(processes, rng.uniform(1.0, 1.12), held_bytes=3e6 * processes)
        case "anomaly.disk":
            return Crowd(
                busy=rng.uniform(0.2, 0.8),
                slower=rng.uniform(1.0, 1.2),
                disk_bytes_per_s=rng.uniform(3e7, 3e8),
                held_bytes=3e6 * processes,
                kernel_share=0.7,
                disk_factor=rng.uniform(4, 12),
            )
        case "anomaly.net":
            return Crowd(
                processes,
                rng.uniform(1.0, 1.12),
                network_bytes_per_s=rng.uniform(3e7, 2e8),
                held_bytes=3e6 * processes,
                kernel_share=0.8,
            )
        case "anomaly.memory_bandwidth":
            return Crowd(processes, rng.uniform(1.05, 1.6), held_bytes=4 * CACHE_BYTES * processes)
        case "anomaly.cache":
            return Crowd(processes, rng.uniform(1.03, 1.35), held_bytes=CACHE_BYTES * processes)
        case "anomaly.memory":
            return Crowd(
                busy=rng.uniform(0.0, 0.3),
                slower=rng.uniform(1.1, 1.5),
                held_bytes=rng.uniform(1e9, 6e9),
                kernel_share=0.6,
                memory_stall_s=rng.uniform(0.0, 0.5),
            )
        case _:
            return Crowd()


def run(number: int, rng: np.random.Generator, crowd: Crowd, *, size: float = 64e6) -> StoredTrial:
    """One trial of a subject with one thread that reads its input and works on it."""
    work_s = 1.1e-8 * size * rng.normal(1, 0.05) * crowd.slower + 0.1
    competing = crowd.busy + 1
    share = min(1.0, CORES / competing)
    processor_stall_s = work_s * (1 / share - 1) * rng.uniform(0.95, 1.05) + rng.exponential(0.004)
    disk_stall_s = size / 1e9 * crowd.disk_factor * rng.uniform(0.8, 1.2)
    wall_s = work_s + processor_stall_s + disk_stall_s + crowd.memory_stall_s + abs(rng.normal(0.02, 0.01))
    others = min(crowd.busy, CORES - work_s / wall_s) + rng.exponential(0.05)
    system_s = 0.1 * work_s
    measurements = {
        "wall_time": wall_s,
        "cpu_time": work_s,
        "system_time": system_s,
        "cpu_pressure": processor_stall_s / wall_s,
        "io_pressure": disk_stall_s / wall_s,
        "memory_pressure": (crowd.memory_stall_s + rng.exponential(1e-3)) / wall_s,
        "involuntary_switches": 10 + 80 * processor_stall_s * rng.uniform(0.7, 1.3),
        "read_bytes": size,
    }
    host = {
        "other_cores": others,
        "idle_cores": max(0.0, CORES - others - work_s / wall_s),
        "steal_cores": rng.exponential(0.003),
        "other_disk_bytes": crowd.disk_bytes_per_s * wall_s + rng.exponential(5e5),
        "kernel_cores": crowd.kernel_share * others + system_s / wall_s + rng.exponential(0.01),
        "network_bytes": crowd.network_bytes_per_s * wall_s + rng.exponential(1e4),
        "held_bytes": 6e8 + rng.normal(0, 1e7) + crowd.held_bytes,
        "cache_bytes": CACHE_BYTES,
    }
    levels = (LevelRecord("size", size, size, 1.0, 0.0, LevelVerdict.EXACT, "argument", "B"),)
    state = TrialState.INVALID if crowd.busy > 1 else TrialState.VALID
    return trial_of(number, levels, measurements, host=host, state=state, baseline=True)
