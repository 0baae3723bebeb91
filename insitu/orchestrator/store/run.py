"""A run directory: everything that one execution of a plan produced.

::

    plan.yaml  model.yaml     as submitted
    priors/*.json             fits of earlier runs that the model names
    run.db                    trials, achieved levels, facts, events (`insitu.orchestrator.store.database`)
    samples/*.parquet         one file per trial
    report.html  fitted.json  written at the end, and again on request

It can be moved, zipped, and read while a run executes. Nothing in it is executed or unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors.contract import RUN_ID
from insitu.orchestrator.plan.priors import MAX_BYTES
from insitu.orchestrator.plan.regular_file import read_regular
from insitu.orchestrator.store import beginning, database, reading, refusals
from insitu.orchestrator.store.encoding import (
    EVENT_COLUMNS,
    LEVEL_COLUMNS,
    PLAN_COLUMNS,
    Json,
    dump,
    event_rows,
    level_rows,
    planned_row,
    record_row,
)
from insitu.orchestrator.store.reading import Event
from insitu.orchestrator.store.records import (
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)
from insitu.orchestrator.store.samples import PENDING_COLUMNS, pack, unpack, write_samples
from insitu.orchestrator.store.states import transition

_PLAN = f"INSERT INTO trials ({PLAN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_FINISH = """
    UPDATE trials SET state = ?, node = ?, started_at = ?, duration_s = ?, exit_status = ?, record = ?
    WHERE trial = ? AND state = 'running'
