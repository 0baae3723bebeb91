"""When an experiment that chooses its trials ends, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from insitu.orchestrator.units import percent, percent_beside

_PATIENCE = 3
"""Batches without a valid trial after which an experiment has stalled."""
_PATIENCE_WITH_OTHERS = 9
"""The same, where others disturbed the trials: that says nothing against their levels, and may pass."""
_WINDOW = 5
"""Looks over which an interval has to become narrower, and by how much more trials should have narrowed it."""
_HOPED = 0.3
_PROGRESS = 0.25
"""Share of that narrowing below which there is no progress."""
_BY_CHANCE = 3.0
"""Standard deviations by which the estimate of the noise may have grown by chance: from few trials it is vague."""
_MISFIT_ALPHA = 0.01
"""Probability that a right law is rejected at any of its looks."""


class Stop(StrEnum):
    """Why a sequential experiment ends."""

    REACHED = "reached"
    """Every number that the goal asks for is known as precisely as it asks."""
    BUDGET = "budget"
    """The budget was used up before that."""
    STALLED = "stalled"
    """Trials come out badly, or further ones do not narrow the intervals."""
    MODEL_REJECTED = "model_rejected"
    """The law misses by more than replicates differ, and by more than the precision asked for."""
    UNIDENTIFIABLE = "unidentifiable"
    """No trial that the plan allows could answer the goal."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """What a test of lack of fit says at one look.

    Attributes
    ----------
    relative_size
        Typical deviation of the law from the mean of replicates, relative to the outcome's mean.
    sentence
        Which term is missing, as far as that can be told.
    """

    p_value: float
    relative_size: float
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of an experiment after a batch.

    Attributes
    ----------
    trials
        Valid ones so far.
    half_width
        The worst relative half width of what the goal asks for; infinite while nothing is fitted.
    df
        Degrees of freedom that the noise is estimated with.
    earlier_share
        Part of what is known that an earlier run told: further trials narrow an interval the less for it.
    """

    trials: int
    half_width: float
    misfit: Misfit | None = None
    df: float = math.inf
    disturbed: bool = False
    """Whether others disturbed every trial of the batch."""
    earlier_share: float = 0.0

    @property
    def earlier_trials(self) -> float:
        """Of these, as many as an earlier run is worth."""
        return self.trials * self.earlier_share / max(1 - self.earlier_share, 1e-9)


@dataclass(frozen=True, slots=True)
class Ruling:
    """That an experiment ends here: why, and what the user can do next."""

    stop: Stop
    text: str
    next_step: str


def judge(looks: Sequence[Look], asked: float | None, tolerated: float) -> Ruling | None:
    """Whether an experiment ends after its latest look; budgets are the caller's.

    Parameters
    ----------
    looks
        All so far, in order.
    asked
        The relative half width of the goal; ``None`` if it asks for none.
    tolerated
        A misfit of the law that is smaller than this part of the outcome does not reject it.
    """
    if not looks:
        return None
    now = looks[-1]
    if (rejected := _rejection(now, len(looks), tolerated)) is not None:
        return rejected
    if asked is not None and now.half_width <= asked:
        return Ruling(
            Stop.REACHED,
            f"known to ± {percent_beside(now.half_width, asked)} after {now.trials} valid trials; "
            f"the goal asks for ± {percent(asked)}",
            "ask further with `insitu whatif`, or see the report",
        )
    return _stall(looks, asked)


def is_misfit(misfit: Misfit | None, looks: int, tolerated: float) -> bool:
    """Whether a law's misfit matters; the probability of a false alarm is spent over all looks."""
    allowed = _MISFIT_ALPHA / (looks * (looks + 1))  # sums to the whole over endlessly many looks
    return misfit is not None and misfit.p_value < allowed and misfit.relative_size > tolerated


def _rejection(now: Look, looks: int, tolerated: float) -> Ruling | None:
    misfit = now.misfit
    if misfit is None or not is_misfit(misfit, looks, tolerated):
        return None
    text = (
        f"the law misses the means of replicates by {percent(misfit.relative_size)} of the outcome, "
        f"which chance does not explain (p = {misfit.p_value:.2g})"
    )
    return Ruling(
        Stop.MODEL_REJECTED, text, misfit.sentence or "add what is missing to the law, and run the plan again"
    )


def _stall(looks: Sequence[Look], asked: float | None) -> Ruling | None:
    now = looks[-1]
    patience = _PATIENCE_WITH_OTHERS if all(one.disturbed for one in looks[-_PATIENCE:]) else _PATIENCE
    if len(looks) > patience and now.trials == looks[-1 - patience].trials:
        return Ruling(
            Stop.STALLED,
            f"no trial of the last {patience} batches could be fitted",
            "see the reasons in the report: a quieter machine, or other levels, may help",
        )
    if asked is None or len(looks) <= _WINDOW or not math.isfinite(looks[-1 - _WINDOW].half_width):
        return None
    then = looks[-1 - _WINDOW]
    earlier = now.earlier_trials
    hoped = 1 - math.sqrt((then.trials + earlier) / (now.trials + earlier))
    chance = _BY_CHANCE * math.sqrt(max(0.0, 1 / then.df - 1 / now.df) / 2)
    if hoped > _HOPED and 1 - now.half_width / then.half_width * math.exp(-chance) < _PROGRESS * hoped:
        return Ruling(
            Stop.STALLED,
            f"{now.trials - then.trials} further valid trials did not narrow the interval "
            f"(± {percent(then.half_width)}, now ± {percent(now.half_width)})",
            "trials differ more than the first ones did: look for drift or disturbance in the report",
        )
    return None
