"""A law fitted to Parquet files of any size, in one pass and in bounded memory.

Rows are turned into a triangle (see `triangle`) batch by batch, one row group per processor at a time, and are
forgotten. The triangles of row groups are joined in the order of the table, so that the same files always give
the same digits. Sums of products (X'X) would take two thirds of a triangle's time, which is a fifth of the
whole, and lose twice its digits: at the condition number of 1e6 up to which a law is accepted, 12 of 16 against
6.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.at_scale.shares import read_all
from insitu.orchestrator.estimation.at_scale.table_fit import fit_share
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.store.tables import Table

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law


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
        All that least squares needs of the rows, with a column for each parameter: for `bounded.fit_bounded`, or
        to join with other tables'.
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
        Numbers are in base units; an infinite level is unlimited, as in trials. A variable with categories has
        their words, or their numbers.
    variables
        The model's variables, with their units and categories.
    confidence
        Level of all intervals, between 0 and 1.
    not_finite
        What to do about rows at which the outcome or the law is not finite: missing, NaN, infinite, divided by
        zero, of no known category.
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
    _refuse_other_laws(law)
    names = _columns_of(law, columns or {})
    codings = {names[name]: variables[name].code for name in names if variables[name].categories}
    table = Table.open(Path(path), names.values(), codings)
    share = read_all(law, table, names, threads or len(os.sched_getaffinity(0)))
    if share.left_out and not_finite is NotFinite.REFUSE:
        raise InputError(
            f"{share.left_out} of {table.rows} rows of {path} are not finite: the outcome or the law of "
            f"{law.variable} has no value there; the first is row {share.first_left_out}, counted from 0",
            hint="correct them, or leave such rows out",
        )
    fit = fit_share(law, share, variables, confidence)
    return ParquetFit(fit, share.triangle, table.rows, share.left_out)


def _columns_of(law: Law, columns: Mapping[str, str]) -> dict[str, str]:
    """Variable to column, of every variable that the law needs."""
    needed = tuple(dict.fromkeys((law.variable, *law.parents)))
    for name in columns:
        if name not in needed:
            raise InputError(f"the law of {law.variable} does not mention {name}", hint=suggest(name, needed))
    return {name: columns.get(name, name) for name in needed}


def _refuse_other_laws(law: Law) -> None:
    """One pass is enough for least squares alone."""
    others = {
        "has no parameters": not law.parameters,
        "is not linear in its parameters": not law.linear,
        f"has a {law.link} link": law.link is not Link.IDENTITY,
        f"has {law.noise} noise": law.noise is not Noise.NORMAL,
        f"asks for the method {law.method}": law.method is not Method.LEAST_SQUARES,
    }
    for why, is_so in others.items():
        if is_so:
            raise InputError(
                f"the law of {law.variable} {why}; a table is read once, which is enough for least squares alone",
                hint="fit the law to a sample of the rows, as trials",
            )
