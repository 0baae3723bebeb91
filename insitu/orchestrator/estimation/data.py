"""What the trials say about one law: outcome, achieved levels and design rows, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.estimation.fit import Skipped
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial, TrialRecord, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FitData:
    """The fitted trials, one row each.

    Attributes
    ----------
    rows
        Design matrix at the achieved levels, base units, shape (n, parameters).
    response
        Outcome less the law's offset, shape (n,).
    groups
        Number of the trial's assignment, shape (n,); equal where all requested levels are.
    """

    trials: tuple[StoredTrial, ...]
    levels: tuple[dict[str, float], ...]
    rows: Array
    response: Array
    offsets: Array
    groups: npt.NDArray[np.int64]
    skipped: tuple[Skipped, ...]


def achieved_levels(trial: StoredTrial, variables: Mapping[str, Variable]) -> dict[str, float]:
    """Levels that a finished trial really had, and its measured variables, in base units."""
    levels = trial.planned.assignment.as_dict()
    if trial.record is None:
        return levels
    for level in trial.record.levels:
        known = level.achieved is not None and not math.isnan(level.achieved)
        levels[level.variable] = float(level.achieved) if known and level.achieved is not None else level.requested
    for variable in variables.values():
        if variable.role is Role.MEASURED and variable.source in trial.record.measurements:
            levels[variable.name] = trial.record.measurements[variable.source]
    return levels


def gather(law: Law, trials: Sequence[StoredTrial], variables: Mapping[str, Variable]) -> FitData:
    """Collect the valid trials in which the law's own variable was left to its law."""
    outcome = variables[law.variable]
    kept: list[StoredTrial] = []
    levels: list[dict[str, float]] = []
    rows: list[Array] = []
    offsets: list[float] = []
    observed: list[float] = []
    skipped: list[Skipped] = []
    for trial in trials:
        record = trial.record
        if trial.state is not TrialState.VALID or record is None or _was_set(record, law.variable):
            continue
        at = achieved_levels(trial, variables)
        missing = [name for name in law.parents if name not in at]
        if missing:
            skipped.append(Skipped(trial.planned.trial, f"no level of {', '.join(missing)} is recorded"))
            continue
        if not math.isfinite(at.get(law.variable, math.nan)):
            skipped.append(Skipped(trial.planned.trial, f"{outcome.source or outcome.name} was not measured"))
            continue
        here = evaluate(law, at)
        if not here.finite:
            skipped.append(Skipped(trial.planned.trial, "the law is not finite at its levels"))
            continue
        kept.append(trial)
        levels.append({name: at[name] for name in at if name != law.variable})
        rows.append(here.row)
        offsets.append(here.offset)
        observed.append(at[law.variable])
    assignments = [tuple(sorted(trial.planned.assignment.levels)) for trial in kept]
    numbers = {assignment: number for number, assignment in enumerate(dict.fromkeys(assignments))}
    return FitData(
        trials=tuple(kept),
        levels=tuple(levels),
        rows=np.array(rows, dtype=float).reshape(len(kept), len(law.parameters)),
        response=np.array(observed, dtype=float) - np.array(offsets, dtype=float),
        offsets=np.array(offsets, dtype=float),
        groups=np.array([numbers[assignment] for assignment in assignments], dtype=np.int64),
        skipped=tuple(skipped),
    )


@dataclass(frozen=True, slots=True)
class LawAt:
    """A law evaluated at some levels: its row of the design matrix and what no parameter multiplies."""

    row: Array
    offset: float

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.row).all()) and math.isfinite(self.offset)


def evaluate(law: Law, levels: Mapping[str, float]) -> LawAt:
    """Evaluate a law; NaN where it is not defined, such as at a rate of zero."""
    with np.errstate(all="ignore"):
        try:
            return LawAt(np.asarray(law.design_row(levels), dtype=float), float(law.offset(levels)))
        except (ZeroDivisionError, OverflowError, ValueError):
            return LawAt(np.full(len(law.parameters), math.nan), math.nan)


def _was_set(record: TrialRecord, variable: str) -> bool:
    return any(level.variable == variable and level.verdict is not LevelVerdict.UNSET for level in record.levels)
