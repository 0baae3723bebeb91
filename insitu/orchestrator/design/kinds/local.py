"""Where the best design depends on the parameters that it is to find, and what stands in for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.law import Link

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.design.situation import Situation


def told_values(situation: Situation) -> tuple[str, ...]:
    """That a design is best at some values of the parameters, and at which; empty where it is best at all.

    Notes
    -----
    A locally optimal design: Chernoff, Annals of Mathematical Statistics 24 (1953), 586-602.
    """
    return tuple(_told(situation))


def _told(situation: Situation) -> Iterator[str]:
    laws = situation.composite.laws
    given = {law.variable for law in laws}
    for law in laws:
        if why := _why(law, bool(given & set(law.parents))):
            belief = situation.beliefs[law.variable]
            whose = "where the model starts" if belief.untold else "as found earlier"
            values = ", ".join(
                f"{name} = {value * law.parameter_scales[name]:.4g} {law.parameter_units[name]}".rstrip()
                for name, value in zip(law.parameters, belief.values, strict=True)
            )
            yield f"{why}, so the design is the best one if its parameters are {whose}: {values}"


def _why(law: Law, follows: bool) -> str:
    """Why what a trial tells of a law depends on parameters; empty if it does not."""
    name = f"the law of {law.variable}"
    if not law.linear or law.link is not Link.IDENTITY:
        return f"{name} is not linear in its parameters"
    if law.relative_noise:
        return f"the noise of {law.variable} is in proportion to its mean"
    return f"{name} follows from other laws" if follows else ""
