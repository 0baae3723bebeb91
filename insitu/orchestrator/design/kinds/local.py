"""Where the best design depends on the parameters that it is to find, and what stands in for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from insitu.orchestrator.causal.law import Link

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.design.situation import Situation


def told_values(situation: Situation, what: str = "the design is the best one") -> tuple[str, ...]:
    """That a design is best at some values of the parameters, and at which; empty where it is best at all.

    Parameters
    ----------
    what
        Depends on these values.

    Notes
    -----
    A locally optimal design: Chernoff, Annals of Mathematical Statistics 24 (1953), 586-602.
    """
    return tuple(_told(situation, what))


def _told(situation: Situation, what: str) -> Iterator[str]:
    laws = {law.variable: law for law in situation.composite.laws}
    for law in laws.values():
        if why := _why(law, bool(laws.keys() & set(law.parents))):
            before = [one for one in laws.values() if one.variable in _before(law, laws)]
            values = ", ".join(value for one in (*before, law) for value in _values(situation, one))
            untold = any(situation.beliefs[one.variable].untold for one in (*before, law))
            whose = "where the model starts" if untold else "as found earlier"
            which = "parameters are" if before else "its parameters are"
            yield f"{why}, so {what} if {which} {whose}: {values}"


def _before(law: Law, laws: Mapping[str, Law]) -> set[str]:
    """Variables with laws from which a law follows."""
    found: set[str] = set()
    for name in laws.keys() & set(law.parents):
        found |= {name, *_before(laws[name], laws)}
    return found


def _values(situation: Situation, law: Law) -> Iterator[str]:
    """Parameters with their values, in the law's units."""
    for name, value in zip(law.parameters, situation.beliefs[law.variable].values, strict=True):
        yield f"{name} = {value * law.parameter_scales[name]:.4g} {law.parameter_units[name]}".rstrip()


def _why(law: Law, follows: bool) -> str:
    """Why what a trial tells of a law depends on parameters; empty if it does not."""
    name = f"the law of {law.variable}"
    if not law.linear or law.link is not Link.IDENTITY:
        return f"{name} is not linear in its parameters"
    if law.relative_noise:
        return f"the noise of {law.variable} is in proportion to its mean"
    return f"{name} follows from other laws" if follows else ""
