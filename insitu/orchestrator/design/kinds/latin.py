"""The Latin hypercube as a plan's design: trials spread evenly, whatever the law is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.design.at_rest import left_alone
from insitu.orchestrator.design.kinds.space_filling import Axis, ListedAxis, RangeAxis, latin_hypercube
from insitu.orchestrator.design.layout import informing_trials, lay_out
from insitu.orchestrator.design.protocol import Planned, Request
from insitu.orchestrator.design.space import space_of
from insitu.orchestrator.store.records import Assignment

if TYPE_CHECKING:
    from insitu.orchestrator.plan.types import Factor

PER_FACTOR = 10
"""Trials for each factor, where neither the design nor a budget says how many.

Notes
-----
The rule of Loeppky, Sacks and Welch, Technometrics 51 (2009), 366-376.
"""


class LatinHypercube:
    """Each factor takes as many levels of its range as there are trials, or all listed ones equally often."""

    def plan_trials(self, request: Request, rng: np.random.Generator) -> Planned:
        """Plan the trials, of which one in seven checks the law, in one block.

        A factor that is hard to change takes the points of its range only, so that trials can share them.

        Raises
        ------
        InputError
            If there are more trials than the budget allows.
        """
        plan = request.plan
        count = informing_trials(plan, PER_FACTOR * len(plan.factors))
        levels = latin_hypercube([_axis(factor) for factor in plan.factors], count, rng)
        for column, factor in enumerate(plan.factors):
            if factor.span is not None and factor.span.whole:
                levels[:, column] = np.round(levels[:, column])
        names, free = [factor.variable for factor in plan.factors], left_alone(plan)
        chosen = [Assignment((*zip(names, row, strict=True), *free)) for row in levels.tolist()]
        trials = lay_out([chosen], space_of(plan), rng)
        checks = f"{len(trials) - count} more check the law"
        return Planned(trials, (f"{count} trials spread evenly over the levels of every factor; {checks}",))


def _axis(factor: Factor) -> Axis:
    span = factor.span
    if span is None or factor.hard_to_change:
        return ListedAxis(factor.levels)
    return RangeAxis(span.low, span.high, span.logarithmic)
