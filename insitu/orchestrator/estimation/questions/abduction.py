"""What a trial's own noise was: the part of its measurements that levels and laws do not say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.fitting.data import achieved_levels
from insitu.orchestrator.estimation.questions.model import FittedLaw, FittedModel
from insitu.orchestrator.estimation.questions.simulation import mean_of
from insitu.orchestrator.store.records import StoredTrial, TrialRecord, TrialState


@dataclass(frozen=True, slots=True)
class FoundTrial:
    """A trial that came to its end.

    Attributes
    ----------
    levels
        Achieved levels and measured variables, base units; those that are not known are left out.
    """

    trial: StoredTrial
    record: TrialRecord
    levels: dict[str, float]

    @property
    def number(self) -> int:
        """Its number within the run."""
        return self.trial.planned.trial


def find_trial(model: FittedModel, trials: Sequence[StoredTrial], number: int, outcome: str) -> FoundTrial:
    """Look up a trial in which the outcome was measured; it need not be valid.

    Raises
    ------
    InputError
        If there is none of that number, its subject did not come to its end, or the outcome was not measured.
    """
    trial = next((one for one in trials if one.planned.trial == number), None)
    if trial is None:
        last = max((one.planned.trial for one in trials), default=0)
        those = f"trials 1 to {last}" if last > 1 else "trial 1 only" if last else "no trials yet"
        raise InputError(f"there is no trial {number}", hint=f"the run has {those}")
    record = trial.record
    if record is None or trial.state in (TrialState.FAILED, TrialState.ABORTED):
        why = f": {'; '.join(record.reasons)}" if record is not None and record.reasons else ""
        raise InputError(
            f"trial {number} is {trial.state.value}{why}", hint="ask about a trial whose subject came to its end"
        )
    levels = {
        name: level
        for name, level in achieved_levels(trial, model.blueprint.variables).items()
        if not math.isnan(level)
    }
    if not math.isfinite(levels.get(outcome, math.nan)):
        why = ": it is infinite" if outcome in levels else ""
        raise InputError(
            f"{outcome} was not measured in trial {number}{why}", hint="ask about a trial in which it was"
        )
    return FoundTrial(trial, record, levels)


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """What a law leaves of one trial, for each draw of its parameters.

    Attributes
    ----------
    relative
        Whether `values` are measured over mean, else they are measured less mean.
    values
        Shape (k,).
    """

    relative: bool
    values: Array

    @property
    def none(self) -> float:
        """What it is in a trial without noise."""
        return 1.0 if self.relative else 0.0

    def on(self, mean: Array, chosen: npt.NDArray[np.bool_] | bool = True) -> Array:
        """A mean with this noise where it is chosen, else without any."""
        noise = np.where(chosen, self.values, self.none)
        return np.asarray(mean * noise if self.relative else mean + noise)


def abduct(
    through: Sequence[FittedLaw], parameters: Mapping[str, Array], levels: Mapping[str, float]
) -> dict[str, Noise]:
    """Find the noise of a trial in each of some laws.

    Parameters
    ----------
    through
        Causes before effects.
    parameters
        By the variable that a law gives, shape (p, k).
    levels
        Of the trial. What a law gives and was not measured is taken to be as the law gives it, without noise.

    Notes
    -----
    Abduction: Pearl, *Causality* (2nd edition), theorem 7.1.7.
    """
    known: dict[str, Array | float] = dict(levels)
    found: dict[str, Noise] = {}
    for one in through:
        drawn = parameters[one.variable]
        mean = mean_of(one, drawn, known) + np.zeros(drawn.shape[1])
        relative = one.law.relative_noise
        if one.variable in levels:
            observed = levels[one.variable]
            with np.errstate(all="ignore"):
                found[one.variable] = Noise(relative, observed / mean if relative else observed - mean)
        else:
            found[one.variable] = Noise(relative, np.full_like(mean, 1.0 if relative else 0.0))
            known[one.variable] = mean
    return found
