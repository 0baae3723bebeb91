"""What errors of the achieved levels do to the estimates: noise in a cause makes its effect look smaller."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import sentence
from insitu.orchestrator.estimation.fitting.data import FitData, information_rows
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.units import percent

_MATTERS = 0.5
"""Shift, in standard errors, from which an interval's coverage suffers: at half of one, 95 % becomes 92 %."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelErrors:
    """What errors of the levels do.

    Attributes
    ----------
    shift
        Of the estimates, shape (p,).
    widths
        Variable to the half width of its errors relative to the level, the median over the trials.
    """

    shift: Array
    widths: Mapping[str, float]


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
    for name in law.parents:
        half = half_widths(task.data, name)
        if not half.any():
            continue
        known = (half > 0) & (columns[name] != 0)
        if known.any():
            widths[name] = float(np.median(np.abs(half[known] / columns[name][known])))
        with np.errstate(all="ignore"):
            up, down = ({**columns, name: columns[name] + side * half} for side in (1.0, -1.0))
            rows = information_rows(law, solution.values, up) - information_rows(law, solution.values, down)
            means = law.mean(solution.values, up) - law.mean(solution.values, down)
            means = means / solution.mean if law.relative_noise else means
        together += np.nan_to_num(rows / 2, posinf=0, neginf=0).T @ np.nan_to_num(means / 2, posinf=0, neginf=0)
    return LevelErrors(-solution.inverse_gram @ (together / 3), widths)


def half_widths(data: FitData, name: str) -> Array:
    """What the sampling could not resolve of a variable's level in each trial, shape (n,); 0 where it is exact."""
    halves = np.zeros(len(data.trials))
    for index, trial in enumerate(data.trials):
        for level in trial.record.levels if trial.record is not None else ():
            if level.variable == name and math.isfinite(level.uncertainty):
                halves[index] = level.uncertainty
    return np.where(np.isfinite(data.columns[name]), halves, 0.0)


def level_errors_finding(task: Task, solution: Solution) -> Finding | None:
    """Say whether errors of the levels matter; ``None`` where all levels are exact."""
    found = level_errors(task, solution)
    if not found.widths:
        return None
    errors = solution.standard_errors
    with np.errstate(all="ignore"):
        shares = np.where(errors > 0, np.abs(found.shift) / errors, 0.0)
    most = int(np.argmax(shares))
    name, value, shift = task.law.parameters[most], solution.values[most], found.shift[most]
    known = ", ".join(f"{variable} to {percent(width)}" for variable, width in found.widths.items())
    amount = f"about {percent(abs(shift / value))}" if value else "a little"
    way = "small" if shift * value < 0 else "large"
    notable = bool(shares[most] > _MATTERS)
    much = "more than its interval allows for" if notable else "which does not matter"
    text = (
        f"levels are known within limits ({known}), which makes {name} look too {way} by {amount}, "
        f"{shares[most]:.2g} of its standard error, {much}"
    )
    if notable:
        text += "; longer trials resolve levels better"
    return Finding(Check.LEVEL_ERRORS, notable, sentence(text), parameters=(name,))
