"""Run directories that cannot be begun or opened: who is told what."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import closing
from pathlib import Path

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store import database

WRITER = "writer_pid"
"""Fact of a run: the process that executes it, or did so last."""


def refuse_occupied(directory: Path) -> None:
    """Refuse a directory for a new run; changes nothing.

    Raises
    ------
    InputError
        If the directory holds something already.
    CannotExecute
        If that cannot be seen.
    """
    with database.mapped_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InputError(
                f"{directory} exists and is not an empty directory",
                hint="choose another one with --out, or continue a run with `insitu resume`",
            )


def require_run(directory: Path) -> Path:
    """Give the database of a run directory.

    Raises
    ------
    InputError
        If this is none.
    """
    path = directory / database.FILE_NAME
    if not path.is_file():
        raise InputError(
            f"{directory} is not a run directory: it has no {database.FILE_NAME}",
            hint="give the directory that `insitu run` printed",
        )
    return path


def lock(directory: Path) -> int:
    """Hold the directory itself: a lock that dies with the process and leaves no file behind.

    Raises
    ------
    InputError
        If another process executes the run.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        holder = _holder(directory)
        raise InputError(
            f"{directory} is being executed by process {holder}" if holder else f"{directory} is being executed",
            hint="wait for it to end" + (f", or end it with `kill -INT {holder}`" if holder else ""),
            pid=holder,
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _holder(directory: Path) -> int | None:
    try:
        with closing(database.connect_reading(directory / database.FILE_NAME)) as connection:
            (fact,) = connection.execute("SELECT value FROM meta WHERE key = ?", (WRITER,)).fetchone()
        holder = json.loads(fact)
    except Exception:  # the answer only completes another error's message
        return None
    return holder if isinstance(holder, int) else None


def not_readable(path: Path, error: Exception) -> InputError:
    """Make the error for a plan or model in a run directory that cannot be read."""
    return InputError(f"cannot read {path}: {error}", hint="restore it from a copy of the run")
