"""How a run directory comes about: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.orchestrator.store import database, refusals
from insitu.orchestrator.store.durable import sync_directory, write_durably
from insitu.orchestrator.store.encoding import Json, dump


@dataclass(frozen=True, slots=True)
class Begun:
    """A new run, held by this process: its database, and the lock on its directory."""

    connection: sqlite3.Connection
    lock: int


PRIORS = "priors"
"""Folder of the fits that a model takes from earlier runs, a file per variable."""


def make(
    directory: Path,
    plan_source: str,
    model_source: str,
    meta: Mapping[str, Json],
    priors: Mapping[str, str] | None = None,
) -> Begun:
    """Make the directory with the plan, the model and a database of no trials; leaves nothing if it fails.

    Parameters
    ----------
    priors
        Variable to the text of what an earlier run found about its law.

    Raises
    ------
    InputError
        If the directory holds something already.
    OSError, sqlite3.Error
        If it cannot be written.
    """
    refusals.refuse_occupied(directory)
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    (directory / "samples").mkdir(parents=True, exist_ok=True)
    lock = refusals.lock(directory)
    try:
        write_durably(directory / "plan.yaml", plan_source)
        write_durably(directory / "model.yaml", model_source)
        if priors:
            (directory / PRIORS).mkdir()
        for variable, source in (priors or {}).items():
            write_durably(directory / PRIORS / f"{variable}.json", source)
        connection = database.connect_writing(directory / database.FILE_NAME)
        try:
            facts = {**meta, refusals.WRITER: os.getpid()}
            database.create_schema(connection, {key: dump(fact) for key, fact in facts.items()})
            sync_directory(directory)
            sync_directory(directory.resolve().parent)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        _discard(directory, missing)
        os.close(lock)
        raise
    return Begun(connection, lock)


def _discard(directory: Path, made: Sequence[Path]) -> None:
    databases = (f"{database.FILE_NAME}{end}" for end in ("", "-wal", "-shm", "-journal"))
    for prior in (directory / PRIORS).glob("*.json"):
        with contextlib.suppress(OSError):
            prior.unlink()
    with contextlib.suppress(OSError):
        for name in ("plan.yaml", "model.yaml", *databases):
            (directory / name).unlink(missing_ok=True)
    for folder in (directory / "samples", directory / PRIORS, *made):
        with contextlib.suppress(OSError):
            folder.rmdir()
