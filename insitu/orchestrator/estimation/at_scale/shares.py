"""What the rows of a table add to the fit of a law; shares of batches are joined into shares of row groups and
tables.

Rows are forgotten when their batch has been folded into a share.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.at_scale.moments import Moments
from insitu.orchestrator.estimation.at_scale.triangle import Triangle
from insitu.orchestrator.store.tables import Table, TablePart

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law

SAMPLE_ROWS = 10_000
"""Rows that are kept, evenly spread over the table; the extremes of each design column come on top."""


@dataclass(frozen=True, slots=True)
class Span:
    """Range of a variable's finite levels, and whether it was ever unlimited."""

    low: float = math.inf
    high: float = -math.inf
    unlimited: bool = False

    def joined_with(self, other: Span) -> Span:
        return Span(min(self.low, other.low), max(self.high, other.high), self.unlimited or other.unlimited)


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What some rows add to the fit.

    Attributes
    ----------
    sample, extremes
        Some design rows, shape (k, p): evenly spread; and those with the extremes of each column.
    first_left_out
        Number of a row in the table; -1 if none was left out.
    """

    triangle: Triangle
    spans: dict[str, Span]
    sample: Array
    extremes: Array
    left_out: int = 0
    first_left_out: int = -1

    @classmethod
    def none(cls, law: Law) -> Share:
        rows = np.zeros((0, len(law.parameters)))
        return cls(Triangle.empty(len(law.parameters)), {name: Span() for name in law.parents}, rows, rows)

    def without_columns(self, silent: Collection[int]) -> Share:
        """The share in the fit of a law less the terms of some parameters."""
        kept = [column for column in range(self.triangle.parameters) if column not in silent]
        return replace(
            self,
            triangle=self.triangle.with_columns(kept),
            sample=self.sample[:, kept],
            extremes=self.extremes[:, kept],
        )

    def joined_with(self, other: Share) -> Share:
        return Share(
            triangle=self.triangle.joined_with(other.triangle),
            spans={name: span.joined_with(other.spans[name]) for name, span in self.spans.items()},
            sample=np.concatenate([self.sample, other.sample]),
            extremes=_extremes(np.concatenate([self.extremes, other.extremes])),
            left_out=self.left_out + other.left_out,
            first_left_out=self.first_left_out if self.first_left_out >= 0 else other.first_left_out,
        )


def read_all(law: Law, table: Table, names: Mapping[str, str], threads: int) -> Share:
    """Fold all parts of a table, some at a time, and join them in order.

    Parameters
    ----------
    names
        Variable to column, of the law's variable and all its parents.
    threads
        How many parts at a time.
    """
    few = len(table.parts) < threads
    every = max(1, -(-table.rows // SAMPLE_ROWS))
    total = Share.none(law)
    with ThreadPoolExecutor(threads) as pool:
        try:
            for share in pool.map(lambda part: _fold(law, table, part, names, every, few), table.parts):
                total = total.joined_with(share)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return total


def _fold(law: Law, table: Table, part: TablePart, names: Mapping[str, str], every: int, threads: bool) -> Share:
    """All rows of a part."""
    share = Share.none(law)
    first = part.first
    for batch in table.batches(part, threads=threads):
        levels = {name: batch[column] for name, column in names.items()}
        share = share.joined_with(_fold_batch(law, levels, first, every))
        first += len(levels[law.variable])
    return share


def _fold_batch(law: Law, levels: Mapping[str, Array], first: int, every: int) -> Share:
    """All rows of a batch, of which the first has the number `first` in the table."""
    observed = levels[law.variable]
    # columns are contiguous: all that follows takes half the time
    cells = np.empty((len(law.parameters) + 1, len(observed))).T
    cells[:, :-1] = law.design_matrix(levels)
    cells[:, -1] = observed - law.offsets(levels)
    sampled = np.arange(-first % every, len(observed), every)
    left_out, first_left_out = 0, -1
    if not np.isfinite(cells).all():
        good = np.asarray(np.isfinite(cells).all(axis=1))
        left_out, first_left_out = len(observed) - int(good.sum()), first + int(np.argmin(good))
        sampled = (np.cumsum(good) - 1)[sampled[good[sampled]]]
        levels = {name: levels[name][good] for name in law.parents}
        cells, observed = cells[good], observed[good]
    if not len(observed):
        return replace(Share.none(law), left_out=left_out, first_left_out=first_left_out)
    return Share(
        triangle=Triangle.empty(len(law.parameters)).with_table(cells, Moments.of(observed)),
        spans={name: _span_of(levels[name]) for name in law.parents},
        sample=cells[sampled, :-1],
        extremes=_extremes(cells[:, :-1]),
        left_out=left_out,
        first_left_out=first_left_out,
    )


def _span_of(levels: Array) -> Span:
    low, high = float(levels.min()), float(levels.max())
    if math.isfinite(low) and math.isfinite(high):
        return Span(low, high)
    known = levels[np.isfinite(levels)]
    if not len(known):
        return Span(unlimited=True)
    return Span(float(known.min()), float(known.max()), unlimited=True)


def _extremes(rows: Array) -> Array:
    """The rows with the least and the largest cell of each column, shape (2 p, p)."""
    return rows[np.concatenate([rows.argmin(axis=0), rows.argmax(axis=0)])] if len(rows) else rows
