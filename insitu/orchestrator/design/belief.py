"""What is known of laws while an experiment goes on, in the terms in which designs think."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.composite import Composite
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.law import Law, Link


@dataclass(frozen=True, slots=True)
class Belief:
    """One law's parameters, as far as trials have told them.

    Attributes
    ----------
    values
        Base units, shape (p,); `nominal` ones before any fit.
    noise
        Standard deviation of one trial, relative to the mean where the law says so; 1 before any fit.
    levels
        Achieved levels of its parents in the trials that inform it, each of shape (n,).
    known
        Information that was there before these trials, shape (p, p); ``None`` without any.
    untold
        Whether the values are nobody's finding: neither trials nor an earlier run have told them.
    """

    law: Law
    values: Array
    noise: float
    levels: Mapping[str, Array]
    known: Array | None = None
    untold: bool = False

    def rows(self, levels: Mapping[str, Array]) -> Array:
        """Derivatives by the parameters over the noise, shape (n, p): what a trial at these levels tells."""
        slopes = self.law.gradient(self.values, levels)
        if not self.law.relative_noise:
            return slopes / self.noise
        with np.errstate(all="ignore"):
            found: Array = slopes / (self.noise * np.abs(self.law.mean(self.values, levels)))[:, None]
        return found

    def information(self) -> Array:
        """Of the trials so far and of what was known before, shape (p, p)."""
        known = np.zeros((len(self.values), len(self.values))) if self.known is None else self.known
        if not any(len(level) for level in self.levels.values()):
            return known
        rows = self.rows(self.levels)
        rows = rows[np.isfinite(rows).all(axis=1)]
        return known + rows.T @ rows


def nominal(law: Law) -> Array:
    """Values of a law's parameters before any trial, by which its derivatives are taken; shape (p,), base units.

    Where the law is linear they do not matter. Elsewhere it is what the model says: where a search starts, the
    middle of bounds, else one in the unit in which the parameter is reported.
    """
    return np.array([_nominal(law, name) for name in law.parameters], dtype=np.float64)


def _nominal(law: Law, name: str) -> float:
    if name in law.starts:
        return law.starts[name]
    bounds = law.bounds.get(name)
    if bounds is not None and np.isfinite(bounds.low) and np.isfinite(bounds.high):
        return (bounds.low + bounds.high) / 2
    unit = 1.0 / law.parameter_scales[name]
    if bounds is not None and unit <= bounds.low:
        return bounds.low + unit
    if law.link is Link.LOG:
        return 0.0  # its exponential would be beyond all measure
    return unit


def stacked_rows(composite: Composite, beliefs: Mapping[str, Belief], levels: Mapping[str, Array]) -> Array:
    """What one trial at each of m places tells of all laws' parameters together, shape (m, laws, parameters).

    A measured variable stands at the mean that its law gives; each law has its own columns, in the order of
    `composite.laws`.
    """
    values = {name: belief.values for name, belief in beliefs.items()}
    known = composite.means(values, levels)
    count = max(np.size(level) for level in levels.values())
    sizes = [len(law.parameters) for law in composite.laws]
    stacked = np.zeros((count, len(sizes), sum(sizes)))
    for index, law in enumerate(composite.laws):
        begin = sum(sizes[:index])
        stacked[:, index, begin : begin + sizes[index]] = beliefs[law.variable].rows(known)
    return stacked


def stacked_information(composite: Composite, beliefs: Mapping[str, Belief]) -> Array:
    """What is known so far of all laws' parameters together: blocks along the diagonal."""
    sizes = [len(law.parameters) for law in composite.laws]
    whole = np.zeros((sum(sizes), sum(sizes)))
    for index, law in enumerate(composite.laws):
        begin, end = sum(sizes[:index]), sum(sizes[: index + 1])
        whole[begin:end, begin:end] = beliefs[law.variable].information()
    return whole
