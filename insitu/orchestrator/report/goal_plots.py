"""The numbers behind the plots of the page's section on the goal."""

from __future__ import annotations

import math
from dataclasses import dataclass

from insitu.orchestrator.estimation.answer import Answer
from insitu.orchestrator.plan.goals import Goal, PredictionGoal, RankingGoal
from insitu.orchestrator.report.course import drawn_looks, part_names, told
from insitu.orchestrator.report.summary import Summary
from insitu.orchestrator.report.wording import axis_scale, count
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.units import percent

_MOST_LINES = 6
"""Numbers that have a line each; of more, only the worst is drawn."""


@dataclass(frozen=True, slots=True)
class GoalDrawing:
    """What the section draws.

    Attributes
    ----------
    forest
        Whether the numbers are of one kind, so that they can be drawn on one axis.
    narrowing
        The plot of the looks, in words.
    """

    forest: bool
    narrowing: str


def drawing_of(summary: Summary) -> GoalDrawing:
    """What there is to draw of the goal."""
    goal, answer = summary.goal, summary.answer
    looks = drawn_looks(summary.looks)
    text = ""
    if len(looks) > 1:
        first, last = (max(look.half_widths) for look in (looks[0], looks[-1]))
        text = (
            f"Half width of the interval: {percent(first)} after {count(looks[0].trials, 'valid trial')}, "
            f"{percent(last)} after {looks[-1].trials}"
        )
    comparable = goal is not None and answer is not None and _comparable(goal, answer)
    return GoalDrawing(comparable, text)


def _comparable(goal: Goal, answer: Answer) -> bool:
    return isinstance(goal, (RankingGoal, PredictionGoal)) and len(answer.parts) > 1


def goal_plot_data(summary: Summary) -> dict[str, Json]:
    """Return what the section draws, as plain data."""
    return {"narrowing": _narrowing(summary), "forest": _forest(summary)}


def _narrowing(summary: Summary) -> dict[str, Json] | None:
    looks = drawn_looks(summary.looks)
    goal, answer = summary.goal, summary.answer
    if goal is None or answer is None or len(looks) < 2:
        return None
    names = part_names(answer.parts, goal, {variable.name: variable for variable in summary.variables})
    lines: list[Json] = []
    if 1 < len(names) <= _MOST_LINES:
        lines = [
            {"name": name, "y": [_in_percent(look.half_widths[index]) for look in looks]}
            for index, name in enumerate(names)
        ]
    asked = goal.relative_half_width
    return {
        "x": [look.trials for look in looks],
        "worst": [_in_percent(max(look.half_widths)) for look in looks],
        "lines": lines,
        "asked": None if asked is None else 100 * asked,
    }


def _in_percent(share: float) -> float | None:
    return 100 * share if math.isfinite(share) else None


def _forest(summary: Summary) -> dict[str, Json] | None:
    goal, answer = summary.goal, summary.answer
    if goal is None or answer is None or not _comparable(goal, answer):
        return None
    parts = told(answer, goal)
    names = part_names(parts, goal, {variable.name: variable for variable in summary.variables})
    known = [(part, name) for part, name in zip(parts, names, strict=True) if not part.problem]
    unit = known[0][0].wanted.unit if known else ""
    scale = axis_scale(max((max(abs(part.low), abs(part.high)) for part, _ in known), default=0.0), unit)
    title = f"effect on {goal.outcome}" if isinstance(goal, RankingGoal) else goal.outcome
    return {
        "from_zero": isinstance(goal, RankingGoal),
        "title": f"{title} ({scale.unit})" if scale.unit else title,
        "names": [name for _, name in known],
        "value": [part.value * scale.factor for part, _ in known],
        "low": [part.low * scale.factor for part, _ in known],
        "high": [part.high * scale.factor for part, _ in known],
    }
