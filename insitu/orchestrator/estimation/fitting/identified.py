"""Whether the trials can tell the parameters of a law at all, and if not, what would."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.rank import mixed_columns
from insitu.orchestrator.causal.separating import RowsAt, find_separating, separating_trial, stand_in
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.checks.words import joined
from insitu.orchestrator.estimation.fitting.data import information_rows
from insitu.orchestrator.estimation.fitting.solution import Task
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.units import format_quantity


def refuse_too_few(task: Task) -> None:
    """Refuse fewer trials than it takes for the parameters and the intervals.

    Raises
    ------
    NotIdentified
        If there are too few.
    """
    n, size = len(task.data.observed), len(task.law.parameters)
    known = len(task.prior.names) if task.prior is not None else 0
    if n > size - known:
        return
    skipped = len(task.data.skipped)
    hint = f"at least {size - known + 1} are needed; see `insitu show` for trials that are not valid"
    found = f"{n} valid {'trial is' if n == 1 else 'trials are'}"
    if skipped:
        first = task.data.skipped[0]
        hint += f"; {skipped} valid ones could not be fitted, such as trial {first.trial}: {first.reason}"
        found = f"{n} of {n + skipped} valid trials can be fitted, which is"
    raise NotIdentified(
        f"{found} too few for the {size} parameters of {task.law.variable} and their intervals",
        hint=hint,
        parameters=task.law.parameters,
    )


def refuse_mixed(task: Task, rows: Array, values: Array) -> None:
    """Refuse parameters that the trials cannot tell apart.

    Parameters
    ----------
    rows
        In units of the noise, and of what a prior adds, shape (n or more, p).
    values
        Parameters at which these rows are, shape (p,).

    Raises
    ------
    NotIdentified
        With the parameters, and the variables that would separate them.
    """
    sets = mixed_columns(rows)
    if not sets:
        return
    mixed = [tuple(task.law.parameters[index] for index in one) for one in sets]
    told = [f"tell {joined(one)} apart" if len(one) > 1 else f"say anything about {one[0]}" for one in mixed]
    advice = "; ".join(dict.fromkeys(_advice(task, one, values) for one in sets))
    raise NotIdentified(
        f"the trials cannot {', nor '.join(told)} in the law of {task.law.variable}",
        hint=advice,
        parameters=tuple(name for one in mixed for name in one),
    )


def _advice(task: Task, columns: tuple[int, ...], values: Array) -> str:
    """What would separate these parameters, in words."""
    law, levels = task.law, task.data.columns
    mixed = [law.parameters[index] for index in columns]

    def rows_at(at: Mapping[str, Array]) -> Array:
        return information_rows(law, values, at)

    def matters(name: str) -> bool:
        """Whether a variable is in the terms of these parameters."""
        moved = rows_at({**levels, name: fresh[name]})
        return not np.array_equal(moved[:, columns], rows_at(levels)[:, columns], equal_nan=True)

    settable = [task.variables[name] for name in law.parents]
    settable = [one for one in settable if one.role in (Role.SET, Role.PARAMETER)]
    fresh = {one.name: stand_in(one.name, levels[one.name], len(one.categories)) for one in settable}
    found = find_separating(rows_at, levels, columns, {name: fresh[name] for name in fresh if matters(name)})
    if not found.advice:
        return f"no level of any variable tells {joined(mixed)} apart: keep one of them in the law"
    held = [name for name in found.constant if name in (found.each or found.together)]
    because = f", which stood at one level in all {len(task.data.observed)} trials" if len(held) == 1 else ""
    return f"{found.advice}{because}{_for_example(task, rows_at, columns, found.each, fresh)}"


def _for_example(
    task: Task, rows_at: RowsAt, columns: tuple[int, ...], each: tuple[str, ...], fresh: Mapping[str, Array]
) -> str:
    """A trial that would separate these parameters, in words; empty if one is not enough."""
    for name in each:
        variable = task.variables[name]
        at = separating_trial(rows_at, task.data.columns, columns, name, fresh[name])
        if at is not None:
            level = task.data.columns[name][at]
            shown = variable.spell(level) if variable.categories else format_quantity(level, variable.unit)
            number = task.data.numbers[at]
            return f": one more trial like trial {number}, but with another {name} than {shown}, would do"
    return ""


def is_constant(observed: Array) -> bool:
    """Whether every trial had the same outcome."""
    return len(observed) > 0 and bool(np.ptp(observed) == 0)
