"""The page's section on the goal: the question, and a row for each number of its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from insitu.orchestrator.estimation.answer import Part
from insitu.orchestrator.plan.goals import Goal, ParametersGoal, PredictionGoal, RankingGoal
from insitu.orchestrator.report import verdicts
from insitu.orchestrator.report.course import drawn_looks, part_names, question, standing_still, told
from insitu.orchestrator.report.summary import Standing, Summary
from insitu.orchestrator.report.wording import Scale, axis_scale, count, number
from insitu.orchestrator.units import percent, percent_beside


@dataclass(frozen=True, slots=True)
class PartRow:
    """One number of the answer, as text.

    Attributes
    ----------
    half
        Half the interval, relative to the number.
    standing
        Whether that is as precise as the goal asks; open where it asks for no precision.
    problem
        Why the number is not known; empty if it is.
    """

    name: str
    value: str
    interval: str
    half: str
    standing: Standing
    problem: str


@dataclass(frozen=True, slots=True)
class GoalSection:
    """What was asked, and what came of it.

    Attributes
    ----------
    what
        Heads the names of the rows.
    asked
        The precision that the goal asks for; empty if none.
    notes
        What a reader of the table must know.
    narrowed
        Whether there are enough looks to draw.
    """

    question: str
    what: str
    asked: str
    rows: tuple[PartRow, ...]
    notes: tuple[str, ...]
    narrowed: bool


def goal_section(summary: Summary) -> GoalSection | None:
    """Gather the section; ``None`` without a goal."""
    goal, answer = summary.goal, summary.answer
    if goal is None:
        return None
    variables = {variable.name: variable for variable in summary.variables}
    asked = goal.relative_half_width
    looks = drawn_looks(summary.looks)
    rows: tuple[PartRow, ...] = ()
    notes = []
    if answer is not None:
        parts = told(answer, goal)
        names = part_names(parts, goal, variables)
        rows = tuple(_row(part, name, asked) for part, name in zip(parts, names, strict=True))
        if still := standing_still(answer, goal, variables):
            notes.append(f"What is not asked about stands at {still}.")
        if isinstance(goal, RankingGoal):
            notes.append("Half widths are relative to the largest effect, since the effects are compared.")
        if answer.verdict is not None:
            notes += [
                verdicts.conditions(answer.verdict) + ".",
                *map(verdicts.fit_text, answer.verdict.contenders),
            ]
        if answer.inflation > 1:
            notes.append(
                f"Intervals are {percent(answer.inflation - 1)} wider than plain ones, "
                "as for any run that may end early."
            )
    if len(looks) == 1:
        notes.append(f"The first look, after {count(looks[0].trials, 'valid trial')}, was the only one.")
    return GoalSection(
        question=question(goal, variables),
        what=_heading(goal),
        asked=f"± {percent(asked)}" if asked is not None else "",
        rows=rows,
        notes=tuple(notes),
        narrowed=len(looks) > 1,
    )


def _heading(goal: Goal) -> str:
    match goal:
        case ParametersGoal():
            return "Parameter"
        case PredictionGoal():
            return "Where"
    return "Cause"


def part_scale(part: Part) -> Scale:
    """In which unit a number is shown: its own where that is not a base unit, else with a prefix that suits it."""
    wanted = part.wanted
    if wanted.scale != 1.0 or not wanted.unit:
        return Scale(1.0, wanted.unit)
    return axis_scale(max(abs(part.value), (part.high - part.low) / 2), wanted.unit)


def _row(part: Part, name: str, asked: float | None) -> PartRow:
    if part.problem:
        return PartRow(name, "–", "", "", Standing.BAD, part.problem)
    scale = part_scale(part)
    value, low, high = (one * scale.factor for one in (part.value, part.low, part.high))
    half = (high - low) / 2
    known = math.isfinite(part.relative_half_width)
    precise = asked is not None and part.relative_half_width <= asked
    return PartRow(
        name=name,
        value=f"{number(value, half)} {scale.unit}".rstrip(),
        interval=f"{number(low, half)} to {number(high, half)}",
        half=f"± {percent_beside(part.relative_half_width, asked or 0.0)}" if known else "–",
        standing=Standing.OPEN if asked is None else Standing.GOOD if precise else Standing.WARNING,
        problem="",
    )
