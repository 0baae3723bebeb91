"""What the trials say about one law: outcome, achieved levels and where each trial ran, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fit import Skipped
from insitu.orchestrator.plan.measurements import NODE
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial, TrialRecord, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

Labels = npt.NDArray[np.int64]

LEAST, MOST = 1e-100, 1e100
"""Sizes between which numbers in base units are fitted: sums of their squares stay within what can be computed."""
_TYPICAL = (1.0, 0.5, 2.0)
"""Values of parameters at which a law must be finite at least once for a trial to be fitted."""


@dataclass(frozen=True, slots=True, eq=False)
class FitData:
    """The fitted trials, one row each.

    Attributes
    ----------
    levels
        Of every variable that a trial has one of, the law's own apart.
    columns
        Levels of the law's parents, each of shape (n,), base units.
    observed
        The outcome, shape (n,).
    groups
        Number of the trial's assignment, shape (n,); equal where all requested levels are.
    nodes, days, blocks
        Numbers of where and when a trial ran, from 0, each of shape (n,).
    order
        Place in the order of execution, shape (n,).
    """

    trials: tuple[StoredTrial, ...]
    levels: tuple[dict[str, float], ...]
    columns: Mapping[str, Array]
    observed: Array
    groups: Labels
    nodes: Labels
    days: Labels
    blocks: Labels
    order: Labels
    skipped: tuple[Skipped, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Each trial's number within its run."""
        return tuple(trial.planned.trial for trial in self.trials)

    def column(self, name: str) -> Array:
        """Levels of any variable, shape (n,); not a number where a trial has none."""
        return np.array([levels.get(name, math.nan) for levels in self.levels], dtype=np.float64)

    def rows(self, kept: npt.NDArray[np.bool_], skipped: Sequence[Skipped]) -> FitData:
        """Some of the trials; the others were skipped."""
        chosen = np.flatnonzero(kept)
        return replace(
            self,
            trials=tuple(self.trials[index] for index in chosen),
            levels=tuple(self.levels[index] for index in chosen),
            columns={name: column[kept] for name, column in self.columns.items()},
            observed=self.observed[kept],
            groups=self.groups[kept],
            nodes=self.nodes[kept],
            days=self.days[kept],
            blocks=self.blocks[kept],
            order=self.order[kept],
            skipped=tuple(sorted((*self.skipped, *skipped), key=lambda one: one.trial)),
        )


def achieved_levels(trial: StoredTrial, variables: Mapping[str, Variable]) -> dict[str, float]:
    """Levels that a finished trial really had, and its measured variables, in base units."""
    levels = trial.planned.assignment.as_dict()
    if trial.record is None:
        return levels
    for level in trial.record.levels:
        known = level.achieved is not None and not math.isnan(level.achieved)
        levels[level.variable] = float(level.achieved) if known and level.achieved is not None else level.requested
    for variable in variables.values():
        if variable.role is not Role.MEASURED:
            continue
        if variable.source == NODE:
            code = variable.code(trial.record.node)
            if code is not None:
                levels[variable.name] = code
        elif variable.source in trial.record.measurements:
            levels[variable.name] = trial.record.measurements[variable.source]
    return levels


def was_set(record: TrialRecord, variable: str) -> bool:
    """Whether a trial held a variable, so that it did not follow its own law."""
    return any(level.variable == variable and level.verdict is not LevelVerdict.UNSET for level in record.levels)


def gather(law: Law, trials: Sequence[StoredTrial], variables: Mapping[str, Variable]) -> FitData:
    """Collect the valid trials in which the law's own variable was left to its law."""
    kept: list[StoredTrial] = []
    levels: list[dict[str, float]] = []
    skipped: list[Skipped] = []
    for trial in trials:
        if trial.state is not TrialState.VALID or trial.record is None or was_set(trial.record, law.variable):
            continue
        at = achieved_levels(trial, variables)
        reason = _unusable(law, at, variables, trial.record.node)
        if reason:
            skipped.append(Skipped(trial.planned.trial, reason))
            continue
        kept.append(trial)
        levels.append(at)
    data = _table(law, kept, levels, skipped)
    defined = _defined(law, data)
    undefined = [
        Skipped(number, "the law is not finite at its levels")
        for number, fine in zip(data.numbers, defined, strict=True)
        if not fine
    ]
    return data.rows(defined, undefined) if undefined else data


