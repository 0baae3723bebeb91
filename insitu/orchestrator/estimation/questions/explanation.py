"""Why a trial was slow: what each variable and each law's noise adds to the difference from the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.questions.abduction import FoundTrial, abduct
from insitu.orchestrator.estimation.questions.columns import Interval, PerColumn
from insitu.orchestrator.estimation.questions.fidelity import Fidelity, judge
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.question import Question, pose
from insitu.orchestrator.estimation.questions.shapley import EXACT_UP_TO, Coalitions, Shares, shapley_values
from insitu.orchestrator.estimation.questions.simulation import draw_parameters, mean_of
from insitu.orchestrator.estimation.questions.slowness import beyond_law
from insitu.orchestrator.estimation.suspects.blame import SLOW_SHARE, Suspect, suspects_of
from insitu.orchestrator.estimation.suspects.usual import Reading, compare
from insitu.orchestrator.store.records import StoredTrial, TrialState

_SAME = 1e-9
"""Relative difference between levels that is none."""
_CELLS = 500_000
"""Coalitions times draws of the parameters that are worked out at once."""
_FEWEST_DRAWS, _MOST_DRAWS = 200, 2000
_ODD = 4.0
"""Robust z from which on a measurement stands out."""
_SHOWN_ODD = 8


class Part(StrEnum):
    """What a contribution comes from."""

    LEVEL = "level"
    """A variable that has no law here stands elsewhere than in the baseline."""
    BEYOND_LAW = "beyond_law"
    """A measured variable on the way to the outcome is not what its law says."""
    UNEXPLAINED = "unexplained"
    """The outcome itself is not what its law says."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one variable adds to the difference, base units of the outcome.

    Attributes
    ----------
    amount, low, high
        With its confidence interval, as far as the laws' parameters are not known.
    level, usual
        Where the variable stood, and where it stands in the baseline; of a law's own variable, what was measured
        and what its law says of the trial's levels.
    sampling_error
        Standard error of `amount` from the orders that were not tried; 0 where all were.
    """

    variable: str
    part: Part
    amount: float
    low: float
    high: float
    level: float
    usual: float
    unit: str
    sampling_error: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a trial's outcome differs from the baseline's.

    Attributes
    ----------
    observed, expected
        The outcome in the trial, and what the laws say of the baseline.
    difference
        The one less the other; the contributions add up to it.
    contributions
        Largest first.
    exact
        Whether all orders of the variables were tried; else `Contribution.sampling_error` says what that means.
    suspects
        Causes outside the model that what was measured speaks for, likeliest first.
    odd
        Measurements that stand out against the other trials, the oddest first.
    compared
        Whether enough other trials are like it to say what is usual; else there are neither suspects nor odd ones.
    unmeasured
        Variables on the way that were not measured in the trial: what they did beyond their laws is unexplained.
    """

    trial: int
    state: TrialState
    outcome: str
    unit: str
    confidence: float
    observed: float
    expected: float
    difference: float
    difference_low: float
    difference_high: float
    contributions: tuple[Contribution, ...]
    exact: bool
    suspects: tuple[Suspect, ...]
    odd: tuple[Reading, ...]
    compared: bool
    unmeasured: tuple[str, ...]
    baseline: dict[str, float]
    units: dict[str, str]
    words: dict[str, tuple[str, ...]]
    fidelity: Fidelity

    @property
    def unexplained(self) -> float:
        """What variables with a level do not add."""
        return sum(one.amount for one in self.contributions if one.part is not Part.LEVEL)


