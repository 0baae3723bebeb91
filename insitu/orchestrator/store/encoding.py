"""Records to and from what SQLite and JSON can carry.

JSON has no infinity: ``inf``, ``-inf`` and ``nan`` are written as those strings, here and in every document
of this project, and read back with ``float()``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    Purpose,
    StoredTrial,
    TrialEvent,
    TrialRecord,
    TrialState,
)

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Cell: TypeAlias = "int | float | str | None"

TRIAL_COLUMNS = (
    "trial, block, assignment, baseline, replaces, state, node, started_at, duration_s, exit_status, record"
)
PLAN_COLUMNS = "trial, block, assignment, baseline, replaces, state, purpose"
EVENT_COLUMNS = "trial, at, kind, text, planned_s, actual_s"
LEVEL_COLUMNS = (
    "trial, position, variable, requested, achieved, bound_share, uncertainty, verdict, mechanism, unit, note"
)


def finite_json(value: object, *, unknown: str | None = "nan") -> Json:
    """Copy a tree of plain data with its non-finite numbers spelt as text.

    Parameters
    ----------
    unknown
        What stands for not a number.
    """
    if isinstance(value, float):
        return unknown if math.isnan(value) else value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): finite_json(item, unknown=unknown) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [finite_json(item, unknown=unknown) for item in value]
    raise TypeError(f"{type(value).__name__} is not plain data")


def dump(value: object) -> str:
    """Write plain data as compact JSON."""
    return json.dumps(finite_json(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def planned_row(planned: PlannedTrial) -> tuple[Cell, ...]:
    """Values of the `PLAN_COLUMNS` of a trial that has not started."""
    return (
        planned.trial,
        planned.block,
        dump(planned.assignment.levels),
        int(planned.baseline),
        planned.replaces,
        TrialState.PLANNED.value,
        None if planned.purpose is None else planned.purpose.value,
    )


def record_row(record: TrialRecord) -> tuple[Cell, ...]:
    """Values of the columns ``state`` to ``record`` of a finished trial."""
    rest = {
        "measurements": record.measurements,
        "samples": record.samples,
        "reasons": record.reasons,
        "stderr_tail": record.stderr_tail,
        "sandbox": record.sandbox,
        "host": record.host,
    }
    return (
        record.state.value,
        record.node,
        record.started_at,
        record.duration_s,
        record.exit_status,
        dump(rest),
    )


def level_rows(record: TrialRecord) -> list[tuple[Cell, ...]]:
    """One row of the table ``levels`` per variable; SQL's own infinity is *unlimited*."""
    return [
        (
            record.trial,
            position,
            level.variable,
            level.requested,
            level.achieved,
            level.bound_share,
            level.uncertainty,
            level.verdict.value,
            level.mechanism,
            level.unit,
            level.note,
        )
        for position, level in enumerate(record.levels)
    ]


def event_rows(record: TrialRecord) -> list[tuple[Cell, ...]]:
    """One row of the table ``events`` per event of a trial."""
    return [
        (record.trial, event.at, event.kind, event.variable, event.planned_s, event.actual_s)
        for event in record.events
    ]


def read_event(row: Sequence[Cell]) -> TrialEvent:
    """Read a row of the table ``events`` that belongs to a trial."""
    _, at, kind, variable, planned_s, actual_s = row
    planned = None if planned_s is None else _number(planned_s)
    return TrialEvent(_number(at), str(kind), str(variable), planned, _number(actual_s))


def read_level(row: Sequence[Cell]) -> LevelRecord:
    """Read a row of the table ``levels``.

    Raises
    ------
    ValueError, TypeError
        If the row is not what this program writes.
    """
    _, _, variable, requested, achieved, bound_share, uncertainty, verdict, mechanism, unit, note = row
    return LevelRecord(
        variable=str(variable),
        requested=_number(requested),
        achieved=None if achieved is None else _number(achieved),
        bound_share=_number(bound_share),
        uncertainty=_number(uncertainty),
        verdict=LevelVerdict(str(verdict)),
        mechanism=str(mechanism),
        unit=str(unit),
        note=str(note),
    )


def read_trial(
    row: Sequence[Cell], levels: Sequence[LevelRecord], events: Sequence[TrialEvent] = ()
) -> StoredTrial:
    """Read a row of the table ``trials``, its `TRIAL_COLUMNS` and its purpose, with its levels and events.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the row is not what this program writes.
    """
    (
        trial,
        block,
        assignment,
        baseline,
        replaces,
        state,
        node,
        started_at,
        duration_s,
        exit_status,
        rest,
        purpose,
    ) = row
    planned = PlannedTrial(
        trial=_whole(trial),
        block=_whole(block),
        assignment=Assignment(tuple((str(name), float(level)) for name, level in json.loads(str(assignment)))),
        baseline=bool(baseline),
        replaces=None if replaces is None else _whole(replaces),
        purpose=None if purpose is None else Purpose(str(purpose)),
    )
    if rest is None:
        return StoredTrial(planned, TrialState(str(state)))
    fields = json.loads(str(rest))
    record = TrialRecord(
        trial=planned.trial,
        state=TrialState(str(state)),
        node=str(node),
        started_at=_number(started_at),
        duration_s=_number(duration_s),
        exit_status=None if exit_status is None else _whole(exit_status),
        measurements={str(name): float(amount) for name, amount in fields["measurements"].items()},
        levels=tuple(levels),
        samples=str(fields["samples"]),
        reasons=tuple(str(reason) for reason in fields["reasons"]),
        stderr_tail=str(fields["stderr_tail"]),
        sandbox=str(fields["sandbox"]),
        host={str(name): float(amount) for name, amount in fields["host"].items()},
        events=tuple(events),
    )
    return StoredTrial(planned, record.state, record)


def _number(cell: Cell) -> float:
    if cell is None:  # SQLite has no NaN and stores it as NULL
        return math.nan
    return float(cell)


def _whole(cell: Cell) -> int:
    if not isinstance(cell, int):
        raise TypeError(f"{cell!r} is not a whole number")
    return cell
