"""What a report shows, gathered once for the terminal, the page and the JSON document."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from insitu.orchestrator.estimation.analysis import Analysis
from insitu.orchestrator.estimation.answer import Answer
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.rivals.verdict import Verdict
from insitu.orchestrator.plan.goals import EffectGoal, Goal
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.report import goals, verdicts
from insitu.orchestrator.report.course import Looked
from insitu.orchestrator.report.facts import Fact, gather_facts
from insitu.orchestrator.report.wording import count, join, p_text
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial, TrialState
from insitu.orchestrator.store.states import FINISHED, SPOILT
from insitu.orchestrator.units import percent, percent_beside

if TYPE_CHECKING:
    from insitu.orchestrator.causal.blueprint import Blueprint


_TITLES = {
    Check.CONSTANT: "Constant outcome",
    Check.SKIPPED: "Trials left out",
    Check.LEVERAGE: "High leverage",
    Check.INFLUENCE: "Influential trials",
    Check.PATTERN: "A pattern is left",
    Check.DRIFT: "Drift",
    Check.BLOCKS: "Blocks differ",
    Check.NODES: "Nodes differ",
    Check.COLLINEARITY: "Hard to tell apart",
    Check.LEVEL_ERRORS: "Errors of the levels",
    Check.PRIOR: "Prior",
    Check.BOUND: "At a bound",
    Check.SEARCH: "Search",
    Check.OUTLIERS: "Outliers",
    Check.GROUPS: "Nodes and days",
}
"""Checks of a fit that are among the reasons where they are notable; the others have a reason of their own."""


class Standing(StrEnum):
    """How a reason to believe the result stands."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason to believe the result, or not to."""

    standing: Standing
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """Requested against achieved level of one variable over the finished trials.

    Attributes
    ----------
    worst, median
        Of the relative deviations ``achieved / requested - 1``, by absolute size; ``None`` where nothing was
        asked for.
    worst_held
        The worst of those that were held.
    untold
        How many of those that were missed bound too briefly to tell what they came to.
    widest_held
        The largest uncertainty of one that was held, as a share of it; ``None`` where none was.
    least_slack, most_slack
        Of what the subject used where the cap hardly mattered; ``None`` where it always did.
    """

    variable: str
    unit: str
    mechanisms: tuple[str, ...]
    verdicts: dict[str, int]
    worst: float | None
    median: float | None
    worst_held: float | None
    untold: int = 0
    widest_held: float | None = None
    least_slack: float | None = None
    most_slack: float | None = None


