"""Which trials the fit hangs on, and how far it would move without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import listed_trials, p_text, sentence
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.plan.law_kinds import Method, Noise
from insitu.orchestrator.units import percent

_HEAVY = 0.5
"""Leverage to be avoided: a trial with it decides its own prediction as much as all the others do."""
_OUTLIER = 0.05
"""Chance of the largest studentised residual of all trials, below which it is named an outlier."""
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """Each of shape (n,).

    Attributes
    ----------
    studentised
        Residual over its standard error, from a fit without the trial; 0 where there is no noise.
    cooks_distance
        How far all predictions would move without the trial.
    outlier_p
        Chance that the largest of so many studentised residuals is as large (Bonferroni).
    moves
        What each parameter would change by without the trial, shape (n, p).
    """

    leverage: Array
    studentised: Array
    cooks_distance: Array
    outlier_p: Array
    moves: Array


def of_normal_shape(residuals: Array, sigma: float) -> Array:
    """Residuals of gamma noise, which is skewed, as they would be if it were normal; shape (n,).

    Notes
    -----
    Normal quantiles of the outcome's distribution function: P. K. Dunn and G. K. Smyth, *Randomized quantile
    residuals*, 1996.
    """
    from scipy import stats

    if sigma == 0:
        return residuals
    chance = stats.gamma.cdf(1 + residuals, 1 / sigma**2, scale=sigma**2)
    return np.asarray(sigma * stats.norm.ppf(np.clip(chance, 1e-12, 1 - 1e-12)))


def influence_of(solution: Solution, noise: Noise = Noise.NORMAL) -> Influence:
    """Measure what leaving out each trial would do (in the linear approximation).

    Notes
    -----
    R. D. Cook and S. Weisberg, *Residuals and Influence in Regression*, sections 2.2 and 3.1; for trials whose
    errors go together R. Christensen, L. M. Pearson and W. Johnson, *Case-deletion diagnostics for mixed models*,
    Technometrics 34, 1992.
    """
    from scipy import stats

    n, size = solution.rows.shape
    leverage, own = solution.leverage, solution.alone
    pull = np.clip(np.einsum("ij,jk,ik->i", own.rows, own.inverse_gram, own.rows), 0.0, own.room)
    left, room = own.residuals, own.room - pull
    alone = room < _ROUNDING  # its residual is zero whatever it was, and without it a parameter is lost
    room = np.where(alone, 1.0, room)
    df, sigma = own.df, own.sigma
    if sigma == 0:
        nothing = np.zeros(n)
        return Influence(leverage, nothing, nothing, np.ones(n), np.zeros((n, size)))
    within = np.where(alone, 0.0, left / (sigma * np.sqrt(room)))
    cooks = within**2 / max(size, 1) * pull / room
    if noise is Noise.GAMMA:
        within = np.where(alone, 0.0, of_normal_shape(left, sigma) / (sigma * np.sqrt(room)))
    with np.errstate(all="ignore"):
        others = (df - within**2) / (df - 1) if df > 1 else np.ones(n)
        studentised = np.where(others > 0, within / np.sqrt(others), np.sign(within) * np.inf)
    chance = 2 * stats.t.sf(np.abs(studentised), max(df - 1, 1))
    moves = -(own.rows @ own.inverse_gram) * np.where(alone, 0.0, left / room)[:, None]
    return Influence(leverage, studentised, cooks, np.minimum(1.0, n * chance), moves)


def leverage_finding(task: Task, influence: Influence) -> Finding:
    """Trials that alone decide a part of the law."""
    n, size = len(influence.leverage), len(task.law.parameters)
    heavy = np.flatnonzero(influence.leverage > max(_HEAVY, 3 * size / n))
    most = float(influence.leverage.max())
    if len(heavy) == 0:
        text = (
            f"no trial decides a part of the law by itself: the largest leverage is {most:.2f}, "
            f"where {size / n:.2f} is the mean"
        )
        return Finding(Check.LEVERAGE, False, sentence(text))
    trials = tuple(task.data.numbers[index] for index in heavy)
    verb = "decides a part of the law almost alone" if len(trials) == 1 else "decide parts of the law almost alone"
    text = (
        f"{listed_trials(trials)} {verb} (leverage {most:.2f}): an error there would not show; "
        "repeat the levels, or add some near them"
    )
    return Finding(Check.LEVERAGE, True, sentence(text), trials=trials)


def influence_finding(task: Task, solution: Solution, influence: Influence) -> Finding:
    """Trials without which the answer would be another."""
    n = len(influence.leverage)
    outliers = influence.outlier_p < _OUTLIER
    if solution.method is Method.ROBUST:  # their part is cut, and another check names them
        outliers = np.zeros(n, dtype=np.bool_)
    named = np.flatnonzero(outliers | (influence.cooks_distance > 4 / n))
    trials = tuple(task.data.numbers[index] for index in named)
    errors = solution.standard_errors
    if solution.method is Method.CLUSTERED:  # from a few nodes they may come out small by chance
        usual = solution.sigma * np.sqrt(np.clip(np.diag(solution.inverse_gram), 0.0, None))
        errors = np.maximum(errors, usual)
    with np.errstate(all="ignore"):
        shares = np.nan_to_num(np.abs(influence.moves) / np.where(errors > 0, errors, np.inf))
    if len(named) == 0:
        text = "no trial pulls the fit much: without any one of them the parameters would stay where they are"
        return Finding(Check.INFLUENCE, False, sentence(text))
    worst = int(named[np.argmax(influence.cooks_distance[named])])
    notable = bool(outliers.any()) or float(shares[named].max()) > 1
    parts = [f"{listed_trials(trials)} {'pulls' if len(trials) == 1 else 'pull'} the fit more than the others"]
    parts.append(f"without trial {task.data.numbers[worst]}, {_moved(task, solution, influence, worst)}")
    if outliers.any():
        far = int(np.argmin(influence.outlier_p))
        parts.append(
            f"trial {task.data.numbers[far]} lies {abs(influence.studentised[far]):.1f} standard errors off the "
            f"law ({p_text(float(influence.outlier_p[far]))} for the farthest of {n}): look at what happened in it"
        )
    p_value = float(influence.outlier_p.min())
    return Finding(Check.INFLUENCE, notable, sentence("; ".join(parts)), p_value, trials)


def _moved(task: Task, solution: Solution, influence: Influence, trial: int) -> str:
    """The parameter that a trial moves most in its own standard errors, in words."""
    errors = solution.standard_errors
    shares = np.abs(influence.moves[trial]) / np.where(errors > 0, errors, np.inf)
    most = int(np.argmax(shares))
    name, value, move = task.law.parameters[most], solution.values[most], influence.moves[trial, most]
    way = "higher" if move > 0 else "lower"
    if value == 0:
        return f"{name} would be {way} by {shares[most]:.1f} of its standard error"
    return f"{name} would be {percent(abs(move / value))} {way} ({shares[most]:.1f} of its standard error)"


def outliers_finding(task: Task, weights: Array) -> Finding:
    """Trials that a robust fit counts less than half."""
    named = tuple(task.data.numbers[index] for index in np.flatnonzero(weights < 0.5))
    if not named:
        text = "no trial is so far off the law that it counts less than half"
        return Finding(Check.OUTLIERS, False, sentence(text))
    counts = "counts" if len(named) == 1 else "count"
    text = f"{listed_trials(named)} {counts} less than half, being far off the law that the others follow"
    return Finding(Check.OUTLIERS, len(named) * 10 > len(weights), sentence(text), trials=named)
