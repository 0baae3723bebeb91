"""Numbers and lists as the sentences of findings have them."""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 6


def p_text(p_value: float) -> str:
    """A p value, never rounded to zero."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def joined(parts: Sequence[str], last: str = "and") -> str:
    """``"a"``, ``"a and b"``, ``"a, b and c"``."""
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def listed_trials(trials: Sequence[int]) -> str:
    """``"trial 3"``, ``"trials 3 and 4"``; no more than a few by number."""
    if len(trials) == 1:
        return f"trial {trials[0]}"
    shown = [str(trial) for trial in trials[:_LISTED]]
    rest = len(trials) - len(shown)
    return f"trials {joined([*shown, f'{rest} more'] if rest else shown)}"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
