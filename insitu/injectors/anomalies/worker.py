"""One worker: prepares, says that it is ready, and follows its clock until it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.anomalies import pace
from insitu.injectors.anomalies.board import Board
from insitu.injectors.anomalies.load import Kind, Load, period_of
from insitu.injectors.anomalies.order import FAILED, READY, StartLoad
from insitu.injectors.anomalies.process import OwnWaiting, end_after, wake_on_time
from insitu.injectors.anomalies.work.cpu import Powers
from insitu.injectors.anomalies.work.disk import writes
from insitu.injectors.anomalies.work.memory import Room, Stream, Sweep, resident_bytes
from insitu.injectors.anomalies.work.net import Exchange
from insitu.injectors.errors import InjectorError

_BEAT_S = 0.01
"""Between the steps of a worker that has a rate, where its step can be chosen to fit."""
_MOST_WRITTEN, _MOST_SENT, _MOST_STREAMED = 1 << 20, 1 << 18, 1 << 22
"""Bytes per step."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The worker's ends of what it shares with the agent: descriptors."""

    board: int
    started: int
    answers: int

    def close(self) -> None:
        for descriptor in (self.board, self.started, self.answers):
            os.close(descriptor)

    def refuse(self, reason: str) -> None:
        """Say why there will be no load."""
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(self.answers, FAILED + reason.replace("\n", " ").encode()[:2000])


def work(order: StartLoad, ends: Ends, index: int) -> None:
    """Be worker number `index` of a load."""
    end_after(order.deadline_s)
    os.setsid()  # the kernel shares processors out by session where there are no groups: each worker counts as one
    wake_on_time()
    load = order.load
    board = Board(ends.board, load.workers, len(load.windows or ()))
    mark = board.marks[index]
    try:
        base, waited_s = resident_bytes(), OwnWaiting()
        job = _job(order, index)
        mark.introduce(os.getpid(), base)
        os.write(ends.answers, READY)
        if load.windows is not None:
            os.eventfd_read(ends.started)
        for number, (begin, end) in enumerate(pace.spans(load.windows, board)):
            mark.enter(number)
            if isinstance(job, Room):
                pace.keep_holding(job, mark, begin, end)
            else:
                pace.keep_working(job, mark, _pace(load, job, index), begin, end, waited_s)
    except (OSError, InjectorError, MemoryError) as exc:
        ends.refuse(str(exc) or "out of memory")
        return
    signal.pause()  # the agent looks for all workers until it ends them


def _job(order: StartLoad, index: int) -> pace.Work | Room:
    load = order.load
    step_bytes = _BEAT_S * load.rate / load.workers
    match load.kind:
        case Kind.CPU:
            return Powers(load.preset, index)
        case Kind.DISK:
            return writes(load.preset, Path(order.folder, f"worker-{index}"), min(step_bytes, _MOST_WRITTEN))
        case Kind.NET:
            return Exchange(load.preset, min(step_bytes, _MOST_SENT), load.target)
        case Kind.MEMORY_BANDWIDTH:
            return Stream(order.cache_bytes, min(step_bytes, _MOST_STREAMED))
        case Kind.CACHE:
            return Sweep(order.cache_bytes)
        case Kind.MEMORY:
            return Room(load.held_bytes / load.workers)


def _pace(load: Load, job: pace.Work, index: int) -> pace.Pace:
    share = index / load.workers
    if load.rate:
        every_s = job.size * load.workers / load.rate
        return pace.Beat(every_s, share * every_s)
    period_s = period_of(load.kind)
    return pace.Cycle(load.duty, period_s, share * period_s)