def explain(
    model: FittedModel,
    found: FoundTrial,
    trials: Sequence[StoredTrial],
    outcome: str,
    rng: np.random.Generator,
    *,
    against: Mapping[str, float] | None = None,
    exact_up_to: int = EXACT_UP_TO,
) -> Explanation:
    """Share out the difference between a trial and the baseline among what differs.

    Parameters
    ----------
    trials
        Of the run: what is usual for a measurement, they say.
    against
        Levels to compare with, in the place of the baseline's.
    exact_up_to
        Variables for which all orders are tried.

    Raises
    ------
    NotIdentified
        If a law that is needed could not be fitted.
    InputError
        If the baseline of a variable is not known, or a law is not defined there.

    Notes
    -----
    Shapley values of a game whose players are the variables that stand elsewhere and the noise of each law, and
    whose value is the outcome when some of them are as in the trial and the others as in the baseline, where there
    is no noise: Budhathoki et al., Causal structure-based root cause analysis of outliers (2022), with the outcome
    itself in the place of their score.
    """
    reference = pose(model, outcome, dict(against or {}), extrapolate=True)
    here = {name: found.levels.get(name, usual) for name, usual in reference.levels.items()}
    moved = tuple(name for name, usual in reference.levels.items() if _differs(here[name], usual))
    here |= found.levels
    known = tuple(one.variable for one in reference.through if one.variable in here)
    size = len(moved) + len(known)
    draws = int(np.clip(_CELLS // 2 ** min(size, exact_up_to), _FEWEST_DRAWS, _MOST_DRAWS))
    game = _Game(reference, here, moved, known, draws, rng)
    ends = game.play(np.repeat([[False], [True]], size, axis=1))
    if not np.isfinite(ends[:, 0]).all():
        raise InputError(
            f"a law of {outcome} is not defined at the baseline, or at the levels of trial {found.number}"
        )
    shares = shapley_values(game.play, size, rng, exact_up_to=exact_up_to)
    confidence = reference.through[-1].fit.confidence
    difference = _around_first(ends[1] - ends[0], confidence)
    readings = compare(found.trial, trials)
    return Explanation(
        trial=found.number,
        state=found.trial.state,
        outcome=outcome,
        unit=model.units[outcome],
        confidence=confidence,
        observed=found.levels[outcome],
        expected=float(ends[0, 0]),
        difference=difference.value,
        difference_low=difference.low,
        difference_high=difference.high,
        contributions=_contributions(model, game, shares, confidence),
        exact=shares.exact,
        suspects=_suspects(model, found, trials, outcome, readings),
        odd=_odd(readings, model.blueprint.variables[outcome].source),
        compared=bool(readings),
        unmeasured=tuple(one.variable for one in reference.through if one.variable not in known),
        baseline=reference.levels,
        units={name: model.units[name] for name in reference.everywhere},
        words=model.words,
        fidelity=judge(model, reference.through, reference.supports()),
    )


def _contributions(model: FittedModel, game: _Game, shares: Shares, confidence: float) -> tuple[Contribution, ...]:
    """Each player's share with its interval, largest first."""
    found = []
    for name, values, error in zip(game.players, shares.values, shares.errors, strict=True):
        share = _around_first(values, confidence)
        found.append(
            Contribution(
                variable=name,
                part=game.part_of(name),
                amount=share.value,
                low=share.low,
                high=share.high,
                level=game.here[name],
                usual=game.usual(name),
                unit=model.units[name],
                sampling_error=float(error),
            )
        )
    return tuple(sorted(found, key=lambda one: -abs(one.amount)))


def _suspects(
    model: FittedModel,
    found: FoundTrial,
    trials: Sequence[StoredTrial],
    outcome: str,
    readings: Mapping[str, Reading],
) -> tuple[Suspect, ...]:
    """What may have slowed the trial; nothing where its law says that it was not slow."""
    timed = model.blueprint.variables[outcome].source == "wall_time"
    if timed and beyond_law(model, outcome, found.trial, trials) < SLOW_SHARE:
        return ()
    return suspects_of(trials, readings, model.blueprint.variables)


def _odd(readings: Mapping[str, Reading], own: str | None) -> tuple[Reading, ...]:
    """What stands out, the oddest first; not the outcome itself, which is what is to be explained."""
    found = [one for one in readings.values() if abs(one.score) >= _ODD and one.name != own]
    return tuple(sorted(found, key=lambda one: -abs(one.score))[:_SHOWN_ODD])


class _Game:
    """The outcome, when some players are as in the trial and the others as in the baseline.

    Parameters
    ----------
    moved
        Variables that stand elsewhere: the first players.
    known
        Laws whose noise in the trial is known: the other players.
    draws
        Of the parameters; the first game is played with the estimates.
    """

    def __init__(
        self,
        reference: Question,
        here: Mapping[str, float],
        moved: tuple[str, ...],
        known: tuple[str, ...],
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self.here = here
        self.players = (*moved, *known)
        self._reference = reference
        self._moved = moved
        drawn = draw_parameters(reference.through, draws, rng)
        self._parameters = {
            one.variable: np.column_stack([one.fit.values, drawn.values[one.variable]])
            for one in reference.through
        }
        self._noise = abduct(reference.through, self._parameters, here)
        self._numbers = {name: len(moved) + index for index, name in enumerate(known)}

    def play(self, coalitions: Coalitions) -> Array:
        """Outcome of each coalition for each draw of the parameters, shape (coalitions, 1 + draws)."""
        levels: dict[str, Array | float] = dict(self._reference.levels)
        for index, name in enumerate(self._moved):
            usual = self._reference.levels[name]
            levels[name] = np.where(coalitions[:, index, None], self.here[name], usual)
        for one in self._reference.through:
            mean = mean_of(one, self._parameters[one.variable], levels)
            number = self._numbers.get(one.variable)
            chosen = False if number is None else coalitions[:, number, None]
            levels[one.variable] = self._noise[one.variable].on(mean, chosen)
        outcome = np.asarray(levels[self._reference.outcome])
        return np.broadcast_to(outcome, (len(coalitions), outcome.shape[-1]))

    def part_of(self, player: str) -> Part:
        """What a player stands for."""
        if player in self._moved:
            return Part.LEVEL
        return Part.UNEXPLAINED if player == self._reference.outcome else Part.BEYOND_LAW

    def usual(self, player: str) -> float:
        """A variable's level in the baseline, or what its law says of the trial's own levels."""
        if player in self._moved:
            return self._reference.levels[player]
        noise = self._noise[player]
        off = float(noise.values[0])
        return self.here[player] / off if noise.relative else self.here[player] - off


def _differs(level: float, usual: float) -> bool:
    if math.isinf(level) or math.isinf(usual):
        return level != usual
    return abs(level - usual) > _SAME * max(abs(level), abs(usual))


def _around_first(values: Array, confidence: float) -> Interval:
    """Interval of a number whose first draw is the estimate."""
    drawn = values[1:]
    return PerColumn(drawn, drawn, drawn).around(float(values[0]), confidence)
