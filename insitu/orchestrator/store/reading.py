"""From the database of a run to its trials, facts and events; one connection, nothing is changed."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from insitu.orchestrator.store import database
from insitu.orchestrator.store.encoding import (
    EVENT_COLUMNS,
    LEVEL_COLUMNS,
    TRIAL_COLUMNS,
    Json,
    read_event,
    read_level,
    read_trial,
)
from insitu.orchestrator.store.records import LevelRecord, StoredTrial, TrialEvent

_TRIALS = f"SELECT {TRIAL_COLUMNS}, {{purpose}} FROM trials ORDER BY trial"  # noqa: S608
_LEVELS = f"SELECT {LEVEL_COLUMNS} FROM levels ORDER BY trial, position"  # noqa: S608
_TRIAL_EVENTS = f"SELECT {EVENT_COLUMNS} FROM events WHERE trial IS NOT NULL ORDER BY event"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the run itself; ``at`` in seconds since the epoch."""

    at: float
    kind: str
    text: str


def trials(connection: sqlite3.Connection, directory: Path) -> tuple[StoredTrial, ...]:
    """All trials in execution order.

    Raises
    ------
    InputError
        If a row is not what this program writes.
    """
    connection.execute("BEGIN")  # all tables as of one moment
    try:
        purpose = "purpose" if database.has_purposes(connection) else "NULL"
        rows = connection.execute(_TRIALS.format(purpose=purpose)).fetchall()
        level_cells = connection.execute(_LEVELS).fetchall()
        with_events = database.has_trial_events(connection)
        event_cells = connection.execute(_TRIAL_EVENTS).fetchall() if with_events else []
    finally:
        connection.execute("COMMIT")
    try:
        levels: dict[object, list[LevelRecord]] = {}
        for cells in level_cells:
            levels.setdefault(cells[0], []).append(read_level(cells))
        events: dict[object, list[TrialEvent]] = {}
        for cells in event_cells:
            events.setdefault(cells[0], []).append(read_event(cells))
        return tuple(read_trial(row, levels.get(row[0], ()), events.get(row[0], ())) for row in rows)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise database.corrupted(directory, f"a trial does not read: {error}") from error


def facts(connection: sqlite3.Connection, directory: Path) -> dict[str, Json]:
    """All the facts about the run; raises `InputError` if one does not read."""
    rows = connection.execute("SELECT key, value FROM meta ORDER BY key").fetchall()
    try:
        return {str(key): json.loads(fact) for key, fact in rows}
    except (ValueError, TypeError) as error:
        raise database.corrupted(directory, f"a fact does not read: {error}") from error


def run_events(connection: sqlite3.Connection) -> tuple[Event, ...]:
    """What happened to the run itself, in order."""
    of_run = "WHERE trial IS NULL" if database.has_trial_events(connection) else ""
    rows = connection.execute(f"SELECT at, kind, text FROM events {of_run} ORDER BY event").fetchall()  # noqa: S608
    return tuple(Event(float(at), str(kind), str(text)) for at, kind, text in rows)
