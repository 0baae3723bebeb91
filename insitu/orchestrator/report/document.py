"""The JSON document of a run: one versioned object with everything the page shows.

Base units throughout; ``inf`` (a level that is *unlimited*) is a string, and what is not known ``null``.
"""

from __future__ import annotations

from dataclasses import asdict

from insitu.orchestrator.report.levels import deviation
from insitu.orchestrator.report.summary import Summary
from insitu.orchestrator.store.encoding import Json, finite_json
from insitu.orchestrator.store.records import LevelRecord, StoredTrial

FORMAT = "insitu-run"
VERSION = 1


def run_document(summary: Summary) -> dict[str, Json]:
    """Return the document as plain data that ``json.dumps(allow_nan=False)`` takes."""
    analysis = summary.analysis
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "name": summary.name,
        "status": summary.status,
        "ending": {"text": summary.ending, "next_step": summary.next_step},
        "answer": {"headline": summary.headline, "conditions": summary.conditions},
        "goal": asdict(summary.goal) if summary.goal is not None else None,
        "effect": asdict(analysis.effect) if analysis.effect is not None else None,
        "found": asdict(summary.answer) if summary.answer is not None else None,
        "law": summary.law,
        "outcome": summary.outcome,
        "fit": asdict(analysis.fit) if analysis.fit is not None else None,
        "looks": [{"trials": look.trials, "half_widths": look.half_widths} for look in summary.looks],
        "reasoning": summary.reasoning,
        "problem": analysis.problem or analysis.effect_problem or None,
        "reasons": [asdict(reason) for reason in summary.reasons],
        "variables": [asdict(variable) for variable in summary.variables],
        "edges": [asdict(edge) for edge in summary.edges],
        "levels": [asdict(level) for level in summary.levels],
        "curves": [asdict(curve) for curve in analysis.curves],
        "states": summary.states,
        "trials": [_trial(trial) for trial in summary.trials],
        "provenance": {fact.label: fact.text for fact in summary.facts},
    }
    return {key: finite_json(item, unknown=None) for key, item in tree.items()}


def _trial(trial: StoredTrial) -> dict[str, object]:
    planned, record = trial.planned, trial.record
    shown: dict[str, object] = {
        "trial": planned.trial,
        "block": planned.block,
        "baseline": planned.baseline,
        "replaces": planned.replaces,
        "purpose": planned.purpose,
        "state": trial.state.value,
        "assignment": planned.assignment.as_dict(),
    }
    if record is not None:
        fields = asdict(record)
        shown |= {key: fields[key] for key in fields if key not in ("trial", "state", "levels")}
        shown["levels"] = [_level(level) for level in record.levels]
    return shown


def _level(level: LevelRecord) -> dict[str, object]:
    return {**asdict(level), "deviation": deviation(level)}
