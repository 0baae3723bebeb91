"""What residuals should not show: runs along the fitted values, drift, and differences of blocks or nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.lack_of_fit import orthonormal_basis
from insitu.orchestrator.estimation.checks.words import p_text, sentence
from insitu.orchestrator.estimation.fitting.data import Labels
from insitu.orchestrator.estimation.fitting.robust import clipped
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.plan.law_kinds import Method
from insitu.orchestrator.units import format_quantity, percent

SIGNIFICANT = 0.01
"""Below which a pattern is worth a reader's time; several are looked for in every fit."""


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """Test of whether the law with more columns explains more than chance.

    Attributes
    ----------
    coefficients
        Of the columns, in the unit of the residuals.
    correlation
        Partial correlation with the columns; with several, the multiple one, which has no sign.
    """

    p_value: float
    coefficients: tuple[float, ...]
    correlation: float


def residual_patterns(task: Task, solution: Solution, unit: str) -> tuple[Finding, ...]:
    """Look for every pattern that the trials allow to look for."""
    if len(solution.residuals) < 4 or solution.sigma == 0:
        return ()
    left, basis = clipped(solution), solution.rows
    if solution.method is Method.MIXED:  # it has an offset of each already
        basis = np.hstack([basis, dummies(task.data.nodes), dummies(task.data.days)])
    spell = _Spelling(task.law.relative_noise, unit)
    found = [_runs(solution.mean, left), _drift(basis, left, task.data.order, spell)]
    found.append(_differences(Check.BLOCKS, "block", basis, left, task.data.blocks, spell))
    if solution.method not in (Method.MIXED, Method.CLUSTERED):
        found.append(_differences(Check.NODES, "node", basis, left, task.data.nodes, spell))
    return tuple(one for one in found if one is not None)


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How an amount of noise is written: with the outcome's unit, or in percent of the mean."""

    relative: bool
    unit: str

    def __call__(self, amount: float) -> str:
        return percent(abs(amount)) if self.relative else format_quantity(abs(amount), self.unit)


def _runs(mean: Array, left: Array) -> Finding | None:
    """Whether residuals of one sign come together along the fitted values (Wald and Wolfowitz's runs test)."""
    signs = (left > 0)[np.argsort(mean, kind="stable")]
    above, below = int(signs.sum()), int((~signs).sum())
    if above < 2 or below < 2:
        return None
    runs = 1 + int((signs[1:] != signs[:-1]).sum())
    p_value = chance_of_so_few_runs(above, below, runs)
    if p_value < SIGNIFICANT:
        text = (
            f"along the fitted values the residuals keep their sign too long ({runs} runs in {above + below} "
            f"trials, {p_text(p_value)}): the law has the wrong shape"
        )
    else:
        text = f"along the fitted values the residuals change sign as often as noise does ({p_text(p_value)})"
    return Finding(Check.PATTERN, p_value < SIGNIFICANT, sentence(text), p_value)


def chance_of_so_few_runs(above: int, below: int, runs: int) -> float:
    """Chance of at most so many runs among signs in random order.

    Notes
    -----
    Exact up to 100 of them, by counting (A. Wald and J. Wolfowitz, *On a test whether two samples are from the
    same population*, 1940); beyond, by the normal approximation.
    """
    total = above + below
    if total > 100:
        mean = 1 + 2 * above * below / total
        variance = (mean - 1) * (mean - 2) / (total - 1)
        return 0.5 * math.erfc(-(runs + 0.5 - mean) / math.sqrt(2 * variance))
    orders = 0
    for count in range(2, runs + 1):
        more, fewer = (count + 1) // 2, count // 2
        ways = math.comb(above - 1, more - 1) * math.comb(below - 1, fewer - 1)
        ways += math.comb(above - 1, fewer - 1) * math.comb(below - 1, more - 1)
        orders += ways
    return orders / math.comb(total, above)


def _drift(basis: Array, left: Array, order: Labels, spell: _Spelling) -> Finding | None:
    """Whether residuals rise or fall in the order of execution."""
    place = (np.argsort(np.argsort(order)) / (len(order) - 1) - 0.5)[:, None]
    test = added_columns(basis, left, place)
    if test is None:
        return None
    change = test.coefficients[0]
    if test.p_value < SIGNIFICANT:
        way = "larger" if change > 0 else "smaller"
        text = (
            f"from the first trial to the last the outcome became {way} by {spell(change)} at equal levels "
            f"({p_text(test.p_value)}): the machine drifted, or something filled up or warmed up"
        )
    else:
        text = (
            f"in the order of execution the outcome changed by {spell(change)} at equal levels, no more than "
            f"noise ({p_text(test.p_value)})"
        )
    return Finding(Check.DRIFT, test.p_value < SIGNIFICANT, sentence(text), test.p_value)


def _differences(
    check: Check, one: str, basis: Array, left: Array, labels: Labels, spell: _Spelling
) -> Finding | None:
    """Whether groups of trials have offsets of their own."""
    groups = np.unique(labels)
    if len(groups) < 2:
        return None
    test = added_columns(basis, left, dummies(labels))
    if test is None:
        return None
    means = [float(left[labels == group].mean()) for group in groups]
    apart = spell(max(means) - min(means))
    if test.p_value < SIGNIFICANT:
        remedy = (
            "`fit: mixed` or `fit: clustered` in the model allows for it"
            if check is Check.NODES
            else "compare trials within a block"
        )
        text = (
            f"the {len(groups)} {one}s differ by up to {apart} at equal levels ({p_text(test.p_value)}), which "
            f"the intervals do not allow for: {remedy}"
        )
    else:
        text = f"the {len(groups)} {one}s differ by no more than noise, {apart} ({p_text(test.p_value)})"
    return Finding(check, test.p_value < SIGNIFICANT, sentence(text), test.p_value)


def dummies(labels: Labels) -> Array:
    """A column per label, one where a trial has it; shape (n, labels)."""
    columns: Array = (labels[:, None] == np.unique(labels)[None, :]).astype(np.float64)
    return columns


def added_columns(basis: Array, left: Array, columns: Array) -> AddedColumns | None:
    """F test of columns beside those of the law; ``None`` where they add none or leave no noise."""
    from scipy import stats

    small = orthonormal_basis(basis)
    both = orthonormal_basis(np.hstack([small, columns]))
    added, spare = both.shape[1] - small.shape[1], len(left) - both.shape[1]
    if added < 1 or spare < 1:
        return None
    rest_small, rest = left - small @ (small.T @ left), left - both @ (both.T @ left)
    explained, noise = float(rest_small @ rest_small) - float(rest @ rest), float(rest @ rest)
    if noise <= 0:
        return None
    fresh = columns - small @ (small.T @ columns)
    coefficients = np.linalg.lstsq(fresh, rest_small, rcond=1e-9)[0]
    p_value = float(stats.f.sf(max(explained, 0.0) / added / (noise / spare), added, spare))
    share = math.sqrt(max(0.0, explained) / (explained + noise))
    correlation = math.copysign(share, coefficients[0]) if len(coefficients) == 1 else share
    return AddedColumns(p_value, tuple(float(one) for one in coefficients), correlation)
