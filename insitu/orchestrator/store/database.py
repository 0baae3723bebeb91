"""The SQLite file of a run: its schema, how it is opened, and the one place where its errors are mapped.

Schema version 1
----------------
``meta(key, value)``
    Facts about the run; the value is JSON. Always there: ``schema_version``, ``insitu_version``.
``trials(trial, block, assignment, ..., record, purpose)``
    One row per planned trial. ``assignment`` is a JSON list of [variable, base-unit level]; ``state`` a
    `TrialState`; the columns from ``node`` on are NULL until the trial finished; ``record`` is a JSON
    object of ``measurements``, ``samples``, ``reasons``, ``stderr_tail``, ``sandbox`` and ``host``; ``purpose`` is
    a `Purpose`, and NULL where trials were not chosen.
``levels(trial, position, variable, requested, achieved, ...)``
    One row per variable of a finished trial, base units; an infinite ``requested`` is *unlimited*, a NULL
    ``achieved`` means that the resource was never in use.
``pending_samples(trial, names, cells)``
    Samples over time until they are written to ``samples/*.parquet``: names as JSON, cells as little-endian
    float64, column after column.
``events(event, at, kind, text, trial, planned_s, actual_s)``
    What happened, in order; ``at`` in seconds since the epoch. To the run itself: ``trial`` is NULL. During a
    trial: ``text`` is the injector's variable, the times count from the subject's start, and a NULL
    ``planned_s`` means with the subject.

The last three columns of ``events`` and the last one of ``trials`` are missing in runs of earlier versions,
until one is opened for writing.

JSON never holds a bare infinity or NaN: see `insitu.orchestrator.store.encoding`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from insitu import __version__
from insitu.orchestrator.errors import CannotExecute, InputError

SCHEMA_VERSION = 1
FILE_NAME = "run.db"

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trials (
    trial INTEGER PRIMARY KEY, block INTEGER NOT NULL, assignment TEXT NOT NULL, baseline INTEGER NOT NULL,
    replaces INTEGER REFERENCES trials (trial), state TEXT NOT NULL, node TEXT, started_at REAL,
    duration_s REAL, exit_status INTEGER, record TEXT, purpose TEXT
);
CREATE TABLE levels (
    trial INTEGER NOT NULL REFERENCES trials (trial), position INTEGER NOT NULL, variable TEXT NOT NULL,
    requested REAL, achieved REAL, bound_share REAL, uncertainty REAL, verdict TEXT NOT NULL,
    mechanism TEXT NOT NULL, unit TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (trial, position)
) WITHOUT ROWID;
CREATE TABLE pending_samples (trial INTEGER PRIMARY KEY, names TEXT NOT NULL, cells BLOB NOT NULL);
CREATE TABLE events (
    event INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
    trial INTEGER REFERENCES trials (trial), planned_s REAL, actual_s REAL
);
"""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


@contextlib.contextmanager
def mapped_errors(directory: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the file system into errors for the user.

    Raises
    ------
    CannotExecute
        If there is no space, or the directory cannot be written.
    InputError
        If the file is not a sound database.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise no_space(directory) from error
        raise CannotExecute(
            f"cannot write to the run directory {directory}: {error.strerror or error}",
            hint="choose another directory with --out",
        ) from error
    except sqlite3.Error as error:
        raise _database_error(directory, error) from error


def no_space(directory: Path) -> CannotExecute:
    """Make the error for a full file system under `directory`."""
    return CannotExecute(
        f"no space left for the run directory {directory}",
        hint=f"free some space there, then continue with `insitu resume {directory}`",
        path=str(directory),
    )


def _database_error(directory: Path, error: sqlite3.Error) -> CannotExecute | InputError:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return no_space(directory)
    if code == sqlite3.SQLITE_IOERR and _is_full(directory):
        return no_space(directory)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, *_NO_WRITE):
        return CannotExecute(
            f"cannot use {directory / FILE_NAME}: {error}",
            hint="check the permissions of the directory and that its file system is local and writable",
        )
    return corrupted(directory, str(error))


def _is_full(directory: Path) -> bool:
    try:
        return shutil.disk_usage(directory).free < 1 << 20
    except OSError:
        return False


