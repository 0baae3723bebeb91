"""A law fitted to Parquet files of any size, in one pass and in bounded memory.

Rows are turned into a triangle (see `triangle`) batch by batch, one row group per processor at a time, and are
forgotten. The triangles of row groups are joined in the order of the table, so that the same files always give
the same digits. Sums of products (X'X) would take two thirds of a triangle's time, which is a fifth of the
whole, and lose twice its digits: at the condition number of 1e6 up to which a law is accepted, 12 of 16 against
6.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.fit import Diagnostics, Estimate, Fit, SupportRange
from insitu.orchestrator.estimation.shares import Share, Span, read_all
from insitu.orchestrator.estimation.triangle import LinearFit, Triangle
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.store.tables import Table

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Law


class NotFinite(Enum):
    """What to do about rows at which the outcome or the law is not a finite number."""

    REFUSE = "refuse"
    """Fit nothing, and say how many there are."""
    LEAVE_OUT = "leave out"
    """Fit the others; `ParquetFit.left_out` counts them."""


@dataclass(frozen=True, slots=True)
class ParquetFit:
    """A law fitted to a table.

    Attributes
    ----------
    fit
        As from trials, and questions are put to it as there (`queries.whatif`). It has no points, no tests of
        its residuals and no test of lack of fit, which need the rows a second time. ``max_leverage`` is the
        largest among 10,000 rows spread over the table and the extremes of each term: a question a little
        outside of these, yet inside the data, is taken for an extrapolation. ``support`` says the range of each
        variable in the table.
    triangle
        All that least squares needs of the rows: for `bounded.fit_bounded`, or to join with other tables'.
    rows
        Of the table.
    left_out
        Rows that were not fitted, since the outcome or the law is not finite there.
    """

    fit: Fit
    triangle: Triangle
    rows: int
    left_out: int


def fit_parquet(
    law: Law,
    path: Path | str,
    columns: Mapping[str, str] | None = None,
    *,
    variables: Mapping[str, Variable],
    confidence: float = 0.95,
    not_finite: NotFinite = NotFinite.REFUSE,
    threads: int | None = None,
) -> ParquetFit:
    """Fit a law that is linear in its parameters to all rows of a Parquet file, or of those in a folder.

    Parameters
    ----------
    path
        A file, or a folder whose files are taken together; folders named ``column=value`` give a column.
    columns
        Variable of the law to column of the table; a variable left out stands in the column of its own name.
        Numbers are in base units; an infinite level is unlimited, as in trials.
    variables
        The model's variables; they say in which unit the outcome is.
    confidence
        Level of all intervals, between 0 and 1.
    not_finite
        What to do about rows at which the outcome or the law is not finite: missing, NaN, infinite, divided by
        zero.
    threads
        Row groups that are read at the same time; left out, one for each processor that this process may use.

    Returns
    -------
    ParquetFit
        See there for what such a fit does not have.

    Raises
    ------
    InputError
        If the table cannot be read, lacks a column, or has rows that are not finite and are not to be left out.
    NotIdentified
        If there are too few rows, or they cannot tell some parameters apart.

    Notes
    -----
    Memory grows with ``threads`` times 16,384 rows of the columns that the law needs, and with the file's pages
    and dictionaries, not with the number of rows. Accuracy is that of a QR factorisation of all rows at once.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    names = _columns_of(law, columns or {})
    table = Table.open(Path(path), names.values())
    share = read_all(law, table, names, threads or len(os.sched_getaffinity(0)))
    if share.left_out and not_finite is NotFinite.REFUSE:
        raise InputError(
            f"{share.left_out} of {table.rows} rows of {path} are not finite: the outcome or the law of "
            f"{law.variable} has no value there; the first is row {share.first_left_out}, counted from 0",
            hint="correct them, or leave such rows out",
        )
    estimated = law
    if share.triangle.n:
        zero = [column for column in range(len(law.parameters)) if not share.triangle.factor[:, column].any()]
        estimated, share = law.without([law.parameters[column] for column in zero]), share.without_columns(zero)
    solved = share.triangle.fitted(estimated.parameters, law.variable)
    return ParquetFit(
        fit=_as_fit(law, estimated, solved, share, variables, confidence),
        triangle=share.triangle,
        rows=table.rows,
        left_out=share.left_out,
    )


