"""The numbers behind the page's plots, scaled to readable units; the drawing is ``assets/report.js``'s."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.questions.curves import Curve
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.report.goal_plots import goal_plot_data
from insitu.orchestrator.report.summary import Summary, deviation
from insitu.orchestrator.report.wording import Scale, axis_scale, level_list, spell_levels
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import LevelVerdict
from insitu.orchestrator.units import format_quantity, percent


def plot_data(summary: Summary) -> dict[str, Json]:
    """Return everything that the page draws, as plain data."""
    fit = summary.analysis.fit
    variables = {variable.name: variable for variable in summary.variables}
    return {
        "outcome": summary.outcome,
        "confidence": percent(fit.confidence, 4) if fit is not None else "",
        "curves": [_curve(curve) for curve in summary.analysis.curves],
        "check": _check(summary, variables),
        "fits": [_fit(one, variables) for one in summary.fits] if fit is not None else [],
        **goal_plot_data(summary),
    }


def _largest(values: Iterable[float]) -> float:
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0)


def _axis(name: str, scale: Scale) -> str:
    return f"{name} ({scale.unit})" if scale.unit else name


def _times(scale: Scale, values: Iterable[float]) -> list[Json]:
    return [value * scale.factor if math.isfinite(value) else None for value in values]


def _curve(curve: Curve) -> dict[str, Json]:
    across = axis_scale(_largest(point.level for point in curve.points), curve.unit)
    up = axis_scale(_largest(point.mean for point in curve.points), curve.outcome_unit)
    return {
        "variable": curve.variable,
        "x_title": _axis(curve.variable, across),
        "y_title": _axis(curve.outcome, up),
        "logarithmic": curve.logarithmic,
        "words": list(curve.words.get(curve.variable, ())),
        "at": level_list(curve.at, curve.units, curve.words),
        "x": _times(across, (point.level for point in curve.points)),
        "mean": _times(up, (point.mean for point in curve.points)),
        "mean_low": _times(up, (point.mean_low for point in curve.points)),
        "mean_high": _times(up, (point.mean_high for point in curve.points)),
        "low": _times(up, (point.low for point in curve.points)),
        "high": _times(up, (point.high for point in curve.points)),
        "trial": [trial.trial for trial in curve.trials],
        "trial_x": _times(across, (trial.level for trial in curve.trials)),
        "trial_y": _times(up, (trial.adjusted for trial in curve.trials)),
        "observed": [format_quantity(trial.observed, curve.outcome_unit) for trial in curve.trials],
    }


def _check(summary: Summary, variables: Mapping[str, Variable]) -> dict[str, Json]:
    """Deviation of every level that was asked for, by variable and level, grouped by verdict."""
    cells: dict[tuple[str, float], str] = {}
    marks: list[Json] = []
    for trial in summary.trials:
        for level in trial.record.levels if trial.record is not None else ():
            off = deviation(level)
            if off is None or level.verdict in (LevelVerdict.EXACT, LevelVerdict.UNSET):
                continue
            label = f"{level.variable} {variables[level.variable].spell(level.requested)}"
            cells[level.variable, level.requested] = label
            achieved = variables[level.variable].spell(level.achieved or 0.0)
            marks.append(
                {
                    "trial": trial.planned.trial,
                    "cell": label,
                    "off": 100 * off,
                    "achieved": achieved,
                    "verdict": level.verdict.value,
                    "bound": percent(level.bound_share),
                    "known": percent(level.uncertainty / abs(level.requested)),
                }
            )
    return {
        "cells": [cells[key] for key in sorted(cells)],
        "marks": marks,
        "tolerance": 100 * summary.tolerance if summary.tolerance is not None else None,
    }


def _fit(fit: Fit, variables: Mapping[str, Variable]) -> dict[str, Json]:
    scale = axis_scale(_largest(point.observed for point in fit.points), fit.unit)
    relative = fit.noise.relative
    left = [point.residual / point.predicted if relative else point.residual for point in fit.points]
    small = Scale(100.0, "%") if relative else axis_scale(_largest(left), fit.unit)
    parents = [support.variable for support in fit.support]
    return {
        "x_title": _axis(f"fitted {fit.outcome}", scale),
        "y_title": _axis(f"measured {fit.outcome}", scale),
        "residual_title": _axis("residual", small),
        "trial": [point.trial for point in fit.points],
        "levels": [
            spell_levels({name: point.levels[name] for name in parents}, variables) for point in fit.points
        ],
        "observed": _times(scale, (point.observed for point in fit.points)),
        "predicted": _times(scale, (point.predicted for point in fit.points)),
        "above": _times(scale, (point.high - point.predicted for point in fit.points)),
        "below": _times(scale, (point.predicted - point.low for point in fit.points)),
        "residual": _times(small, left),
        "sigma": fit.sigma * small.factor,
    }
