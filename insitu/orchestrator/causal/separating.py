"""Which variable would have to vary for the parameters of a law to be told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import mixed_columns

RowsAt = Callable[[Mapping[str, Array]], Array]
"""Levels of the law's parents, each of shape (n,), to the law's rows, shape (n, p)."""


@dataclass(frozen=True, slots=True)
class Separating:
    """What would tell some parameters apart.

    Attributes
    ----------
    constant
        Variables that stand at one level in every trial.
    each
        Variables, each of which separates the parameters if it varies by itself.
    together
        Variables that separate them only if all of these vary; empty with `each`, or if nothing does.
    """

    constant: tuple[str, ...]
    each: tuple[str, ...]
    together: tuple[str, ...]

    @property
    def advice(self) -> str:
        """What to do, in words; empty if nothing helps."""
        names, last = (self.each, "or") if self.each else (self.together, "and")
        if not names:
            return ""
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
        return f"vary {listed} by itself" if self.each else f"vary {listed}, each independently of the others"


def find_separating(
    rows_at: RowsAt, levels: Mapping[str, Array], columns: Sequence[int], fresh: Mapping[str, Array]
) -> Separating:
    """Try which variables separate some columns that are mixed at these levels.

    Parameters
    ----------
    columns
        Numbers of the parameters that cannot be told apart.
    fresh
        Variables that a plan can set, each with levels that differ from trial to trial.
    """

    def still_mixed(varied: Sequence[str]) -> bool:
        rows = rows_at({**levels, **{name: fresh[name] for name in varied}})
        finite = rows[np.isfinite(rows).all(axis=1)]
        return any(set(columns) & set(one) for one in mixed_columns(finite))

    each = tuple(name for name in fresh if not still_mixed([name]))
    all_at_once = not each and len(fresh) > 1 and not still_mixed(tuple(fresh))
    return Separating(
        constant=tuple(name for name in fresh if (levels[name] == levels[name][:1]).all()),
        each=each,
        together=tuple(fresh) if all_at_once else (),
    )


def separating_trial(
    rows_at: RowsAt, levels: Mapping[str, Array], columns: Sequence[int], name: str, fresh: Array
) -> int | None:
    """The first trial that separates some mixed columns if it is repeated with another level of one variable.

    Returns
    -------
    int or None
        ``None`` if one more trial is not enough.
    """
    rows, moved = rows_at(levels), rows_at({**levels, name: fresh})
    for index, row in enumerate(moved):
        if np.isfinite(row).all() and not any(
            set(columns) & set(one) for one in mixed_columns(np.vstack([rows, row]))
        ):
            return index
    return None


def stand_in(name: str, levels: Array, categories: int = 0, *, one_each: bool = True) -> Array:
    """Levels of the size of those given, by which no two terms agree by chance; the same at every call.

    Parameters
    ----------
    categories
        How many the variable has, in the place of numbers.
    one_each
        Whether each trial has a level of its own, or all have the same.
    """
    rng = np.random.default_rng(list(name.encode()))
    count = len(levels) if one_each else 1
    if categories:
        drawn = rng.integers(categories, size=count).astype(np.float64)
    else:
        known = np.abs(levels[np.isfinite(levels) & (levels != 0)])
        drawn = (float(np.median(known)) if len(known) else 1.0) * np.exp(rng.normal(0.0, 0.5, count))
    return drawn * np.ones(len(levels))
