"""Whether the law fits as well as the replicates allow, and if not, which term is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import RANK_TOLERANCE
from insitu.orchestrator.estimation.fit import LackOfFit, MissingTerm
from insitu.orchestrator.estimation.fitting.data import Labels


@dataclass(frozen=True, slots=True, eq=False)
class Leftover:
    """What a law leaves of the trials, in units of the noise.

    Attributes
    ----------
    rows
        What the law spans, and offsets of nodes and days where these are allowed for; shape (n, any).
    residuals
        Shape (n,).
    groups
        Numbers of the trials' assignments, shape (n,).
    size
        Of what the law explains, as a sum of squares: what is far below it is rounding.
    held
        What parameters that stand at a bound would be multiplied by, shape (n, any): the law cannot follow it.
    per_term
        What one unit more of the law's right side adds to a residual, shape (n,).
    """

    rows: Array
    residuals: Array
    groups: Labels
    size: float
    per_term: Array
    held: Array

    @property
    def without_bounds(self) -> Array:
        """What the law would span without its bounds, shape (n, any)."""
        return np.hstack([self.rows, self.held])


@dataclass(frozen=True, slots=True)
class LackOfFitAnswer:
    """The test, or why there is none; and the term that is missing, where the test asked for one."""

    test: LackOfFit | None
    reason: str = ""
    missing: MissingTerm | None = None


def orthonormal_basis(columns: Array) -> Array:
    """Orthonormal basis of the span of the columns, each scaled to length one; shape (n, rank)."""
    lengths = np.linalg.norm(columns, axis=0)
    scaled = columns[:, lengths > 0] / lengths[lengths > 0]
    left, strengths, _ = np.linalg.svd(scaled, full_matrices=False)
    basis: Array = left[:, strengths > RANK_TOLERANCE]
    return basis


def check_lack_of_fit(left: Leftover) -> LackOfFitAnswer:
    """Compare the law with the law plus one free mean per assignment.

    Notes
    -----
    With exact replicates this is the usual F test of lack of fit against pure error (Draper and Smith,
    *Applied Regression Analysis*, 3rd ed., section 2.1). Achieved levels differ a little between replicates;
    keeping the law's columns beside the group means makes the test exact for such near replicates too.
    """
    from scipy import stats

    groups = np.unique(left.groups)
    if len(groups) == len(left.groups):
        return LackOfFitAnswer(None, "no assignment was tried twice, so there is no pure error to compare with")
    means = (left.groups[:, None] == groups[None, :]).astype(float)
    small = orthonormal_basis(left.rows)
    large = orthonormal_basis(np.hstack([means, left.without_bounds]))
    df_lack, df_pure = large.shape[1] - small.shape[1], len(left.groups) - large.shape[1]
    if df_lack < 1:
        return LackOfFitAnswer(None, "the law has as many parameters as there are distinct assignments")
    if df_pure < 1:
        return LackOfFitAnswer(None, "there are too few replicates to estimate the pure error")
    rss_law, rss_pure = _rss(small, left.residuals), _rss(large, left.residuals)
    if rss_pure <= 1e-24 * left.size:
        return LackOfFitAnswer(None, "the replicates agree exactly, so there is no pure error to compare with")
    f = max(rss_law - rss_pure, 0.0) / df_lack / (rss_pure / df_pure)
    p_value = float(stats.f.sf(f, df_lack, df_pure))
    return LackOfFitAnswer(LackOfFit(float(f), df_lack, df_pure, p_value, float(np.sqrt(rss_pure / df_pure))))


def _rss(basis: Array, residuals: Array) -> float:
    rest = residuals - basis @ (basis.T @ residuals)
    return float(rest @ rest)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A term that might be missing; ``column`` is its value in each trial."""

    text: str
    column: Array


def candidates(levels: Mapping[str, Array], terms: Mapping[str, Array]) -> list[Candidate]:
    """Terms built from variables and from products of the law's own terms, where they are finite.

    Parameters
    ----------
    levels
        Variable to its levels, each of shape (n,).
    terms
        Text of each term of the law to its value in each trial.
    """
    found: list[Candidate] = []
    with np.errstate(all="ignore"):
        for name, column in levels.items():
            found += [
                Candidate(name, column),
                Candidate(f"1 / {name}", 1 / column),
                Candidate(f"log({name})", np.log(column)),
            ]
        for (first, x), (second, y) in combinations(levels.items(), 2):
            found += [
                Candidate(f"{first} * {second}", x * y),
                Candidate(f"{first} / {second}", x / y),
                Candidate(f"{second} / {first}", y / x),
            ]
        varying = [
            (text, column)
            for text, column in terms.items()
            if np.ptp(column) > RANK_TOLERANCE * np.abs(column).max()
        ]
        for (first, x), (second, y) in combinations_with_replacement(varying, 2):
            found.append(Candidate(f"({first}) * ({second})", x * y))
    return [candidate for candidate in found if np.isfinite(candidate.column).all()]


def find_missing_term(left: Leftover, tried_terms: Sequence[Candidate]) -> MissingTerm | None:
    """Find the one term whose addition reduces the residual sum of squares most; ``None`` without any."""
    from scipy import stats

    basis = orthonormal_basis(left.without_bounds)  # what a bound keeps from the law is no missing term
    residual = left.residuals - basis @ (basis.T @ left.residuals)
    rss, df = float(residual @ residual), len(residual) - basis.shape[1] - 1
    if df < 1 or rss == 0:
        return None
    best, best_reduction, tried = None, 0.0, 0
    for candidate in tried_terms:
        column = candidate.column * left.per_term
        length = np.linalg.norm(column)
        if length == 0:
            continue
        column = column / length
        fresh = column - basis @ (basis.T @ column)
        if fresh @ fresh < RANK_TOLERANCE**2:
            continue
        tried += 1
        reduction = float((fresh @ residual) ** 2 / (fresh @ fresh))
        if reduction > best_reduction:
            best, best_reduction = candidate.text, reduction
    if best is None:
        return None
    f = best_reduction / (max(rss - best_reduction, 1e-300) / df)
    p_value = min(1.0, tried * float(stats.f.sf(f, 1, df)))
    share = best_reduction / rss
    return MissingTerm(best, p_value, share, tried, _sentence(best, p_value, share, tried))


def _sentence(best: str, p_value: float, share: float, tried: int) -> str:
    explained = f"would explain {100 * share:.0f} % of what the law leaves"
    allowed = f"p = {p_value:.2g} after allowing for the {tried} terms tried"
    if p_value < 0.05:
        return f"A term in {best} is missing from the law: it {explained} ({allowed})."
    return (
        f"The law does not fit, and no single term from its variables says why; "
        f"the nearest is {best}, which {explained} ({allowed})."
    )
