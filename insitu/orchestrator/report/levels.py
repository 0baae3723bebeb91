"""Requested against achieved levels, variable by variable: what a report says of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial

_VAGUE = 0.5
"""Part of a level that its samples may leave open, beyond which it is not called verified."""


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
    vague
        How many were held as far as samples tell that leave more than half of the level open: few packets lost of
        few, or a run of an earlier version.
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
    vague: int = 0
    widest_held: float | None = None
    least_slack: float | None = None
    most_slack: float | None = None


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


def level_summaries(trials: Sequence[StoredTrial]) -> tuple[LevelSummary, ...]:
    """Of each variable whose levels are judged."""
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
                vague=sum(level.uncertainty > _VAGUE * abs(level.requested) for level in known),
                widest_held=max((level.uncertainty / abs(level.requested) for level in known), default=None),
                least_slack=min(used, default=None),
                most_slack=max(used, default=None),
            )
        )
    return tuple(summaries)
