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
    rows_at: RowsAt, levels: Mapping[str, Array], columns: Sequence[int], can_vary: Sequence[str]
) -> Separating:
    """Try which variables separate some columns that are mixed at these levels.

    Parameters
    ----------
    columns
        Numbers of the parameters that cannot be told apart.
    can_vary
        Variables that a plan can set.
    """

    def still_mixed(varied: Sequence[str]) -> bool:
        fresh = {name: stand_in(name, levels[name], one_each=True) for name in varied}
        rows = rows_at({**levels, **fresh})
        finite = rows[np.isfinite(rows).all(axis=1)]
        return any(set(columns) & set(one) for one in mixed_columns(finite))

    each = tuple(name for name in can_vary if not still_mixed([name]))
    all_at_once = not each and len(can_vary) > 1 and not still_mixed(can_vary)
    return Separating(
        constant=tuple(name for name in can_vary if (levels[name] == levels[name][:1]).all()),
        each=each,
        together=tuple(can_vary) if all_at_once else (),
    )


def stand_in(name: str, levels: Array, *, one_each: bool) -> Array:
    """Levels of the size of those given, by which no two terms agree by chance; the same at every call."""
    known = np.abs(levels[np.isfinite(levels) & (levels != 0)])
    size = float(np.median(known)) if len(known) else 1.0
    rng = np.random.default_rng(list(name.encode()))
    drawn = rng.normal(0.0, 0.5, len(levels) if one_each else 1)
    fresh: Array = size * np.exp(drawn) * np.ones(len(levels))
    return fresh
