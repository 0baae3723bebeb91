"""What errors of the achieved levels do to the estimates: noise in a cause makes its effect look smaller."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import listed_trials, sentence
from insitu.orchestrator.estimation.fitting.data import FitData, information_rows
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.store.records import LevelVerdict
from insitu.orchestrator.units import percent

_MATTERS = 0.5
"""Shift, in standard errors, from which an interval's coverage suffers: at half of one, 95 % becomes 92 %."""
_UNKNOWN = 0.5
"""Half width of an error, as a share of the level that was asked for, beyond which no trial says that it was held.
A run of an earlier version may, and of a share that is lost (``net.loss``) few packets never tell more."""
_MANY = 10.0
"""Standard errors from which a shift is no longer counted in them."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelErrors:
    """What errors of the levels do.

    Attributes
    ----------
    shift
        Of the estimates, shape (p,).
    widths
        Variable to the half width of its errors as a share of its levels, of both the root mean square over the
        trials whose errors the shift is due to.
    unknown
        Variable to the numbers of the trials that do not tell it; no part of the shift.
    """

    shift: Array
    widths: Mapping[str, float]
    unknown: Mapping[str, tuple[int, ...]]


def level_errors(task: Task, solution: Solution) -> LevelErrors:
    """Estimate how far the estimates are shifted.

    Notes
    -----
    Classical errors in the regressors: to first order the estimates are shifted by ``-(X'X)^-1 sum(dx dm)``, where
    dx and dm are what an error of a level does to a trial's row and to its mean (W. A. Fuller, *Measurement Error
    Models*, section 1.1; for one regressor this is its attenuation). What the samples cannot resolve is taken to
    be spread evenly over its width. That a level was held off the requested one is no such error.
    """
    law, columns = task.law, task.data.columns
    together = np.zeros(len(law.parameters))
    widths: dict[str, float] = {}
    unknown: dict[str, tuple[int, ...]] = {}
    for name in law.parents:
        half, untold = half_widths(task.data, name), _untold(task.data, name)
        if untold.any():
            unknown[name] = tuple(np.array(task.data.numbers)[untold].tolist())
            half[untold] = 0.0
        known = half > 0
        if not known.any():
            continue
        if (levels := columns[name][known]).any():
            widths[name] = float(np.linalg.norm(half[known]) / np.linalg.norm(levels))
        with np.errstate(all="ignore"):
            up, down = ({**columns, name: columns[name] + side * half} for side in (1.0, -1.0))
            rows = information_rows(law, solution.values, up) - information_rows(law, solution.values, down)
            means = law.mean(solution.values, up) - law.mean(solution.values, down)
            means = means / solution.mean if law.relative_noise else means
        together += np.nan_to_num(rows / 2, posinf=0, neginf=0).T @ np.nan_to_num(means / 2, posinf=0, neginf=0)
    return LevelErrors(-solution.inverse_gram @ (together / 3), widths, unknown)


def half_widths(data: FitData, name: str) -> Array:
    """What the sampling could not resolve of a variable's level in each trial, shape (n,); 0 where it is exact."""
    halves = np.zeros(len(data.trials))
    for index, trial in enumerate(data.trials):
        for level in trial.record.levels if trial.record is not None else ():
            if level.variable == name and math.isfinite(level.uncertainty):
                halves[index] = level.uncertainty
    return np.where(np.isfinite(data.columns[name]), halves, 0.0)


def _untold(data: FitData, name: str) -> npt.NDArray[np.bool_]:
    """Trials that say of a variable that its level was held, and do not tell it, shape (n,)."""
    return np.array(
        [
            any(
                level.variable == name
                and level.verdict is LevelVerdict.HELD
                and level.uncertainty > _UNKNOWN * abs(level.requested)
                for level in (trial.record.levels if trial.record is not None else ())
            )
            for trial in data.trials
        ],
        dtype=np.bool_,
    )


def level_errors_finding(task: Task, solution: Solution) -> Finding | None:
    """Say whether errors of the levels matter; ``None`` where all levels are exact."""
    found = level_errors(task, solution)
    parts: list[str] = []
    parameters: tuple[str, ...] = ()
    notable = bool(found.unknown)
    if found.widths:
        errors = solution.standard_errors
        with np.errstate(all="ignore"):
            shares = np.where(errors > 0, np.abs(found.shift) / errors, 0.0)
        most = int(np.argmax(shares))
        matters = bool(shares[most] > _MATTERS)
        known = ", ".join(f"{variable} to {percent(width)}" for variable, width in found.widths.items())
        much = "more than its interval allows for" if matters else "which does not matter"
        shifted = _shifted(task.law.parameters[most], solution.values[most], found.shift[most], shares[most])
        parts.append(f"levels are known within limits ({known}), which makes {shifted}, {much}")
        parameters, notable = (task.law.parameters[most],), notable or matters
    parts += [
        f"{variable} is as good as unknown in {listed_trials(trials)}, whose samples leave more than half of "
        "the level open; that is not counted here"
        for variable, trials in found.unknown.items()
    ]
    if not parts:
        return None
    if notable:
        parts.append("longer trials resolve levels better")
    trials = tuple(sorted({number for numbers in found.unknown.values() for number in numbers}))
    return Finding(Check.LEVEL_ERRORS, notable, sentence("; ".join(parts)), parameters=parameters, trials=trials)


def _shifted(name: str, value: float, shift: float, share: float) -> str:
    """That a parameter looks too small or too large, by how much of itself and of its standard error."""
    way = "small" if shift * value < 0 else "large"
    amount = "a little" if not value else "as much as it is, or more"
    if abs(shift) < abs(value):
        amount = f"about {percent(abs(shift / value))}"
    errors = f"{share:.2g} of its standard error" if share < _MANY else "many times its standard error"
    return f"{name} look too {way} by {amount}, {errors}"
