"""What changed between two runs, for the terminal."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from insitu.orchestrator.estimation.questions.comparison import Comparison, LawChange
from insitu.orchestrator.report.console import PlainConsole
from insitu.orchestrator.report.wording import (
    interval,
    level_list,
    number,
    p_text,
    scaled_interval,
    signed_percent,
)
from insitu.orchestrator.store.encoding import Json, finite_json
from insitu.orchestrator.units import format_quantity, percent


def comparison_document(comparison: Comparison) -> dict[str, Json]:
    """The comparison as plain data that ``json.dumps(allow_nan=False)`` takes."""
    laws = [
        {**asdict(one), "significant": one.significant, "sentence": change_sentence(one)}
        for one in comparison.laws
    ]
    return {
        "laws": finite_json(laws),
        "not_compared": finite_json([asdict(one) for one in comparison.not_compared]),
    }


def comparison_text(comparison: Comparison) -> str:
    """A sentence on each law."""
    lines = [change_sentence(one) for one in comparison.laws]
    lines += [f"{one.outcome} is not compared: {one.reason}." for one in comparison.not_compared]
    return "\n".join(lines)


def print_comparison(comparison: Comparison, first: str, second: str, console: Console | None = None) -> None:
    """Print a table of the laws' parameters in both runs, and a sentence on each law."""
    (console or PlainConsole()).print(render_comparison(comparison, first, second))


def render_comparison(comparison: Comparison, first: str, second: str) -> RenderableType:
    """The same as a renderable."""
    parts: list[RenderableType] = [Text(""), Text(f"{second} against {first}", "bold")]
    if comparison.laws:
        parts.append(_table(comparison))
    for one in comparison.laws:
        mark = Text("! ", "yellow") if one.significant else Text("✓ ", "green")
        parts.append(Text.assemble(mark, change_sentence(one)))
    parts += [
        Text.assemble(("· ", "dim"), f"{skipped.outcome} is not compared: {skipped.reason}")
        for skipped in comparison.not_compared
    ]
    return Group(*parts)


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False)
    confidence = percent(comparison.laws[0].confidence, 4)
    for index, column in enumerate(
        ("law", "parameter", "first", "second", f"change, {confidence} interval", "unit")
    ):
        table.add_column(column, style="" if index else "bold", header_style="dim", overflow="fold")
    for law in comparison.laws:
        for one in law.parameters:
            half = (one.high - one.low) / 2
            table.add_row(
                Text(law.outcome),
                Text(one.name),
                number(one.first, half),
                number(one.second, half),
                Text(interval(one.change, one.low, one.high, "")),
                Text(one.unit or "1"),
            )
    return table


def change_sentence(change: LawChange) -> str:
    """Say in one sentence whether a law changed, and by how much."""
    before, after = (format_quantity(one, change.unit) for one in (change.first, change.second))
    size = scaled_interval(change.change, change.low, change.high, change.unit)
    where = f" at {level_list(change.at, change.units, change.words)}" if change.at else ""
    by = f"{size}" + (f", {signed_percent(change.change / change.first)}" if change.first else "")
    if not change.significant:
        return (
            f"{change.outcome} has not changed by more than noise ({p_text(change.adjusted_p)}): "
            f"{before} and {after}{where}, a difference of {by}."
        )
    most = change.most_changed
    return (
        f"{change.outcome} has changed ({p_text(change.adjusted_p)}): from {before} to {after}{where}, by {by}; "
        f"most of all {most.name}."
    )
