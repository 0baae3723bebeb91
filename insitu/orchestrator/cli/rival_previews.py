"""What ``check`` says of a comparison of two laws: how many trials it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.orchestrator.steering.rival_preview import RivalPreview


def lines(foreseen: RivalPreview) -> Iterator[str]:
    """For the terminal."""
    from insitu.orchestrator.report.verdicts import NAMES
    from insitu.orchestrator.units import percent

    yield (
        f"then {foreseen.batch} after each look, until one of the laws is rejected, at most {foreseen.most} "
        "in all; one in seven checks the laws"
    )
    if not foreseen.decided:
        yield "the laws differ only in how trials spread, so how many that takes cannot be foreseen"
        return
    if foreseen.containing is None:
        difference = "the largest difference of the laws, for nominal parameters"
    else:
        containing, contained = NAMES[foreseen.containing], NAMES[foreseen.containing.other]
        yield f"{containing} contains {contained}: differences below {percent(foreseen.tolerance)} do not matter"
        difference = "the least difference that matters"
    yield f"decided about where one trial's spread is, of {difference},"
    for one in foreseen.decided:
        yield f"  {one.spread:4.0%}: {_when(one.if_law)} if the law holds, {_when(one.if_rival)} if the rival does"


def _when(trials: int | None) -> str:
    return "not foreseeably" if trials is None else f"after {trials} trials"


def document(foreseen: RivalPreview) -> dict[str, object]:
    """For ``--json``."""
    return {
        "first_trials": foreseen.first,
        "batch_trials": foreseen.batch,
        "most_trials": foreseen.most,
        "containing": None if foreseen.containing is None else foreseen.containing.value,
        "tolerance": foreseen.tolerance,
        "decided": [
            {"spread": one.spread, "trials_if_law": one.if_law, "trials_if_rival": one.if_rival}
            for one in foreseen.decided
        ],
    }
