"""What speaks against a plan, and the words that every kind of it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.orchestrator.plan.types import Plan

_MOST_LISTED = 6


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that is likely not meant, and no reason to refuse a plan."""

    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def goal_place(plan: Plan) -> str:
    """Where the plan states its goal, for the front of a message; empty if it was not read from a file."""
    return f"{plan.path}:{plan.goal.line}:{plan.goal.column}: " if plan.goal and plan.goal.line else ""


def listed(parts: Sequence[str], last: str) -> str:
    """Write names in a sentence, the first few of many, with a word before the last."""
    if len(parts) > _MOST_LISTED:
        parts, last = [*parts[: _MOST_LISTED - 1], f"{len(parts) - _MOST_LISTED + 1} more"], "and"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def counted(amount: int, one: str) -> str:
    """Write a number of things."""
    return f"{amount} {one if amount == 1 else one + 's'}"
