"""Benchmarks apart from each other: what one has read, cached or left to be freed is none of the next one's."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from experiments.benchmarks.claims import Claim
from insitu.injectors.anomalies.process import die_with_parent

Benchmark = Callable[[], list[Claim] | None]


def executed(benchmark: Benchmark) -> list[Claim]:
    """Run a benchmark, a function of a module, in a fresh process; its claims.

    The process lets go of what it holds when this one is interrupted, and when this one ends, however it does.

    Raises
    ------
    SystemExit
        If the process ended without claims, for a reason that it has printed.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with ours:
        process = context.Process(target=_apart, args=(benchmark, theirs, os.getpid()))
        process.start()
        theirs.close()
        try:
            claims: list[Claim] = ours.recv()
        except EOFError:
            process.join()
            raise SystemExit(f"a benchmark ended with {process.exitcode}") from None
        except KeyboardInterrupt:
            process.terminate()
            raise
        finally:
            process.join()
    return claims


def _apart(benchmark: Benchmark, claims: Connection, parent: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal tells all its processes; one word is enough
    die_with_parent(parent, signal.SIGTERM)
    try:
        claims.send(benchmark() or [])
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
