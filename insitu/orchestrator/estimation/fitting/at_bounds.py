"""Parameters that stand at a bound, with intervals that do not take the bound for measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import joined, sentence
from insitu.orchestrator.estimation.fitting.bounded import BoundedFit, fit_bounded
from insitu.orchestrator.estimation.fitting.solution import Solution, Task, least_squares_covariance
from insitu.orchestrator.estimation.fitting.spread import Band
from insitu.orchestrator.plan.law_kinds import Bounds


def solve_bounded(task: Task) -> Solution:
    """Ordinary least squares of a linear law with its parameters within bounds, exactly."""
    law, columns = task.law, task.data.columns
    rows, bounds = law.design_matrix(columns), bounds_of(task)
    found = _bounded_fit(task, rows, task.data.observed - law.offsets(columns), bounds)
    held = np.array([name in found.at_bound for name in law.parameters])
    mean = law.mean(found.values, columns)
    finding = bound_finding(task, held)
    return Solution(
        values=found.values,
        covariance=least_squares_covariance(law, rows, found.inverse_gram, found.sigma**2, found.df),
        inverse_gram=found.inverse_gram,
        sigma=found.sigma,
        sigma_df=found.df,
        df=found.df,
        mean=mean,
        rows=rows,
        residuals=task.data.observed - mean,
        at_bound=found.at_bound,
        findings=(finding,) if finding is not None else (),
        intervals=_guarded(found, task.confidence),
    )


def guarded_intervals(task: Task, values: Array, rows: Array, residuals: Array) -> Band | None:
    """Intervals of parameters, of which some stand at a bound, in the law's linear approximation.

    Returns
    -------
    Band or None
        ``None`` where the trials tell the parameters apart only with the bounds.
    """
    try:
        found = _bounded_fit(task, rows, residuals + rows @ values, bounds_of(task))
    except (NotIdentified, ArithmeticError):
        return None
    return _guarded(found, task.confidence)


def _bounded_fit(task: Task, rows: Array, response: Array, bounds: Band) -> BoundedFit:
    triangle = Triangle.empty(rows.shape[1]).with_rows(rows, response)
    return fit_bounded(triangle, bounds.low, bounds.high, task.law.parameters, task.law.variable)


def _guarded(found: BoundedFit, confidence: float) -> Band:
    intervals = [found.parameter(name, confidence).guarded for name in found.names]
    return Band(np.array([one.low for one in intervals]), np.array([one.high for one in intervals]))


def bounds_of(task: Task) -> Band:
    """Bounds of the parameters, each of shape (p,); infinite where there is none."""
    bounds = [task.law.bounds.get(name, Bounds()) for name in task.law.parameters]
    return Band(np.array([one.low for one in bounds]), np.array([one.high for one in bounds]))


def bound_finding(task: Task, at_bound: npt.NDArray[np.bool_]) -> Finding | None:
    """Which parameters stand at a bound, and what that does to the intervals; ``None`` if none does."""
    names = tuple(name for name, held in zip(task.law.parameters, at_bound, strict=True) if held)
    if not names:
        return None
    stand, them, they = f"the parameter {names[0]} stands at its bound", "it", "it is"
    if len(names) > 1:
        stand, them, they = f"the parameters {joined(names)} stand at their bounds", "them", "they are"
    text = (
        f"{stand}: the trials alone would put {them} beyond; intervals of parameters allow for "
        f"that, those of means and effects take it that {they} there"
    )
    return Finding(Check.BOUND, True, sentence(text), parameters=names)