def corrupted(directory: Path, detail: str) -> InputError:
    """Make the error for a database that is not what this program writes."""
    return InputError(
        f"{directory / FILE_NAME} is damaged or not made by insitu: {detail}",
        hint="restore the run directory from a copy, or execute the plan again into a new one",
    )


def create_schema(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Write the tables and the first facts in one transaction, so that a run exists whole or not at all."""
    facts = {**meta, "schema_version": str(SCHEMA_VERSION), "insitu_version": json.dumps(__version__)}
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, _SCHEMA.split(";")):
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
    connection.execute("COMMIT")


def connect_writing(path: Path) -> sqlite3.Connection:
    """Open for writing: WAL, and durable on commit."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        _harden(connection)
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


_LATER_COLUMNS = {
    "events": {"trial": "INTEGER REFERENCES trials (trial)", "planned_s": "REAL", "actual_s": "REAL"},
    "trials": {"purpose": "TEXT"},
}


def has_trial_events(connection: sqlite3.Connection) -> bool:
    """Whether the table ``events`` has the columns of what happened during trials."""
    return _has_later_columns(connection, "events")


def has_purposes(connection: sqlite3.Connection) -> bool:
    """Whether the table ``trials`` says what each was for."""
    return _has_later_columns(connection, "trials")


def _has_later_columns(connection: sqlite3.Connection, table: str) -> bool:
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return columns >= _LATER_COLUMNS[table].keys()


def add_later_columns(connection: sqlite3.Connection) -> None:
    """Bring the tables of an earlier version up to this one; readers of either version go on."""
    for table, columns in _LATER_COLUMNS.items():
        if _has_later_columns(connection, table):
            continue
        connection.execute("BEGIN IMMEDIATE")
        for name, kind in columns.items():
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        connection.execute("COMMIT")


def connect_reading(path: Path) -> sqlite3.Connection:
    """Open for reading, also while another process writes and on a read-only file system.

    A database in WAL mode needs an index file beside it. Where that cannot be made, nobody can be writing
    from this mount either: the file is read as it is, or, with a log beside it, from a copy of both.
    """
    try:
        return _reader(f"file:{quote(str(path.resolve()))}?mode=ro")
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) not in _NO_WRITE:
            raise
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return _reader(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1")
    with tempfile.TemporaryDirectory(prefix="insitu-reading-") as folder:
        shutil.copyfile(path, Path(folder, path.name))
        shutil.copyfile(log, Path(folder, log.name))
        source = _reader(f"file:{quote(folder)}/{quote(path.name)}")
        try:
            memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            source.backup(memory)
        finally:
            source.close()
    return memory


def _reader(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        _harden(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _harden(connection: sqlite3.Connection) -> None:
    """A run directory may come from a stranger: its schema gets no say, its cells are checked."""
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA mmap_size=0")


def check_schema(connection: sqlite3.Connection, directory: Path) -> None:
    """Refuse a database that this version cannot read.

    Raises
    ------
    InputError
        If it was made by a newer version, is damaged, or is not a run.
    """
    kinds = dict(connection.execute("SELECT name, type FROM sqlite_master WHERE type != 'index'"))
    if not kinds:
        raise InputError(
            f"{directory} holds a run that was interrupted before it began",
            hint="remove the directory and execute the plan again",
        )
    if kinds.get("meta") != "table":
        raise corrupted(directory, "it has no table of facts")
    facts = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        version = int(facts["schema_version"])
        made_by = str(json.loads(facts["insitu_version"]))
    except (KeyError, ValueError) as error:
        raise corrupted(directory, "it does not say which version made it") from error
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{directory} has run format {version}, made by a newer insitu ({made_by}); "
            f"this one ({__version__}) knows format {SCHEMA_VERSION}",
            hint="open it with the version that made it, or a newer one",
        )
    expected = {"meta", "trials", "levels", "events"}
    if any(kind != "table" for kind in kinds.values()) or not expected <= kinds.keys():
        raise corrupted(directory, "its tables are not those of a run")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise corrupted(directory, str(verdict).splitlines()[0])
