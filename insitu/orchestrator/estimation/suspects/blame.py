"""Which cause outside the model a slow trial is to be blamed on: by its symptoms, and by the rules below.

The rules are a table: how often each kind of cause brings each symptom. It comes from what the anomalies do by
their making, and from trials on real machines; where a run has trials with an anomaly that it set itself, they
correct it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from insitu.orchestrator.estimation.suspects.symptoms import Sign, Symptom, signs_of
from insitu.orchestrator.estimation.suspects.usual import Reading, compare
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.store.records import Assignment, StoredTrial, TrialState


class Cause(StrEnum):
    """What can slow a trial from outside its model; the values of anomalies are those of their injectors."""

    CPU = "anomaly.cpu"
    DISK = "anomaly.disk"
    NET = "anomaly.net"
    MEMORY_BANDWIDTH = "anomaly.memory_bandwidth"
    CACHE = "anomaly.cache"
    MEMORY = "anomaly.memory"
    HYPERVISOR = "hypervisor"
    """Another machine on the same host."""

    @property
    def words(self) -> str:
        """For a reader."""
        return _WORDS[self]


_WORDS = {
    Cause.CPU: "others computing",
    Cause.DISK: "others using the disk",
    Cause.NET: "others using the network",
    Cause.MEMORY_BANDWIDTH: "others using the memory's bandwidth",
    Cause.CACHE: "others using the cache",
    Cause.MEMORY: "others holding memory",
    Cause.HYPERVISOR: "the hypervisor taking processors",
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """A cause that the measurements of a trial speak for.

    Attributes
    ----------
    probability
        Among all causes and none, given the symptoms.
    signs
        What speaks for it, the strongest first.
    seconds
        Of the trial's time, what its signs account for.
    """

    cause: Cause
    probability: float
    signs: tuple[Sign, ...]
    seconds: float


_NONE = 0.03
"""How often a symptom is there by chance."""
_PRIOR_NONE = 0.4
SLOW_SHARE = 0.03
"""Share of the usual time, or of what its law expects, from which on a trial took longer at all.

What is chance, the symptoms tell.
"""
_LEAST = 0.05
"""Probability from which on a cause is named."""
_THERE, _TELLING = 0.5, 3.0
"""Strength from which on a symptom is there; how many times more often than by chance one that tells comes."""
_TRIALS_WORTH = 4.0
"""How many trials with an anomaly of the run's own weigh as much as the table."""

_W = Symptom
TABLE: Mapping[Cause, Mapping[Symptom, float]] = MappingProxyType(
    {
        Cause.CPU: {
            _W.WAITED_FOR_PROCESSOR: 0.95,
            _W.WORKED_LONGER: 0.15,
            _W.OTHERS_COMPUTED: 0.97,
            _W.MEMORY_HELD: 0.15,
        },
        Cause.DISK: {
            _W.WAITED_FOR_PROCESSOR: 0.5,
            _W.WAITED_FOR_DISK: 0.9,
            _W.WAITED_OTHERWISE: 0.2,
            _W.WORKED_LONGER: 0.3,
            _W.OTHERS_COMPUTED: 0.5,
            _W.KERNEL_WORKED: 0.7,
            _W.OTHERS_USED_DISK: 0.95,
            _W.MEMORY_HELD: 0.1,
        },
        Cause.NET: {
            _W.WAITED_FOR_PROCESSOR: 0.7,
            _W.WAITED_OTHERWISE: 0.3,
            _W.WORKED_LONGER: 0.15,
            _W.OTHERS_COMPUTED: 0.8,
            _W.KERNEL_WORKED: 0.9,
            _W.NETWORK_WORKED: 0.97,
            _W.MEMORY_HELD: 0.15,
        },
        Cause.MEMORY_BANDWIDTH: {
            _W.WAITED_FOR_PROCESSOR: 0.7,
            _W.WORKED_LONGER: 0.7,
            _W.OTHERS_COMPUTED: 0.97,
            _W.MEMORY_HELD: 0.95,
            _W.MUCH_MEMORY_HELD: 0.7,
        },
        Cause.CACHE: {
            _W.WAITED_FOR_PROCESSOR: 0.7,
            _W.WORKED_LONGER: 0.5,
            _W.OTHERS_COMPUTED: 0.97,
            _W.MEMORY_HELD: 0.9,
            _W.MUCH_MEMORY_HELD: 0.1,
        },
        Cause.MEMORY: {
            _W.WAITED_FOR_DISK: 0.4,
            _W.WAITED_FOR_MEMORY: 0.6,
            _W.WORKED_LONGER: 0.6,
            _W.OTHERS_COMPUTED: 0.2,
            _W.KERNEL_WORKED: 0.4,
            _W.OTHERS_USED_DISK: 0.2,
            _W.MEMORY_HELD: 0.97,
            _W.MUCH_MEMORY_HELD: 0.9,
        },
        Cause.HYPERVISOR: {
            _W.WAITED_FOR_PROCESSOR: 0.2,
            _W.WAITED_OTHERWISE: 0.5,
            _W.WORKED_LONGER: 0.5,
            _W.PROCESSORS_STOLEN: 0.95,
        },
    }
)
"""Cause to how often a symptom comes with it; those left out come by chance only."""


