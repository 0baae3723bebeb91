"""Parameters that stand at a bound, with intervals that do not take the bound for measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

_SURELY = 0.99
"""Confidence of the interval that a bound must lie beyond for the trials to contradict it."""


def solve_bounded(task: Task) -> Solution:
    """Ordinary least squares of a linear law with its parameters within bounds, exactly."""
    law, columns = task.law, task.data.columns
    rows, bounds = law.design_matrix(columns), bounds_of(task)
    found = _bounded_fit(task, rows, task.data.observed - law.offsets(columns), bounds)
    mean = law.mean(found.values, columns)
    finding = bound_finding(found.at_bound, _contradicted(task, found))
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


@dataclass(frozen=True, slots=True, eq=False)
class Linearised:
    """What a law's linear approximation says where some parameters stand at a bound.

    Attributes
    ----------
    intervals
        Of all parameters; ``None`` where the trials tell them apart only with the bounds.
    contradicted
        Those of which the trials exclude the bound, with what they say instead.
    """

    intervals: Band | None = None
    contradicted: tuple[str, ...] = ()


def linearised(task: Task, values: Array, rows: Array, residuals: Array) -> Linearised:
    """Look at the law's linear approximation where a search ended at a bound."""
    try:
        found = _bounded_fit(task, rows, residuals + rows @ values, bounds_of(task))
    except (NotIdentified, ArithmeticError):
        return Linearised()
    return Linearised(_guarded(found, task.confidence), _contradicted(task, found))


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


def _contradicted(task: Task, found: BoundedFit) -> tuple[str, ...]:
    """Parameters at a bound that the trials exclude by themselves, with their interval without any bound."""
    law, told = task.law, []
    for index, name in enumerate(law.parameters):
        if name in found.at_bound and found.parameter(name, _SURELY).contradicted:
            row = np.eye(len(law.parameters))[index]
            alone = found.without_bounds(row, task.confidence)
            unit, scale = law.parameter_units[name], law.parameter_scales[name]
            low, high = sorted((alone.low * scale, alone.high * scale))
            value = float(found.unbounded.values[index]) * scale
            told.append(f"{name} = {value:.3g} [{low:.3g}, {high:.3g}]{f' {unit}' if unit else ''}")
    return tuple(told)


def named(task: Task, at_bound: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    """Parameters that stand at a bound."""
    return tuple(name for name, held in zip(task.law.parameters, at_bound, strict=True) if held)


def bound_finding(names: tuple[str, ...], contradicted: Sequence[str] = ()) -> Finding | None:
    """Which parameters stand at a bound, and what that does to the intervals; ``None`` if none does.

    Parameters
    ----------
    contradicted
        Those of which the trials exclude the bound, with what they say instead.
    """
    if not names:
        return None
    stand, them, they = f"the parameter {names[0]} stands at its bound", "it", "it is"
    if len(names) > 1:
        stand, them, they = f"the parameters {joined(names)} stand at their bounds", "them", "they are"
    text = (
        f"{stand}: the trials alone would put {them} beyond; intervals of parameters allow for "
        f"that, those of means and effects take it that {they} there"
    )
    if contradicted:
        text += (
            f". The trials contradict that: by themselves they say {joined(contradicted)}; "
            "the bound is wrong or the law is, and then no estimate or interval of the law holds"
        )
    return Finding(Check.BOUND, True, sentence(text), parameters=names)
