"""What ``check`` says of a design that chooses its trials as it goes: how far it looks ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from insitu.orchestrator.cli import rival_previews

if TYPE_CHECKING:
    from insitu.orchestrator.design.foresight import Foreseen
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.steering.preview import Preview
    from insitu.orchestrator.steering.rival_preview import RivalPreview


def preview(prepared: Experiment) -> Preview | RivalPreview | None:
    """Look ahead; ``None`` for a design that is fixed beforehand."""
    from insitu.orchestrator.plan.goals import ComparisonGoal
    from insitu.orchestrator.plan.types import SEQUENTIAL
    from insitu.orchestrator.steering.preview import preview_of
    from insitu.orchestrator.steering.rival_preview import rival_preview_of

    if prepared.plan.design.kind != SEQUENTIAL:
        return None
    if isinstance(prepared.plan.goal, ComparisonGoal):
        return rival_preview_of(prepared.plan, prepared.blueprint, prepared.most_trials)
    return preview_of(prepared.plan, prepared.blueprint, prepared.most_trials)


def lines(foreseen: Preview | RivalPreview, plan: Plan) -> list[str]:
    """For the terminal."""
    from insitu.orchestrator.steering.rival_preview import RivalPreview

    if isinstance(foreseen, RivalPreview):
        return list(rival_previews.lines(foreseen))
    return list(_lines(foreseen, plan))


def _lines(foreseen: Preview, plan: Plan) -> Iterator[str]:
    yield (
        f"then {foreseen.batch} after each look, until the goal is reached, at most {foreseen.most} in all; "
        "one in seven checks the law"
    )
    looks = _few([one for one in foreseen.foreseen if math.isfinite(max(one.half_widths, default=math.inf))])
    if looks and len(foreseen.wanted) == 1:
        told = ", ".join(f"{max(one.half_widths):.2g} after {one.trials} trials" for one in looks)
        yield f"half width of the interval, in units of one trial's spread: {told}"
    if foreseen.needed and plan.goal is not None and plan.goal.relative_half_width is not None:
        what = "what the goal asks for" if len(foreseen.wanted) == 1 else "the smallest number that it asks for"
        yield f"the goal, ± {plan.goal.relative_half_width:.3g}, is reached where one trial's spread is"
        for one in foreseen.needed:
            when = f"after {one.trials} trials" if one.trials is not None else "not within the budget"
            yield f"  {one.spread:4.0%} of {what}: {when}"


def _few(looks: list[Foreseen]) -> list[Foreseen]:
    """The first, the last, and one between."""
    return [looks[index] for index in sorted({0, len(looks) // 2, len(looks) - 1})] if looks else []


def document(foreseen: Preview | RivalPreview) -> dict[str, object]:
    """For ``--json``; a half width that is not known is null."""
    from insitu.orchestrator.steering.rival_preview import RivalPreview

    if isinstance(foreseen, RivalPreview):
        return rival_previews.document(foreseen)
    return {
        "first_trials": foreseen.first,
        "batch_trials": foreseen.batch,
        "most_trials": foreseen.most,
        "looks": [
            {
                "trials": one.trials,
                "half_widths_in_spreads": [half if math.isfinite(half) else None for half in one.half_widths],
            }
            for one in foreseen.foreseen
        ],
        "needed": [{"spread": one.spread, "trials": one.trials} for one in foreseen.needed],
    }