@dataclass(frozen=True, slots=True)
class EdgeSummary:
    """`cause` stands in the law of `effect`."""

    cause: str
    effect: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything a report shows; base units.

    Attributes
    ----------
    ending, next_step
        How the run ended and what the user can do next; empty while it has not.
    fits
        Of every law of a measured variable, the outcome's first.
    looks
        What was known after each batch, where trials were chosen as they went.
    reasoning
        Whether and why the trials can tell what the goal asks for, in sentences.
    """

    name: str
    status: str
    ending: str
    next_step: str
    headline: str
    conditions: str
    reasons: tuple[Reason, ...]
    outcome: str
    law: str
    goal: Goal | None
    analysis: Analysis
    answer: Answer | None
    fits: tuple[Fit, ...]
    looks: tuple[Looked, ...]
    reasoning: tuple[str, ...]
    variables: tuple[Variable, ...]
    edges: tuple[EdgeSummary, ...]
    confounded: tuple[tuple[str, str], ...]
    levels: tuple[LevelSummary, ...]
    trials: tuple[StoredTrial, ...]
    states: dict[str, int]
    tolerance: float | None
    facts: tuple[Fact, ...]

    @property
    def widest_held(self) -> float:
        """The largest uncertainty of a level that was held, as a share of it."""
        return max((level.widest_held for level in self.levels if level.widest_held is not None), default=0.0)

    @property
    def outcome_variable(self) -> Variable:
        """The variable that the law gives."""
        return next(variable for variable in self.variables if variable.name == self.outcome)


def deviation(level: LevelRecord) -> float | None:
    """Relative deviation of an achieved level; ``None`` where there is none, or a cap hardly mattered."""
    if (
        level.achieved is None
        or level.verdict is LevelVerdict.SLACK
        or not math.isfinite(level.requested)
        or level.requested == 0
    ):
        return None
    return level.achieved / level.requested - 1


def summarise(
    blueprint: Blueprint,
    trials: Sequence[StoredTrial],
    analysis: Analysis,
    meta: Mapping[str, Json],
    goal: Goal | None = None,
    tolerance: float | None = None,
    answer: Answer | None = None,
    *,
    fits: Mapping[str, Fit] | None = None,
    looks: Sequence[Looked] = (),
    reasoning: Sequence[str] = (),
) -> Summary:
    """Gather what a report shows.

    Parameters
    ----------
    answer
        To the goal; ``None`` without a goal, or with the reason in the analysis.
    meta
        The run's facts; ``name``, ``status`` and ``reason`` are shown at the top, the others as provenance.
    tolerance
        Largest relative deviation of a level that was held; drawn as a band.
    fits, looks, reasoning
        As of `Summary`.
    """
    states = {state.value: sum(trial.state is state for trial in trials) for state in TrialState}
    levels = _level_summaries(trials)
    status = str(meta.get("status") or ("complete" if _complete(states) else "incomplete"))
    edges = [EdgeSummary(parent, name) for name, law in blueprint.laws.items() for parent in law.parents]
    return Summary(
        name=str(meta.get("name") or "experiment"),
        status=status,
        ending=str(meta.get("reason") or ""),
        next_step=str(meta.get("next_step") or ""),
        headline=_headline(analysis, states, goal, answer, blueprint.variables),
        conditions=_conditions(analysis, goal, answer, blueprint.variables),
        reasons=tuple(_reasons(analysis, states, levels, goal, answer)),
        outcome=analysis.outcome,
        law=f"{analysis.outcome} = {blueprint.laws[analysis.outcome].text}",
        goal=goal,
        analysis=analysis,
        answer=answer,
        fits=_outcome_first(analysis, fits or {}),
        looks=tuple(looks),
        reasoning=tuple(reasoning),
        variables=tuple(blueprint.variables.values()),
        edges=tuple(edges),
        confounded=blueprint.confounded,
        levels=levels,
        trials=tuple(trials),
        states=states,
        tolerance=tolerance,
        facts=gather_facts(meta, trials),
    )


def _outcome_first(analysis: Analysis, fits: Mapping[str, Fit]) -> tuple[Fit, ...]:
    own = () if analysis.fit is None else (analysis.fit,)
    return (*own, *(fit for name, fit in fits.items() if name != analysis.outcome))


def _complete(states: Mapping[str, int]) -> bool:
    return not (states["planned"] or states["running"]) and states["valid"] > 0


def _headline(
    analysis: Analysis,
    states: Mapping[str, int],
    goal: Goal | None,
    answer: Answer | None,
    variables: Mapping[str, Variable],
) -> str:
    if goal is not None and answer is not None:
        return goals.headline(goal, answer, variables)
    if analysis.fit is not None:
        return f"The law of {analysis.outcome} is fitted to {count(analysis.fit.n, 'trial')}"
    finished = sum(states[name] for name in FINISHED)
    if not finished:
        return "No trial has finished yet"
    return f"No answer: {analysis.problem}"


def _conditions(
    analysis: Analysis,
    goal: Goal | None,
    answer: Answer | None,
    variables: Mapping[str, Variable],
) -> str:
    parts = []
    if goal is not None and answer is not None:
        parts.append(goals.conditions(goal, answer, variables))
    if analysis.fit is None and analysis.remedy:
        parts.append(f"{analysis.remedy[0].upper()}{analysis.remedy[1:]}")
    return ". ".join(parts)


def _level_summaries(trials: Sequence[StoredTrial]) -> tuple[LevelSummary, ...]:
    by_variable: dict[str, list[LevelRecord]] = {}
    for trial in trials:
        for level in trial.record.levels if trial.record is not None else ():
            by_variable.setdefault(level.variable, []).append(level)
    summaries = []
    for variable, levels in by_variable.items():
        if all(level.verdict is LevelVerdict.EXACT for level in levels):
            continue
        judged = [level for level in levels if level.verdict in (LevelVerdict.HELD, LevelVerdict.MISSED)]
        deviations = [d for d in map(deviation, judged) if d is not None]
        known = [level for level in judged if level.verdict is LevelVerdict.HELD and level.requested]
        held = [d for d in map(deviation, known) if d is not None]
        used = [
            level.achieved
            for level in levels
            if level.verdict is LevelVerdict.SLACK and level.achieved is not None and math.isfinite(level.achieved)
        ]
        mechanisms = dict.fromkeys(level.mechanism for level in levels if level.mechanism != "none")
        verdicts = {verdict.value: sum(level.verdict is verdict for level in levels) for verdict in LevelVerdict}
        summaries.append(
            LevelSummary(
                variable=variable,
                unit=levels[0].unit,
                mechanisms=tuple(mechanisms),
                verdicts={verdict: amount for verdict, amount in verdicts.items() if amount},
                worst=max(deviations, key=abs) if deviations else None,
                median=statistics.median(map(abs, deviations)) if deviations else None,
                worst_held=max(held, key=abs) if held else None,
                untold=sum(level.verdict is LevelVerdict.MISSED and level.achieved is None for level in levels),
                widest_held=max((level.uncertainty / abs(level.requested) for level in known), default=None),
                least_slack=min(used, default=None),
                most_slack=max(used, default=None),
            )
        )
    return tuple(summaries)


def _reasons(
    analysis: Analysis,
    states: Mapping[str, int],
    levels: Sequence[LevelSummary],
    goal: Goal | None,
    answer: Answer | None,
) -> list[Reason]:
    reasons = [_trials_reason(states), _levels_reason(levels)]
    fit = analysis.fit
    if fit is None:
        return [
            *reasons,
            Reason(Standing.BAD, "No fit", f"{analysis.problem[0].upper()}{analysis.problem[1:]}."),
        ]
    of_means = fit.quantile is None
    if of_means and math.isfinite(fit.r_squared):
        explained = Standing.GOOD if fit.r_squared > 0.95 else Standing.WARNING
        text = (
            f"The law explains {percent(fit.r_squared, 4)} of the variation of {fit.outcome} over {fit.n} trials."
        )
        reasons.append(Reason(explained, f"R² = {fit.r_squared:.4f}", text))
    if not of_means:
        text = f"The law gives what {percent(fit.quantile or 0.0, 4)} of trials stay below, and not the mean."
        reasons.append(Reason(Standing.OPEN, "A quantile", text))
    if fit.not_estimated:
        names = join(list(fit.not_estimated))
        why = f"The term of {names} was zero in every trial: its variables were never set away from that."
        reasons.append(Reason(Standing.OPEN, "Not estimated", why))
    if fit.lack_of_fit is None:
        reasons.append(Reason(Standing.OPEN, "Lack of fit not tested", f"{fit.lack_of_fit_reason}."))
    else:
        test = fit.lack_of_fit
        figures = f"F({test.df_lack}, {test.df_pure}) = {test.f:.3g}, {p_text(test.p_value)}"
        if test.significant:
            term = f" {fit.missing_term.sentence}" if fit.missing_term else ""
            reasons.append(Reason(Standing.BAD, "The law does not fit", f"{figures}.{term}"))
        else:
            text = f"The law misses no more than replicates differ among themselves ({figures})."
            reasons.append(Reason(Standing.GOOD, "No lack of fit", text))
    uneven = fit.diagnostics.heteroscedasticity_p
    if of_means and uneven is not None and uneven < 0.05:
        text = f"The residuals spread unevenly over the levels ({p_text(uneven)}): intervals are approximate."
        reasons.append(Reason(Standing.WARNING, "Uneven spread", text))
    normal = fit.diagnostics.normality_p
    if of_means and normal is not None and normal < 0.01:
        text = f"Look for outliers ({p_text(normal)}): prediction intervals are approximate."
        reasons.append(Reason(Standing.WARNING, "Residuals not normal", text))
    reasons += [
        Reason(Standing.WARNING, _TITLES[one.check], one.sentence) for one in fit.notable if one.check in _TITLES
    ]
    if answer is not None and answer.outside:
        text = f"The answer is extrapolated: {'; '.join(answer.outside)}."
        reasons.append(Reason(Standing.WARNING, "Outside the trials", text))
    if analysis.graph is not None and analysis.graph.tested:
        standing = Standing.BAD if analysis.graph.failed else Standing.GOOD
        text = " ".join([analysis.graph.sentence, *(one.sentence for one in analysis.graph.failed)])
        reasons.append(Reason(standing, "The graph", text))
    if answer is not None and answer.verdict is not None:
        reasons += _comparison_reasons(answer.verdict)
    if goal is not None and goal.relative_half_width is not None and answer is not None:
        reached = answer.half_width <= goal.relative_half_width
        found = percent_beside(answer.half_width, goal.relative_half_width)
        asked = percent(goal.relative_half_width)
        what = "The effect is" if isinstance(goal, EffectGoal) else "What the goal asks for is"
        text = f"{what} known to ± {found}; the goal asks for ± {asked}."
        title = "Precision reached" if reached else "Precision not reached"
        reasons.append(Reason(Standing.GOOD if reached else Standing.WARNING, title, text))
    return reasons


def _comparison_reasons(verdict: Verdict) -> list[Reason]:
    """The rival's own fit, since what is above is about the law; and whether one of the two was rejected."""
    lack = verdict.rival.fit.lack_of_fit
    standing = Standing.BAD if lack is not None and lack.significant else Standing.OPEN
    reasons = [Reason(standing, "The rival", verdicts.fit_text(verdict.rival))]
    decided = verdict.preferred is not None
    title, how = ("Decided", Standing.GOOD) if decided else ("Not decided", Standing.WARNING)
    return [*reasons, Reason(how, title, f"{verdicts.standing(verdict)}.")]


