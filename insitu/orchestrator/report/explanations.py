"""An explanation of a trial, for the terminal."""

from __future__ import annotations

from insitu.orchestrator.estimation.questions.explanation import Contribution, Explanation, Part
from insitu.orchestrator.estimation.suspects.blame import Suspect
from insitu.orchestrator.report.answers import fidelity_lines
from insitu.orchestrator.report.wording import join, level_list, level_text, scaled_interval
from insitu.orchestrator.units import format_quantity, percent


def explanation_text(answer: Explanation) -> str:
    """Write why a trial differs from the baseline: what is suspected, then what adds up to the difference."""
    size, low, high = answer.difference, answer.difference_low, answer.difference_high
    more = "more" if size >= 0 else "less"
    if size < 0:
        size, low, high = -size, -high, -low
    seen, expected = (format_quantity(one, answer.unit) for one in (answer.observed, answer.expected))
    lines = [
        f"Trial {answer.trial} had {answer.outcome} = {seen}: "
        f"{scaled_interval(size, low, high, answer.unit)} {more} than the baseline, {expected}",
        f"  {percent(answer.confidence, 4)} confidence intervals; the baseline has "
        f"{level_list(answer.baseline, answer.units, answer.words)}",
    ]
    for suspect in answer.suspects:
        lines += _suspect_lines(suspect)
    lines.append("  what adds up to the difference:")
    lines += _table([_row(one, answer) for one in answer.contributions])
    if not answer.exact:
        worst = max(one.sampling_error for one in answer.contributions)
        lines.append(
            f"    (from orders drawn at random: a standard error of {format_quantity(worst, answer.unit)} at most)"
        )
    if answer.unmeasured:
        lines.append(
            f"  not measured in the trial, so part of what is unexplained: {join(list(answer.unmeasured))}"
        )
    if not answer.compared:
        lines.append(
            "  what is usual at its levels is not known, so nothing is suspected: too few trials are like it"
        )
    if answer.odd:
        lines.append("  what stands out against the other trials:")
        for one in answer.odd:
            value, usual = (format_quantity(number, one.unit) for number in (one.value, one.usual))
            lines.append(f"    {one.name} {value}, usually {usual} ({one.score:+.0f} standard deviations)")
    return "\n".join([*lines, *fidelity_lines(answer.fidelity)])


def _suspect_lines(suspect: Suspect) -> list[str]:
    lines = [f"  suspected: {suspect.cause} ({suspect.cause.words}), probability {percent(suspect.probability)}"]
    return lines + [f"    {text}" for text in dict.fromkeys(sign.text for sign in suspect.signs)]


def _row(one: Contribution, answer: Explanation) -> list[str]:
    amount = scaled_interval(one.amount, one.low, one.high, answer.unit)
    words = answer.words.get(one.variable, ())
    level, usual = (level_text(value, one.unit, words) for value in (one.level, one.usual))
    match one.part:
        case Part.LEVEL:
            why = f"{level}, at the baseline {usual}"
        case Part.BEYOND_LAW:
            why = f"{level}, by its law {usual}"
        case Part.UNEXPLAINED:
            why = "unexplained"
    return [one.variable, amount, why]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(2)] if rows else []
    return [f"    {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows]
