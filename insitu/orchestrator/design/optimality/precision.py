"""What a chosen design will leave uncertain: computed from its rows, without what a search adds to help itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE, mixed_columns
from insitu.orchestrator.design.optimality.criteria import Criterion
from insitu.orchestrator.design.optimality.information import square_root


@dataclass(frozen=True, slots=True)
class Precision:
    """How precisely a design answers.

    Attributes
    ----------
    value
        The criterion as the field states it: the log-determinant of the information, or a variance. Minus
        infinity, or infinity, if the design leaves open what the criterion asks for.
    standard_errors
        Of the parameters, in their units; infinite for those that are confounded.
    confounded
        Sets of parameters, by their numbers, that no fit to the design can tell apart.
    """

    value: float
    standard_errors: tuple[float, ...]
    confounded: tuple[tuple[int, ...], ...]

    @property
    def is_whole(self) -> bool:
        """Whether every parameter can be estimated."""
        return not self.confounded


def precision_of(rows: Array, information: Array | None, criterion: Criterion) -> Precision:
    """Precision of trials with these rows, beside what is known.

    Parameters
    ----------
    rows
        Of all trials, shape (n, p): derivatives divided by the noise's standard deviation.
    information
        What is known without them, shape (p, p).
    """
    size = rows.shape[1]
    root = np.zeros((0, size)) if information is None else square_root(information)
    whole = np.vstack([root, rows])
    confounded = mixed_columns(whole)
    lengths = np.linalg.norm(whole, axis=0)
    scale = np.where(lengths == 0, 1.0, lengths)
    scaled = np.zeros((max(len(whole), size), size))
    scaled[: len(whole)] = whole / scale
    _, strengths, directions = np.linalg.svd(scaled, full_matrices=False)
    told = strengths >= RANK_TOLERANCE * max(1.0, float(strengths[0]))
    half = directions[told].T / strengths[told] / scale[:, None]
    covariance = half @ half.T
    errors = np.sqrt(np.diag(covariance))
    errors[[index for one in confounded for index in one]] = math.inf
    return Precision(
        value=_value(criterion, covariance, directions[~told], scale),
        standard_errors=tuple(errors.tolist()),
        confounded=confounded,
    )


def _value(criterion: Criterion, covariance: Array, unknown: Array, scale: Array) -> float:
    """The criterion's value; the covariance says nothing of the `unknown` directions, shape (d, p)."""
    asked = criterion.asked(len(covariance)) / scale[:, None]
    open_parts = np.linalg.norm(unknown @ asked, axis=0)
    answered = asked.shape[1] > 0 and (open_parts <= RANK_TOLERANCE * np.linalg.norm(asked, axis=0)).all()
    if len(unknown) and not answered:
        return criterion.value(math.inf)
    return criterion.value(criterion.loss(covariance))