def _trials_reason(states: Mapping[str, int]) -> Reason:
    spoilt = [f"{states[name]} {name}" for name in SPOILT if states[name]]
    waiting = states["planned"] + states["running"]
    text = count(states["valid"], "valid trial")
    text += f"; {join(spoilt)}, kept and not fitted" if spoilt else ""
    text += f"; {waiting} still to come" if waiting else ""
    standing = Standing.OPEN if waiting or not states["valid"] else Standing.WARNING if spoilt else Standing.GOOD
    return Reason(standing, "Trials", f"{text}.")


def _levels_reason(levels: Sequence[LevelSummary]) -> Reason:
    verdicts: dict[str, int] = {}
    for summary in levels:
        for verdict, amount in summary.verdicts.items():
            verdicts[verdict] = verdicts.get(verdict, 0) + amount
    asked = sum(verdicts.get(name, 0) for name in ("held", "missed", "disturbed", "slack"))
    if not asked:
        return Reason(Standing.OPEN, "Levels", "Nothing was held at a level yet.")
    off = [f"{verdicts[name]} {name}" for name in ("missed", "disturbed") if verdicts.get(name)]
    worst = [abs(summary.worst_held) for summary in levels if summary.worst_held is not None]
    text = f"{verdicts.get('held', 0)} of {count(asked, 'intervention')} held"
    text += f", {verdicts['slack']} slack (the cap hardly mattered)" if verdicts.get("slack") else ""
    text += f", {join(off)}" if off else ""
    untold = sum(summary.untold for summary in levels)
    text += f"; {untold} bound too briefly to tell" if untold else ""
    text += f"; levels that were held are at most {percent(max(worst))} off." if worst else "."
    return Reason(Standing.WARNING if off else Standing.GOOD, "Levels", text)