def _columns_of(law: Law, columns: Mapping[str, str]) -> dict[str, str]:
    """Variable to column, of every variable that the law needs."""
    if not law.terms:
        raise InputError(
            f"the law of {law.variable} is not linear in its parameters, and files are fitted in one pass",
            hint="fit it to a sample of the rows, as trials",
        )
    needed = tuple(dict.fromkeys((law.variable, *law.parents)))
    for name in columns:
        if name not in needed:
            raise InputError(f"the law of {law.variable} does not mention {name}", hint=suggest(name, needed))
    return {name: columns.get(name, name) for name in needed}


def _as_fit(
    whole: Law,
    law: Law,
    solved: LinearFit,
    share: Share,
    variables: Mapping[str, Variable],
    confidence: float,
) -> Fit:
    """The fit as everyone else has it; `law` is `whole` less what was not estimated."""
    inverse_gram = solved.inverse_gram
    rows = np.concatenate([share.sample, share.extremes])
    max_leverage = float(((rows @ solved.root) ** 2).sum(axis=1).max())
    lengths = np.linalg.norm(share.triangle.factor[:-1, :-1], axis=0)
    return Fit(
        outcome=law.variable,
        unit=variables[law.variable].unit,
        law=whole.text,
        confidence=confidence,
        estimates=_estimates(law, solved, confidence),
        covariance=_rows(solved.sigma**2 * inverse_gram),
        inverse_gram=_rows(inverse_gram),
        sigma=solved.sigma,
        n=solved.n,
        df=solved.df,
        r_squared=solved.r_squared,
        lack_of_fit=None,
        lack_of_fit_reason="the rows of a table are read once, and are not sorted into replicates",
        missing_term=None,
        support=tuple(_support(name, share.spans[name], variables[name]) for name in law.parents),
        max_leverage=max_leverage,
        baseline={},
        points=(),
        skipped=(),
        diagnostics=Diagnostics(
            heteroscedasticity_p=None,
            normality_p=None,
            max_leverage=max_leverage,
            max_leverage_trial=0,
            condition_number=float(np.linalg.cond(share.triangle.factor[:-1, :-1] / lengths)),
        ),
        not_estimated=tuple(name for name in whole.parameters if name not in law.parameters),
    )


def _estimates(law: Law, solved: LinearFit, confidence: float) -> tuple[Estimate, ...]:
    from scipy import stats

    errors = solved.sigma * np.sqrt((solved.root**2).sum(axis=1))
    quantile = float(stats.t.ppf((1 + confidence) / 2, solved.df))
    estimates = []
    for name, value, error in zip(law.parameters, solved.values.tolist(), errors.tolist(), strict=True):
        scale = law.parameter_scales[name]
        low, high = sorted(((value - quantile * error) * scale, (value + quantile * error) * scale))
        estimates.append(
            Estimate(
                name=name,
                unit=law.parameter_units[name],
                reported=value * scale,
                reported_low=low,
                reported_high=high,
                reported_std_error=error * abs(scale),
                base=value,
                p_value=float(2 * stats.t.sf(abs(value) / error, solved.df)) if error else float(value == 0),
            )
        )
    return tuple(estimates)


def _support(name: str, span: Span, variable: Variable) -> SupportRange:
    known = span.low <= span.high
    return SupportRange(
        variable=name,
        unit=variable.unit,
        low=span.low if known else math.nan,
        high=span.high if known else math.nan,
        requested=(),
        natural=math.inf if span.unlimited else None,
    )


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