"""
_LEVEL = f"INSERT INTO levels ({LEVEL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_EVENT = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_KEEP_SAMPLES = f"INSERT OR REPLACE INTO pending_samples ({PENDING_COLUMNS}) VALUES (?, ?, ?)"  # noqa: S608
_START = "UPDATE trials SET state = 'running' WHERE trial = ? AND state = 'planned'"
_RESET = "UPDATE trials SET state = 'planned' WHERE state = 'running'"


class RunStore:
    """The durable record of one run.

    A store that is open for writing holds the run exclusively until it is closed; any number of read-only
    ones may be open beside it. One store may be used from several threads.

    Attributes
    ----------
    directory
        The run directory.
    read_only
        Whether writing is refused.
    """

    def __init__(
        self, directory: Path, connection: sqlite3.Connection, lock: int | None, *, read_only: bool
    ) -> None:
        self.directory = directory
        self.read_only = read_only
        self._connection = connection
        self._lock = lock
        self._mutex = threading.RLock()

    @classmethod
    def create(
        cls,
        directory: Path,
        plan_source: str,
        model_source: str,
        meta: Mapping[str, Json] | None = None,
        priors: Mapping[str, str] | None = None,
    ) -> Self:
        """Begin a run in a new or empty directory.

        Parameters
        ----------
        meta
            First facts (run id, seed, versions); plain data.
        priors
            Variable to the text of what an earlier run found about its law.

        Raises
        ------
        InputError
            If the directory holds something already.
        CannotExecute
            If it cannot be written, or there is no space.
        """
        directory = Path(directory)
        with database.mapped_errors(directory):
            made = beginning.make(directory, plan_source, model_source, meta or {}, priors)
        return cls(directory, made.connection, made.lock, read_only=False)

    @classmethod
    def open(cls, directory: Path, read_only: bool = False) -> Self:
        """Open an existing run.

        Raises
        ------
        InputError
            If this is not a run directory, it is damaged, it was made by a newer version, or (for writing)
            another process executes it.
        CannotExecute
            If it cannot be read or written.
        """
        directory = Path(directory)
        with database.mapped_errors(directory):
            path = refusals.require_run(directory)
            lock = None if read_only else refusals.lock(directory)
            try:
                connection = database.connect_reading(path) if read_only else database.connect_writing(path)
                try:
                    database.check_schema(connection, directory)
                    store = cls(directory, connection, lock, read_only=read_only)
                    if not read_only:
                        database.add_later_columns(connection)
                        store.set_meta(refusals.WRITER, os.getpid())
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                if lock is not None:
                    os.close(lock)
                raise
        return store

    def close(self) -> None:
        """Close the file and let go of the run; harmless to repeat."""
        with self._mutex:
            self._connection.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # trials

    def plan_trials(self, trials: Iterable[PlannedTrial]) -> None:
        """Add trials to execute, all or none."""
        with self._transaction() as connection:
            connection.executemany(_PLAN, [planned_row(planned) for planned in trials])

    def add(self, planned: PlannedTrial) -> None:
        """Add one trial, such as the replacement of an invalid one."""
        self.plan_trials((planned,))

    def start(self, trial: int) -> None:
        """Mark a planned trial as running.

        This alone is not flushed to the disk: after a power failure the trial is planned again, which is
        where `reset_running` would put it.

        Raises
        ------
        IllegalTransition
            If the trial is not planned.
        """
        with self._mutex, database.mapped_errors(self.directory):
            self._connection.execute("PRAGMA synchronous=NORMAL")
            try:
                with self._transaction() as connection:
                    if connection.execute(_START, (trial,)).rowcount != 1:
                        transition(self._state(trial), TrialState.RUNNING)
            finally:
                self._connection.execute("PRAGMA synchronous=FULL")

    def finish(self, record: TrialRecord, samples: Mapping[str, Sequence[float]] | None = None) -> None:
        """Store a finished trial; when this returns it survives a power failure.

        Parameters
        ----------
        samples
            Column to values over time. Kept in the database, in the same transaction, until
            `export_samples` writes them out: a Parquet file per trial costs more than the whole record.

        Raises
        ------
        IllegalTransition
            If the trial is not running, or the record's state is not a final one.
        CannotExecute
            If there is no space; the trial is then still running.
        """
        transition(TrialState.RUNNING, record.state)
        if record.state is TrialState.PLANNED:
            raise ValueError("a finished trial cannot be planned; see reset_running")
        if samples:
            record = replace(record, samples=f"samples/trial-{record.trial:05d}.parquet")
        row, levels = record_row(record), level_rows(record)
        with self._transaction() as connection:
            if connection.execute(_FINISH, (*row, record.trial)).rowcount != 1:
                transition(self._state(record.trial), record.state)
            connection.executemany(_LEVEL, levels)
            connection.executemany(_EVENT, event_rows(record))
            if samples:
                connection.execute(_KEEP_SAMPLES, (record.trial, *pack(samples)))

    def export_samples(self) -> int:
        """Write samples that are still in the database to Parquet; return how many trials had some."""
        with self._mutex, database.mapped_errors(self.directory):
            pending = self._connection.execute(f"SELECT {PENDING_COLUMNS} FROM pending_samples").fetchall()  # noqa: S608
        for trial, names, cells in pending:
            write_samples(self.directory / f"samples/trial-{trial:05d}.parquet", unpack(names, cells))
            with self._transaction() as connection:
                connection.execute("DELETE FROM pending_samples WHERE trial = ?", (trial,))
        return len(pending)

    def reset_running(self) -> int:
        """Put trials that a crash left running back to planned; return how many there were."""
        with self._transaction() as connection:
            return connection.execute(_RESET).rowcount

    def trials(self) -> tuple[StoredTrial, ...]:
        """All trials in execution order.

        Raises
        ------
        InputError
            If a row is not what this program writes.
        """
        with self._mutex, database.mapped_errors(self.directory):
            return reading.trials(self._connection, self.directory)

    # facts and events

    def set_meta(self, key: str, fact: Json) -> None:
        """Store a fact about the run, replacing an earlier one under the same key."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, dump(fact)))

    def meta(self) -> dict[str, Json]:
        """Return all the facts about the run."""
        with self._mutex, database.mapped_errors(self.directory):
            return reading.facts(self._connection, self.directory)

    def event(self, kind: str, text: str) -> None:
        """Note something that happened to the run."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO events (at, kind, text) VALUES (?, ?, ?)", (time.time(), kind, text))

    def events(self) -> tuple[Event, ...]:
        """What happened to the run itself, in order; what happened in a trial is in its record."""
        with self._mutex, database.mapped_errors(self.directory):
            return reading.run_events(self._connection)

    # files

    @property
    def run_id(self) -> str:
        """What everything that this run makes on a node is named after.

        Raises
        ------
        InputError
            If the fact is missing or is no such name.
        """
        found = self.meta().get("run_id")
        if not isinstance(found, str) or re.fullmatch(RUN_ID, found) is None:
            raise database.corrupted(self.directory, "its run_id is none")
        return found

    @property
    def plan_source(self) -> str:
        """The plan as submitted."""
        return self._text("plan.yaml")

    @property
    def model_source(self) -> str:
        """The model as submitted."""
        return self._text("model.yaml")

    @property
    def priors(self) -> dict[str, str]:
        """Variable to the text of what an earlier run found about its law, as submitted with the model."""
        found = sorted((self.directory / beginning.PRIORS).glob("*.json"))
        return {path.stem: self._text(f"{beginning.PRIORS}/{path.name}") for path in found}

    def _text(self, name: str) -> str:
        try:
            content = read_regular(self.directory / name, MAX_BYTES, follow=False)
            if len(content) > MAX_BYTES:
                raise OSError(errno.EFBIG, "it is too large to be of a run")
            return content.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise refusals.not_readable(self.directory / name, error) from error

    def samples_path(self, record: TrialRecord) -> Path | None:
        """Where a trial's samples are; ``None`` without any.

        Raises
        ------
        InputError
            If the record points outside the run directory.
        """
        if not record.samples:
            return None
        path = (self.directory / record.samples).resolve()
        if not path.is_relative_to(self.directory.resolve()):
            raise database.corrupted(self.directory, f"the samples of trial {record.trial} lie outside it")
        return path

    def _state(self, trial: int) -> TrialState:
        row = self._connection.execute("SELECT state FROM trials WHERE trial = ?", (trial,)).fetchone()
        if row is None:
            raise KeyError(f"there is no trial {trial}")
        return TrialState(row[0])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._mutex, database.mapped_errors(self.directory):
            if self.read_only:
                raise PermissionError(f"{self.directory} was opened for reading only")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
