"""Processes beside a benchmark, as of somebody else: they end with it, however it ends, and in time at latest."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess

from insitu.injectors.anomalies.process import die_with_parent, end_after


def started(task: Callable[[], None], longest_s: float) -> BaseProcess:
    """Start a process that does `task`.

    It ends with the calling thread, since the kernel takes the thread that has forked for the parent; and after
    `longest_s`, should nobody end it before.
    """
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_tied, args=(task, os.getpid(), longest_s), daemon=True)
    process.start()
    return process


def end(processes: Sequence[BaseProcess]) -> None:
    """End processes, and wait until they have."""
    for process in processes:
        process.kill()
        process.join()


def burn(on_s: float = 1.0, off_s: float = 0.0) -> None:
    """Use a processor; come and go by the clock, all at once: else the breaks of one are when others work."""
    while True:
        into_s = time.monotonic() % (on_s + off_s)
        if into_s >= on_s:
            time.sleep(on_s + off_s - into_s)


def allocate(size_bytes: int) -> None:
    """Hold memory."""
    held = bytearray(size_bytes)
    while held:
        time.sleep(60.0)


def read(path: str) -> None:
    """Read a file over and over, past the page cache."""
    import mmap

    buffer = mmap.mmap(-1, 1 << 20)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    while True:
        offset = 0
        while got := os.preadv(descriptor, [buffer], offset):
            offset += got


def _tied(task: Callable[[], None], parent: int, longest_s: float) -> None:
    die_with_parent(parent)
    end_after(longest_s)
    task()
