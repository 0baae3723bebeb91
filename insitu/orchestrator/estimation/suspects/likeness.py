"""Which trials are like a trial, and what the others can say of its levels without extrapolating."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial

_SAME = 1e-9
"""Relative difference between levels that is none."""
_TRIALS_PER_COLUMN = 3
_WORTH = 2.0
"""Trials with a trial's own levels that a regression must be worth there, to say what is usual."""

Levels = Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """One trial beside n others, by the levels that were asked for.

    Attributes
    ----------
    alike
        Those that stood at the same levels, shape (n,).
    rows, row
        What a measurement may be a linear function of: of the others, shape (n, p), and of the trial, shape (p,).
    within
        Whether each of the trial's levels lies between those of the others, and the row tells all that differ.
    """

    alike: npt.NDArray[np.bool_]
    rows: Array
    row: Array
    within: bool

    def worth(self, known: npt.NDArray[np.bool_]) -> float:
        """How many trials at the trial's own levels those are worth whose measurement is known; 0 if too few.

        Notes
        -----
        The prediction of a regression is a weighted sum of what the trials measured, and the sum of the squares
        of its weights is the leverage of the place: 1/k for the mean of k trials there, and large far from all.
        """
        if not self.within:
            return 0.0
        weights = self.row @ np.linalg.pinv(self.rows[known])
        if not np.allclose(weights @ self.rows[known], self.row, atol=1e-6):
            return 0.0
        worth = 1.0 / float(weights @ weights)
        return worth if worth >= _WORTH * (1 - _SAME) else 0.0


def likeness(trial: StoredTrial, others: Sequence[StoredTrial]) -> Likeness:
    """Lay a trial beside others.

    Notes
    -----
    A cap that did not bind is as none: whether it was slack or not set at all, the trial stood at what the subject
    uses by itself, the median of what such trials achieved. What the trial itself achieved does not count: who
    disturbs a trial takes of that, and it would excuse itself.
    """
    used = _used_freely(others)
    levels = [_settled(one, used) for one in [*others, trial]]
    names = sorted({name for one in levels for name in one})
    told = {name: np.array([one.get(name, math.nan) for one in levels]) for name in names}
    told = {name: column for name, column in told.items() if not np.isnan(column).any()}
    differing = {name: column for name, column in told.items() if (column != column[0]).any()}
    shapes = {name: _shapes(column, capped=name in used) for name, column in differing.items()}
    rows = _rows(list(shapes.values()), len(levels))
    return Likeness(
        alike=np.array([_same(one, levels[-1]) for one in levels[:-1]], dtype=np.bool_),
        rows=rows[:-1],
        row=rows[-1],
        within=all(_between(differing[name]) and _tell(rows, shapes[name]) for name in differing),
    )


def _used_freely(trials: Sequence[StoredTrial]) -> dict[str, float]:
    """How much the subject uses of what is capped in other trials, where no cap bound."""
    free: dict[str, list[float]] = {}
    for one in trials:
        for level in one.record.levels if one.record is not None else ():
            achieved = math.nan if level.achieved is None else level.achieved
            if math.isfinite(achieved) and (level.verdict is LevelVerdict.SLACK or level.requested == math.inf):
                free.setdefault(level.variable, []).append(achieved)
    return {name: float(np.median(found)) for name, found in free.items()}


def _settled(trial: StoredTrial, used: Levels) -> dict[str, float]:
    """Where a trial stood as far as it was asked to."""
    recorded = trial.record.levels if trial.record is not None else ()
    slack = {level.variable for level in recorded if level.verdict is LevelVerdict.SLACK}
    return {
        name: used[name] if name in used and (name in slack or level >= used[name]) else level
        for name, level in trial.planned.assignment.levels
    }


def _same(levels: Levels, others: Levels) -> bool:
    return levels.keys() == others.keys() and all(
        level == others[name] or abs(level - others[name]) <= _SAME * abs(level) for name, level in levels.items()
    )


def _between(column: Array) -> bool:
    """Whether the last level lies between the others."""
    slack = _SAME * abs(column[-1]) if math.isfinite(column[-1]) else 0.0
    return bool(column[:-1].min() - slack <= column[-1] <= column[:-1].max() + slack)


def _shapes(levels: Array, *, capped: bool) -> list[Array]:
    """What a measurement may depend on: a level by itself and its reciprocal, by which a cap acts."""
    reciprocal = [] if (levels == 0).any() else [1 / levels]
    return reciprocal if capped or np.isinf(levels).any() else [levels, *reciprocal]


def _rows(shapes: Sequence[Sequence[Array]], trials: int) -> Array:
    """A row per trial: one shape of each level first, then the other, then products; none that adds nothing."""
    mains = [one for place in range(2) for found in shapes for one in found[place : place + 1]]
    products = [first * second for index, first in enumerate(mains) for second in mains[index + 1 :]]
    columns = [np.ones(trials)]
    for one in [*mains, *products]:
        if len(columns) + 1 > (trials - 1) / _TRIALS_PER_COLUMN:
            break
        scaled = (one - one.mean()) / one.std() if one.std() > 0 else one * 0
        together = np.column_stack([*columns, scaled])
        if np.linalg.matrix_rank(together[:-1], tol=1e-6) == together.shape[1]:
            columns.append(scaled)
    return np.column_stack(columns)


def _tell(rows: Array, shapes: Sequence[Array]) -> bool:
    """Whether the rows tell a level that differs: one of its shapes is a linear function of them."""
    return any(
        np.allclose(rows @ np.linalg.lstsq(rows, one, rcond=None)[0], one, rtol=0, atol=1e-6 * np.ptp(one))
        for one in shapes
    )
