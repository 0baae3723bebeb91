"""How long it takes to choose the next ten trials from 10,000 candidates, ten parameters, on one thread.

Peer: the exchange algorithms of pydoe. They start from nothing and try no candidate twice, so the design that both
make is one of twelve different trials from nothing; ours is timed with the trials so far, too, which is what a run
asks for after each refit.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.benchmarks.claims import Claim
from experiments.benchmarks.trials import patiently
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.batch import next_batch
from insitu.orchestrator.design.optimality.criteria import Criterion, c_optimal, d_optimal, i_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.design.optimality.information import information_of
from insitu.orchestrator.execution import host

CANDIDATES, PARAMETERS, BATCH, AFRESH = 10_000, 10, 10, 12
TARGET_S = 0.05
ROUNDS = 25
_QUIET_CORES = 0.1
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
PEERS = ("sequential", "simple_exchange", "modified_fedorov")


@dataclass(frozen=True, slots=True)
class Timed:
    """Some calls.

    Attributes
    ----------
    seconds
        Their median time.
    result
        What they came to: a log-determinant, or a share of the best possible.
    others
        Processors that all others had meanwhile, and the hypervisor.
    """

    seconds: float
    result: float
    others: float

    @property
    def quiet(self) -> bool:
        return self.others <= _QUIET_CORES

    @property
    def met(self) -> bool | None:
        """``None`` if it was too slow while others used the machine, which shares caches and memory."""
        return True if self.seconds <= TARGET_S else False if self.quiet else None


def main() -> list[Claim]:
    """Measure in a process of its own, which has one thread for its matrices from the start."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(measure)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def measure() -> list[Claim]:
    """Print the times, and hold the next batch to its target."""
    rng = np.random.default_rng(1)
    factors = rng.uniform(-1, 1, size=(CANDIDATES, PARAMETERS - 1))
    plane = np.column_stack([np.ones(CANDIDATES), factors])
    x, y, z = factors[:, :3].T
    curved = np.column_stack([np.ones(CANDIDATES), x, y, z, x * x, y * y, z * z, x * y, x * z, y * z])
    found = _next_batches("nine factors", plane) + _next_batches("three factors and their products", curved)
    _beside_the_peer(plane, factors)
    verdicts = [one.met for one in found]
    text = (
        f"{max(one.seconds for one in found) * 1e3:.1f} ms for the slowest of two laws and four goals, with bound"
    )
    if None in verdicts:
        text += f"; others used the machine during {verdicts.count(None)} of {len(found)}"
    met = False if False in verdicts else None if None in verdicts else True
    return [Claim("the next batch, one thread", f"{TARGET_S * 1e3:.0f} ms", text, met)]


def _next_batches(law: str, rows: Array) -> list[Timed]:
    """Print a line for each goal."""
    known = information_of(rows[:30])
    goals: dict[str, Criterion] = {
        "all parameters": d_optimal(),
        "one effect": c_optimal(np.eye(PARAMETERS)[3]),
        "the worst of four effects": c_optimal(np.eye(PARAMETERS)[1:5], worst=True),
        "predictions": i_optimal(rows[:1000]),
    }
    print(f"{law}: the next {BATCH} trials of {CANDIDATES} candidates, {PARAMETERS} parameters, 30 trials known")
    print(f"{'for':28}{'median':>12}{'of the best, at least':>24}")
    found = []
    for goal, criterion in goals.items():

        def chosen(criterion: Criterion = criterion) -> float:
            return next_batch(rows, BATCH, criterion, information=known).efficiency

        timed = patiently(lambda: _timed(chosen), lambda one: one.met is None)
        found.append(timed)
        print(
            f"{goal:28}{timed.seconds * 1e3:>9.1f} ms{timed.result:>24.1%}{'' if timed.quiet else '  (disturbed)'}"
        )
    print()
    return found


def _beside_the_peer(rows: Array, factors: Array) -> None:
    def ours() -> float:
        design = exchange(rows, AFRESH, d_optimal(), np.random.default_rng(1), repeats=1, starts=1)
        return design.precision.value

    base = _timed(ours)
    print(f"{AFRESH} different trials from nothing, for all parameters")
    print(f"{'':28}{'time':>12}{'log-determinant':>24}{'ratio to insitu':>18}")
    print(f"{'insitu, with bound':28}{base.seconds * 1e3:>9.1f} ms{base.result:>24.3f}")
    try:
        import pydoe
    except ImportError:
        print("pydoe is not installed: pip install '.[test]'")
        return
    for method in PEERS:

        def theirs(method: str = method) -> float:
            design, _ = pydoe.optimal_design(factors, AFRESH, 1, method=method, alpha=1e-3)
            chosen = np.column_stack([np.ones(AFRESH), design])
            return float(np.linalg.slogdet(chosen.T @ chosen)[1])

        peer = _timed(theirs, rounds=1)
        ratio = peer.seconds / base.seconds
        print(f"{'pydoe ' + method:28}{peer.seconds * 1e3:>9.0f} ms{peer.result:>24.3f}{ratio:>18.0f}")


def _timed(call: Callable[[], float], rounds: int = ROUNDS) -> Timed:
    if rounds > 1:
        call()
    took = []
    host_before, own_before, began = host.read_times(), time.process_time(), time.monotonic()
    for _ in range(rounds):
        begin = time.perf_counter()
        result = call()
        took.append(time.perf_counter() - begin)
    host_after, own, wall_s = host.read_times(), time.process_time() - own_before, time.monotonic() - began
    stolen_s = host_after.steal_s - host_before.steal_s
    others_s = host_after.busy_s - host_before.busy_s - own + stolen_s
    return Timed(statistics.median(took), result, max(0.0, others_s) / wall_s)


if __name__ == "__main__":
    main()