def _unusable(law: Law, at: Mapping[str, float], variables: Mapping[str, Variable], node: str) -> str:
    """Why a trial with these levels cannot be fitted; empty if it can."""
    missing = [name for name in law.parents if name not in at]
    unsorted = [name for name in missing if variables[name].source == NODE]
    if unsorted:
        return f"the node '{node}' belongs to no category of {', '.join(unsorted)}"
    if missing:
        return f"no level of {', '.join(missing)} is recorded"
    for name in law.parents:
        measured = variables[name].role is Role.MEASURED
        if math.isnan(at[name]) or (measured and math.isinf(at[name])):
            return f"{_source(variables[name])} is {_spelt(at[name])}"
    outcome = variables[law.variable]
    if law.variable not in at:
        return f"{_source(outcome)} was not measured"
    observed = at[law.variable]
    if not math.isfinite(observed):
        return f"{_source(outcome)} is {_spelt(observed)}"
    if not can_be_fitted(observed):
        return f"{_source(outcome)} is {observed:g}, beyond what can be computed with"
    if law.relative_noise and observed <= 0:
        return f"{_source(outcome)} is {observed:g}, and {law.noise} noise allows for nothing but positive values"
    return ""


def can_be_fitted(observed: float) -> bool:
    """Whether an outcome is a number of which squares can be computed."""
    return observed == 0 or LEAST <= abs(observed) <= MOST


def _source(variable: Variable) -> str:
    return variable.source or variable.name


def _spelt(value: float) -> str:
    return "not a number" if math.isnan(value) else "infinite"


def _table(
    law: Law, kept: Sequence[StoredTrial], levels: Sequence[Mapping[str, float]], skipped: Sequence[Skipped]
) -> FitData:
    records = [trial.record for trial in kept if trial.record is not None]
    started = np.array([record.started_at for record in records], dtype=np.float64)
    order = np.empty(len(kept), dtype=np.int64)
    numbers = np.array([trial.planned.trial for trial in kept], dtype=np.float64)
    order[np.lexsort((numbers, started))] = np.arange(len(kept))
    return FitData(
        trials=tuple(kept),
        levels=tuple({name: at[name] for name in at if name != law.variable} for at in levels),
        # a law without parents takes the number of trials from its own variable
        columns={
            name: np.array([at[name] for at in levels], dtype=np.float64)
            for name in law.parents or (law.variable,)
        },
        observed=np.array([at[law.variable] for at in levels], dtype=np.float64),
        groups=_numbered([tuple(sorted(trial.planned.assignment.levels)) for trial in kept]),
        nodes=_numbered([record.node for record in records]),
        days=_numbered([_day(record.started_at) for record in records]),
        blocks=_numbered([trial.planned.block for trial in kept]),
        order=order,
        skipped=tuple(skipped),
    )


def _day(started_at: float) -> str:
    """The day on which a trial started, in universal time."""
    try:
        return datetime.fromtimestamp(started_at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _numbered(labels: Sequence[object]) -> Labels:
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], dtype=np.int64)


def _defined(law: Law, data: FitData) -> npt.NDArray[np.bool_]:
    """Where the law's value and gradient can be computed with, for some values of its parameters at least."""
    defined = np.zeros(len(data.trials), dtype=np.bool_)
    if len(defined) == 0:
        return defined
    for value in _TYPICAL[:1] if law.linear else _TYPICAL:
        parameters = np.full(len(law.parameters), value)
        if law.linear:
            right, slopes = law.offsets(data.columns), law.design_matrix(data.columns)
        else:
            right, slopes = law.mean(parameters, data.columns), law.gradient(parameters, data.columns)
        defined |= (np.abs(right) <= MOST) & (np.abs(slopes) <= MOST).all(axis=1)
    return defined


@dataclass(frozen=True, slots=True, eq=False)
class LawAt:
    """A linear law evaluated at some levels: its row of the design matrix and what no parameter multiplies."""

    row: Array
    offset: float

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.row).all()) and math.isfinite(self.offset)


def evaluate(law: Law, levels: Mapping[str, float]) -> LawAt:
    """Evaluate a linear law; NaN where it is not defined, such as at a rate of zero."""
    with np.errstate(all="ignore"):
        try:
            return LawAt(np.asarray(law.design_row(levels), dtype=float), float(law.offset(levels)))
        except (ZeroDivisionError, OverflowError, ValueError):
            return LawAt(np.full(len(law.parameters), math.nan), math.nan)


def noise_unit(law: Law, mean: Array) -> Array:
    """What a trial's noise is measured in: the mean where it is relative, else the outcome's unit; shape (n,)."""
    return mean if law.relative_noise else np.ones_like(mean)


def information_rows(law: Law, values: Array, levels: Mapping[str, Array]) -> Array:
    """Gradient of the mean in units of the noise, shape (n, p): what one trial there says of the parameters."""
    with np.errstate(all="ignore"):
        gradient = law.gradient(values, levels)
        if not law.relative_noise:
            return gradient
        rows: Array = gradient / law.mean(values, levels)[:, None]
        return rows
