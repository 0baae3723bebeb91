"""Where the trials have data, and where variables stand without any intervention."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from insitu.orchestrator.estimation.fit import SupportRange
from insitu.orchestrator.estimation.fitting.data import FitData, information_rows
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict


def support_of(name: str, data: FitData, variable: Variable) -> SupportRange:
    """Where one parent of the law has data."""
    records = _level_records(data, name)
    held = sorted(
        {
            level.requested
            for level in records
            if level.verdict in (LevelVerdict.HELD, LevelVerdict.EXACT) and math.isfinite(level.requested)
        }
    )
    seen = [levels[name] for levels in data.levels if math.isfinite(levels[name])]
    unset = [level for level in records if level.verdict is LevelVerdict.UNSET]
    natural = [
        level.achieved for level in unset if level.achieved is not None and math.isfinite(level.achieved)
    ] or [math.inf for _ in unset]  # never in use, or not measured here: it never held the subject up
    span = [*seen, *held] or [math.nan]
    return SupportRange(
        variable=name,
        unit=variable.unit,
        low=min(span),
        high=max(span),
        requested=tuple(held),
        natural=statistics.median(natural) if natural else None,
    )


def baseline_of(
    support: Sequence[SupportRange], data: FitData, variables: Mapping[str, Variable]
) -> dict[str, float]:
    """Levels without any intervention: what the machine gave, and the subject's own parameters there."""
    untouched = [levels for trial, levels in zip(data.trials, data.levels, strict=True) if trial.planned.baseline]
    baseline: dict[str, float] = {}
    for span in support:
        seen = [levels[span.variable] for levels in untouched if math.isfinite(levels[span.variable])]
        variable = variables[span.variable]
        if seen and (variable.role is Role.PARAMETER or variable.categories):
            baseline[span.variable] = statistics.median_low(seen)
        elif seen:
            baseline[span.variable] = statistics.median(seen)
        elif span.natural is not None:
            baseline[span.variable] = span.natural
        elif len(span.requested) == 1:
            baseline[span.variable] = span.requested[0]
    return baseline


def edge_leverage(task: Task, solution: Solution) -> float:
    """Largest leverage of what was fitted and of what was asked for, which may lie a little further out."""
    asked = {name: column.copy() for name, column in task.data.columns.items()}
    for index, trial in enumerate(task.data.trials):
        for level in trial.record.levels if trial.record is not None else ():
            if level.variable in asked and level.verdict is LevelVerdict.HELD and math.isfinite(level.requested):
                asked[level.variable][index] = level.requested
    rows = information_rows(task.law, solution.values, asked)
    rows = rows[np.isfinite(rows).all(axis=1)]
    further = np.einsum("ij,jk,ik->i", rows, solution.inverse_gram, rows)
    return float(max(solution.leverage.max(), further.max(initial=0.0)))


def free_variables(data: FitData, variables: Mapping[str, Variable]) -> list[str]:
    """Variables with numbers that a trial may set and that every fitted trial has a level of."""
    return [
        name
        for name, variable in variables.items()
        if variable.role in (Role.PARAMETER, Role.SET)
        and not variable.categories
        and all(name in levels for levels in data.levels)
    ]


def _level_records(data: FitData, name: str) -> list[LevelRecord]:
    return [
        level
        for trial in data.trials
        if trial.record is not None
        for level in trial.record.levels
        if level.variable == name
    ]
