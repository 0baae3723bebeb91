"""A load that is held, seen from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from insitu.injectors.actuator import InForce
from insitu.injectors.processes import command_of, start_time

RUN = f"loadtest{os.getpid()}"
_SERVER = "insitu.injectors.anomalies.server"


def children_of(pid: int) -> tuple[int, ...]:
    """Those that have not ended."""
    try:
        children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return tuple(child for child in children if start_time(child))
    except OSError:
        return ()


def servers() -> tuple[int, ...]:
    """Load servers of this process."""
    return tuple(pid for pid in children_of(os.getpid()) if _SERVER in command_of(pid))


@dataclass
class Held:
    """What the tests do with it."""

    name: str
    in_force: InForce
    rows: list[dict[str, float]] = field(default_factory=list)

    @property
    def leaders(self) -> tuple[int, ...]:
        return tuple(leader for server in servers() for leader in children_of(server))

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(worker for leader in self.leaders for worker in children_of(leader))

    def sample(self, began: float) -> dict[str, float]:
        row = {"time_s": time.monotonic() - began}
        row |= {name: read() for name, read in self.in_force.columns().items()}
        self.rows.append(row)
        return row

    def samples(self) -> dict[str, np.ndarray]:
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}

    def watch(self, seconds: float, meanwhile: Callable[[float], None] = lambda _: None) -> dict[str, np.ndarray]:
        """Sample as a trial does, from the subject's start to its end; gives all columns.

        Parameters
        ----------
        meanwhile
            Called with the time since the start, before each sample.
        """
        began = time.monotonic()
        self.sample(began)
        self.in_force.started(began)
        while (elapsed := time.monotonic() - began) < seconds:
            meanwhile(elapsed)
            self.sample(began)
            time.sleep(0.02)
        self.in_force.ended()
        self.sample(began)
        return self.samples()
