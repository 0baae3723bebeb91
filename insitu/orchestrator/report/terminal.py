"""The closing table of a run on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from insitu.orchestrator.report.console import PlainConsole
from insitu.orchestrator.report.endings import ending_label
from insitu.orchestrator.report.goal_section import GoalSection, goal_section
from insitu.orchestrator.report.summary import LevelSummary, Standing, Summary
from insitu.orchestrator.report.wording import count, number, signed_percent
from insitu.orchestrator.store.records import LevelVerdict, StoredTrial
from insitu.orchestrator.store.states import SPOILT
from insitu.orchestrator.units import format_quantity, percent

if TYPE_CHECKING:
    from insitu.orchestrator.estimation.fit import Fit

_MARKS = {
    Standing.GOOD: Text("✓", "green"),
    Standing.WARNING: Text("!", "yellow"),
    Standing.BAD: Text("✗", "red"),
    Standing.OPEN: Text("·", "dim"),
}
_SHOWN = 12
"""Trials that are not valid and are listed one by one; the page lists them all."""


def print_summary(summary: Summary, console: Console | None = None, *, ending: bool = True) -> None:
    """Print the answer, the estimates, why to believe them, and what went wrong.

    Parameters
    ----------
    ending
        Whether to say how the run ended and what to do next; else somebody else does.
    """
    (console or PlainConsole()).print(render_summary(summary, ending=ending))


def render_summary(summary: Summary, *, ending: bool = True) -> RenderableType:
    """The same as a renderable, for a live display."""
    parts: list[RenderableType] = [Text(""), Text(summary.headline, "bold")]
    if summary.conditions:
        parts.append(Text(summary.conditions))
    if ending:
        parts += _ending(summary)
    section = goal_section(summary)
    if section is not None and len(section.rows) > 1:
        parts += [Text(""), Text(section.question, "bold"), _answer(section)]
    parts += [Text(""), Text.assemble(("law  ", "dim"), summary.law)]
    if summary.analysis.fit is not None:
        parts.append(_estimates(summary.analysis.fit))
    reasons = Table.grid(padding=(0, 1))
    for reason in summary.reasons:
        reasons.add_row(_MARKS[reason.standing], Text(reason.title, "bold"), Text(reason.text))
    parts += [Text(""), reasons]
    if summary.levels:
        parts += [Text(""), _levels(summary.levels)]
    spoilt = [trial for trial in summary.trials if trial.state in SPOILT]
    if spoilt:
        parts += [Text(""), _spoilt(spoilt)]
    return Group(*parts)


def _ending(summary: Summary) -> list[RenderableType]:
    """How it ended, and what to do next; nothing while it has not, or where that says no more than the answer."""
    lines: list[RenderableType] = []
    if summary.ending:
        lines.append(Text.assemble((ending_label(summary.status), "bold"), f": {summary.ending}"))
    if summary.next_step:
        lines.append(Text.assemble(("next: ", "dim"), summary.next_step))
    return lines


def _answer(section: GoalSection) -> Table:
    table = _table("", section.what.lower(), "estimate", "interval", "half width")
    for row in section.rows:
        shown = (row.value, row.interval, row.half) if not row.problem else (f"not known: {row.problem}", "", "")
        table.add_row(Text(row.name), *map(Text, shown))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, style="" if index else "bold", header_style="dim", overflow="fold")
    return table


def _estimates(fit: Fit) -> Table:
    table = _table("", "parameter", "estimate", f"{percent(fit.confidence, 4)} interval", "unit")
    for estimate in fit.estimates:
        half = (estimate.reported_high - estimate.reported_low) / 2
        low, high = number(estimate.reported_low, half), number(estimate.reported_high, half)
        table.add_row(
            Text(estimate.name),
            number(estimate.reported, half),
            Text(f"[{low}, {high}]"),
            Text(estimate.unit or "1"),
        )
    for name in fit.not_estimated:
        table.add_row(Text(name), "not estimated", "", "")
    return table


def _levels(levels: tuple[LevelSummary, ...]) -> Table:
    table = _table("Achieved against requested", "variable", "median off", "worst off", "verdicts", "held by")
    for level in levels:
        verdicts = ", ".join(_verdict(level, verdict) for verdict in level.verdicts)
        table.add_row(
            Text(level.variable),
            "-" if level.median is None else percent(level.median),
            "-" if level.worst is None else signed_percent(level.worst),
            verdicts,
            Text(", ".join(level.mechanisms) or "-"),
        )
    return table


def _verdict(level: LevelSummary, verdict: str) -> str:
    """How many; of what was slack also what the subject used, since its level was not reached, nor missed."""
    text = f"{level.verdicts[verdict]} {verdict}"
    if verdict != LevelVerdict.SLACK.value or level.least_slack is None or level.most_slack is None:
        return text
    ends = dict.fromkeys(format_quantity(one, level.unit) for one in (level.least_slack, level.most_slack))
    return f"{text} (used {' to '.join(ends)})"


def _spoilt(trials: list[StoredTrial]) -> Table:
    table = _table(f"{count(len(trials), 'trial')} not fitted", "trial", "state", "why")
    for trial in trials[:_SHOWN]:
        reasons = trial.record.reasons if trial.record is not None else ()
        table.add_row(str(trial.planned.trial), trial.state.value, Text("; ".join(reasons)))
    if len(trials) > _SHOWN:
        table.add_row("", "", f"and {len(trials) - _SHOWN} more, in the report")
    return table
