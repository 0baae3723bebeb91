"""Folders in the cache for the time of one build or one boot, removed even if their owner was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "work-"


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Hold the cache for ourselves: for a build, and while folders come and go."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def workplace(cache: Path) -> Iterator[Path]:
    """A new folder, which is removed at the end; the caller holds the cache while entering.

    Whoever lives keeps a lock on its folder, so those without are left over from a kill, and removed, too.
    """
    for folder in cache.glob(f"{_PREFIX}*"):
        _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=cache))
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder)
        os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)
