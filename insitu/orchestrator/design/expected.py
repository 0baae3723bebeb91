"""How precisely planned trials will tell the laws and what is asked, if all of them come out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.belief import stacked_rows
from insitu.orchestrator.design.foresight import after_trials, standard_errors
from insitu.orchestrator.design.optimality.continuous import best_possible
from insitu.orchestrator.design.optimality.criteria import d_optimal
from insitu.orchestrator.design.optimality.precision import precision_of
from insitu.orchestrator.design.situation import Situation
from insitu.orchestrator.store.records import Assignment

_MOST_CANDIDATES = 2_000
"""Beyond it, the best possible design is sought among so many of the candidates, evenly spread."""


@dataclass(frozen=True, slots=True)
class ExpectedLaw:
    """What trials will tell of one law.

    Attributes
    ----------
    noise
        Standard deviation of a trial that is reckoned with, as of a `Belief`.
    standard_errors
        Of the parameters, in the law's order and in base units; infinite where trials mix them up.
    """

    variable: str
    noise: float
    standard_errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What trials will tell.

    Attributes
    ----------
    laws
        Causes first.
    log_determinant
        Of the information about all parameters in base units; minus infinity if some are mixed up.
    efficiency
        For all parameters together: share of the trials that would do, could they be divided among the candidates
        in the best way. A lower bound.
    half_widths
        Of the intervals of what is asked for, base units, shape (k,).
    """

    laws: tuple[ExpectedLaw, ...]
    log_determinant: float
    efficiency: float
    half_widths: tuple[float, ...]


def expected_from(situation: Situation, assignments: Sequence[Assignment], confidence: float) -> Expected:
    """What trials will tell.

    Parameters
    ----------
    situation
        Before the trials.
    confidence
        Of the half widths.
    """
    from scipy import stats

    composite, known = situation.composite, situation.information()
    names = situation.space.columns()
    columns = {name: np.array([one.as_dict()[name] for one in assignments]) for name in names}
    rows = stacked_rows(composite, situation.beliefs, columns)
    rows = rows[np.isfinite(rows).all(axis=(1, 2))]
    precision = precision_of(rows.reshape(-1, rows.shape[2]), known, d_optimal())
    errors = iter(precision.standard_errors)
    laws = tuple(
        ExpectedLaw(
            law.variable, situation.beliefs[law.variable].noise, tuple(next(errors) for _ in law.parameters)
        )
        for law in composite.laws
    )
    parameters = max(len(law.parameters) for law in composite.laws)
    quantile = float(stats.t.ppf((1 + confidence) / 2, max(1, len(rows) - parameters)))
    halves = quantile * standard_errors(situation, after_trials(situation, assignments))
    return Expected(
        laws=laws,
        log_determinant=precision.value,
        efficiency=_efficiency(situation, rows, known, precision.value),
        half_widths=tuple(halves.tolist()),
    )


def _efficiency(situation: Situation, rows: Array, known: Array, value: float) -> float:
    if not math.isfinite(value):
        return 0.0
    candidates = situation.candidates().rows
    few = np.unique(np.linspace(0, len(candidates) - 1, _MOST_CANDIDATES).astype(np.int64))
    stack = np.concatenate([candidates[few], np.unique(rows, axis=0)])
    best = best_possible(stack, len(rows), d_optimal(), information=known)
    return d_optimal().efficiency(value, best.bound, rows.shape[2])
