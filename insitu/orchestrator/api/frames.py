"""Trials, estimates and answers as tables of pandas; the one place that makes them. Base units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from insitu.orchestrator.api.levels import Level
from insitu.orchestrator.errors import GoalNotReached, InputError
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.data import achieved_levels
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.store.records import StoredTrial

if TYPE_CHECKING:
    from insitu.orchestrator.api.shown import WhatIf


def trials_frame(trials: Sequence[StoredTrial], variables: Mapping[str, Variable]) -> pd.DataFrame:
    """One row per trial, by its number.

    Returns
    -------
    pandas.DataFrame
        ``state``, ``block``, ``baseline``, ``replaces``, ``purpose``, ``node``, ``started_at``, ``reasons``; each
        variable by its name, as achieved or measured; ``requested.<variable>``; ``measured.<measurement>``;
        ``host.<quantity>``. A variable with categories has their words.
    """
    rows = []
    for trial in trials:
        record = trial.record
        row: dict[str, object] = {
            "trial": trial.planned.trial,
            "state": trial.state.value,
            "block": trial.planned.block,
            "baseline": trial.planned.baseline,
            "replaces": trial.planned.replaces,
            "purpose": "" if trial.planned.purpose is None else trial.planned.purpose.value,
            "node": record.node if record is not None else None,
            "started_at": pd.Timestamp(record.started_at, unit="s", tz="UTC") if record is not None else pd.NaT,
            "reasons": "; ".join(record.reasons) if record is not None else "",
        }
        achieved = achieved_levels(trial, variables) if record is not None else {}
        row |= {name: _spelt(variables[name], achieved[name]) for name in variables if name in achieved}
        row |= {
            f"requested.{name}": _spelt(variables[name], level) if name in variables else level
            for name, level in trial.planned.assignment.levels
        }
        if record is not None:
            row |= {f"measured.{name}": value for name, value in record.measurements.items()}
            row |= {f"host.{name}": value for name, value in record.host.items()}
        rows.append(row)
    return pd.DataFrame(rows).set_index("trial") if rows else pd.DataFrame(index=pd.Index([], name="trial"))


def _spelt(variable: Variable, level: float) -> object:
    return variable.spell(level) if variable.categories else level


def estimates_frame(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """One row per parameter of each law, by both.

    Returns
    -------
    pandas.DataFrame
        ``unit``, ``estimate``, ``low``, ``high``, ``std_error`` and ``p_value``, in the unit of the row.
    """
    rows = [
        {
            "law": name,
            "parameter": one.name,
            "unit": one.unit,
            "estimate": one.reported,
            "low": one.reported_low,
            "high": one.reported_high,
            "std_error": one.reported_std_error,
            "p_value": one.p_value,
        }
        for name, fit in fits.items()
        for one in fit.estimates
    ]
    columns = ["law", "parameter", "unit", "estimate", "low", "high", "std_error", "p_value"]
    return pd.DataFrame(rows, columns=columns).set_index(["law", "parameter"])


def answers_frame(questions: pd.DataFrame, ask: Callable[[Mapping[str, Level]], WhatIf]) -> pd.DataFrame:
    """Answer a table of questions, a row each.

    Returns
    -------
    pandas.DataFrame
        The questions, and ``mean``, ``mean_low``, ``mean_high``, ``low``, ``high``, ``q<percent>`` with its
        ``_low`` and ``_high`` for each quantile, ``fidelity``, ``extrapolated`` and ``problem``, which says why a
        question has no answer.

    Raises
    ------
    InputError
        If it is no table.
    """
    if not isinstance(questions, pd.DataFrame):
        raise InputError(
            f"a question gives levels by variable, or is a table of them, and not {questions!r}",
            hint='as in {"cpu_cores": 0.5}',
        )
    answers = [
        _answer({str(name): cell for name, cell in row.items()}, ask) for row in questions.to_dict("records")
    ]
    return pd.concat([questions, pd.DataFrame(answers, index=questions.index)], axis=1)


def _answer(row: Mapping[str, object], ask: Callable[[Mapping[str, Level]], WhatIf]) -> dict[str, object]:
    asked: dict[str, Level] = {
        name: level  # type: ignore[misc]  # what is no level, `ask` refuses
        for name, level in row.items()
        if not _empty(level)
    }
    try:
        answer = ask(asked)
    except (InputError, GoalNotReached) as error:
        none = dict.fromkeys(("mean", "mean_low", "mean_high", "low", "high"), math.nan)
        return {**none, "fidelity": None, "extrapolated": "", "problem": error.message}
    found: dict[str, object] = {
        name: getattr(answer, name) for name in ("mean", "mean_low", "mean_high", "low", "high")
    }
    for one in answer.quantiles:
        name = f"q{100 * one.share:g}"
        found |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
    grade = answer.fidelity.grade.value if answer.fidelity is not None else None
    return {**found, "fidelity": grade, "extrapolated": "; ".join(answer.extrapolated), "problem": ""}


def _empty(level: object) -> bool:
    return level is None or level is pd.NA or (isinstance(level, float) and math.isnan(level))