def suspects_of(
    trials: Sequence[StoredTrial],
    readings: Mapping[str, Reading],
    variables: Mapping[str, Variable],
) -> tuple[Suspect, ...]:
    """Name what may have slowed a trial from outside its model, likeliest first.

    Parameters
    ----------
    trials
        Of the run; those in which it set an anomaly itself correct the table.
    readings
        The trial's measurements beside their usual values, as by `usual.compare`.
    variables
        Of the model; they say which variables are anomalies.

    Notes
    -----
    Bayes' rule over the causes and none of them, symptoms taken to be independent given the cause, each counted as
    far as it is there (Jeffrey's rule, to first order). A trial that took no longer than usual has no suspects.
    """
    signs = signs_of(readings)
    slower = readings.get("wall_time")
    if slower is None or slower.excess < SLOW_SHARE * slower.usual:
        return ()
    table = _corrected(trials, variables)
    weights = {cause: (1 - _PRIOR_NONE) / len(Cause) * _likelihood(signs, table[cause]) for cause in Cause}
    total = sum(weights.values()) + _PRIOR_NONE * _likelihood(signs, {})
    found = [
        _suspect(cause, weight / total, signs, table[cause])
        for cause, weight in weights.items()
        if weight / total >= _LEAST
    ]
    return tuple(sorted((one for one in found if one.signs), key=lambda one: -one.probability))


Chances = Mapping[Symptom, float]
"""How often each symptom is there."""


def _likelihood(signs: Sequence[Sign], chances: Chances) -> float:
    """How well a cause agrees with what was seen and what was not."""
    total = 1.0
    for sign in signs:
        chance = chances.get(sign.symptom, _NONE)
        total *= sign.strength * chance + (1 - sign.strength) * (1 - chance)
    return total


def _suspect(cause: Cause, probability: float, signs: Sequence[Sign], chances: Chances) -> Suspect:
    """What speaks for a cause: symptoms that are there, and that it brings more often than chance does."""
    speaking = [
        sign for sign in signs if sign.strength > _THERE and chances.get(sign.symptom, _NONE) > _TELLING * _NONE
    ]
    speaking.sort(key=lambda sign: -sign.strength * math.log(chances[sign.symptom] / _NONE))
    return Suspect(cause, probability, tuple(speaking), sum(sign.seconds for sign in speaking))


def _corrected(trials: Sequence[StoredTrial], variables: Mapping[str, Variable]) -> dict[Cause, Chances]:
    """The table, with what the run's own anomalies showed counted in.

    Notes
    -----
    The mean of a beta distribution whose parameters are the table's chances, weighing as much as `_TRIALS_WORTH`
    trials, plus the strengths that were seen.
    """
    table: dict[Cause, Chances] = {cause: dict(TABLE[cause]) for cause in Cause}
    anomalies = {name: cause for name, one in variables.items() if (cause := cause_of(one)) is not None}
    if not anomalies:
        return table
    quiet = [one for one in trials if not _anomalies_of(one, anomalies)]
    seen: dict[Cause, list[Mapping[Symptom, float]]] = {}
    for one in trials:
        if one.state is TrialState.VALID and len(present := _anomalies_of(one, anomalies)) == 1:
            readings = compare(_as_if_quiet(one, anomalies), [_as_if_quiet(other, anomalies) for other in quiet])
            strengths = {sign.symptom: sign.strength for sign in signs_of(readings)}
            seen.setdefault(anomalies[present[0]], []).append(strengths)
    for cause, found in seen.items():
        table[cause] = {symptom: _chance(table[cause].get(symptom, _NONE), symptom, found) for symptom in Symptom}
    return table


def _chance(prior: float, symptom: Symptom, found: Sequence[Mapping[Symptom, float]]) -> float:
    told = [one[symptom] for one in found if symptom in one]
    chance = (_TRIALS_WORTH * prior + sum(told)) / (_TRIALS_WORTH + len(told))
    return min(max(chance, _NONE), 1 - _NONE)


def cause_of(variable: Variable) -> Cause | None:
    """The kind of anomaly that a variable sets; ``None`` where it sets none."""
    parts = (variable.source or "").split(".")
    named = ".".join(parts[:2])
    return Cause(named) if parts[0] == "anomaly" and named in {cause.value for cause in Cause} else None


def _anomalies_of(trial: StoredTrial, anomalies: Mapping[str, Cause]) -> list[str]:
    return [name for name, level in trial.planned.assignment.levels if name in anomalies and level != 0]


def _as_if_quiet(trial: StoredTrial, anomalies: Mapping[str, Cause]) -> StoredTrial:
    """The trial without its anomalies in the assignment, to be compared with trials that had none."""
    levels = tuple((name, level) for name, level in trial.planned.assignment.levels if name not in anomalies)
    return replace(trial, planned=replace(trial.planned, assignment=Assignment(levels)))
