"""Whether a trial was slower than its laws expect of the levels that it was asked to have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.fitting.data import achieved_levels
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.question import pose
from insitu.orchestrator.plan.types import Role
from insitu.orchestrator.store.records import StoredTrial, TrialState

_FEWEST = 4
"""Other trials of which the median excess tells what the laws miss in any trial."""


def beyond_law(model: FittedModel, outcome: str, trial: StoredTrial, trials: Sequence[StoredTrial]) -> float:
    """By which share of what is expected a trial's outcome is above it; not a number where that is not known.

    Parameters
    ----------
    trials
        Of the run. The median of what the laws leave of its other valid trials is taken off: where many of them
        were disturbed, the law lies above those that were not.

    Notes
    -----
    Caps stand where they were asked to be, not where they were achieved: who takes a processor's time from a trial
    lowers what it achieves, too, and the law would excuse the trial by that.
    """
    above = _above_law(model, outcome, trial)
    others = [
        _above_law(model, outcome, one)
        for one in trials
        if one.state is TrialState.VALID and one.planned.trial != trial.planned.trial
    ]
    known = [one for one in others if math.isfinite(one)]
    return above - float(np.median(known)) if len(known) >= _FEWEST else above


def _above_law(model: FittedModel, outcome: str, trial: StoredTrial) -> float:
    variables, laws = model.blueprint.variables, model.blueprint.laws
    causes = model.blueprint.ancestors(outcome)
    here = achieved_levels(trial, variables)
    asked = {name: level for name, level in trial.planned.assignment.levels if name in causes}
    seen = {
        name: here[name]
        for name in causes - set(asked)
        if variables[name].role is Role.MEASURED and name not in laws and math.isfinite(here.get(name, math.nan))
    }
    try:
        expected = pose(model, outcome, asked, found=seen, extrapolate=True).usual[outcome]
    except (InputError, NotIdentified):
        return math.nan
    return here.get(outcome, math.nan) / expected - 1 if expected > 0 else math.nan
