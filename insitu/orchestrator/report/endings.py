"""How a run ended, for a reader."""

from __future__ import annotations

from insitu.orchestrator.report.summary import Standing

_LABELS = {
    "reached": "Goal reached",
    "budget": "Budget used up",
    "unidentifiable": "Not identifiable",
    "invalid": "Trials invalid",
}
_ENDINGS = {
    "reached": Standing.GOOD,
    "complete": Standing.GOOD,
    "budget": Standing.WARNING,
    "stalled": Standing.WARNING,
    "interrupted": Standing.WARNING,
    "aborted": Standing.WARNING,
    "running": Standing.OPEN,
}


def ending_standing(status: str) -> Standing:
    """How the way in which a run ended speaks for its result."""
    return _ENDINGS.get(status, Standing.BAD)


def ending_label(status: str) -> str:
    """How a run ended, in two words."""
    return _LABELS.get(status, status.replace("_", " ").capitalize())
