"""Which of two laws the trials speak for, and how strongly: evidence that stays valid however often one looks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitting.data import FitData, gather
from insitu.orchestrator.estimation.rivals.at_best import best_likelihood
from insitu.orchestrator.estimation.rivals.containment import Placed, contains, likelihood_beyond
from insitu.orchestrator.estimation.rivals.foretelling import Foreteller, finest_noise

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.plan.types import Variable
    from insitu.orchestrator.store.records import StoredTrial


class Side(StrEnum):
    """One of two laws that are compared."""

    LAW = "law"
    """The model's."""
    RIVAL = "rival"
    """The other one, which the goal names."""

    @property
    def other(self) -> Side:
        return Side.RIVAL if self is Side.LAW else Side.LAW


@dataclass(frozen=True, slots=True)
class Contender:
    """One of the laws, and what speaks against it.

    Attributes
    ----------
    fit
        To all trials.
    against
        Natural logarithm of the evidence against it: how many times likelier the other law foretold the trials
        to be than this one can make them afterwards, with the parameters that suit them best.
    against_difference
        The same against this law *where it differs from the other by as much as matters*; ``None`` unless it
        contains the other.
    """

    side: Side
    text: str
    fit: Fit
    against: float
    against_difference: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the trials say about two laws.

    Attributes
    ----------
    foretold
        Trials that both laws foretold; those before only told their parameters and are no evidence.
    log_odds
        Natural logarithm of how many times likelier the law foretold them to be than the rival did.
    confidence
        One minus the probability of choosing the wrong law.
    tolerance
        Part of the outcome below which a difference does not matter.

    Notes
    -----
    The evidence is an e-process of universal inference: L. Wasserman, A. Ramdas and S. Balakrishnan, Proceedings
    of the National Academy of Sciences 117 (2020), 16880-16890, section 8. Its numerator is any density that was
    foretold, here that of the other law's refits; its denominator is the maximum of the likelihood of this law.
    Under this law it is at most a non-negative martingale that starts at 1, at whatever levels the trials that
    came before have led to, so that by Ville's inequality it ever exceeds 1/alpha with probability alpha at most.
    A ratio of two predictions (`log_odds`) is none, since the parameters are estimated.

    A law that contains the other cannot be rejected in this way, since whenever the smaller law holds it holds,
    too. The smaller one is preferred when the larger law is rejected *where the difference matters*, and the
    odds speak for the smaller.
    """

    law: Contender
    rival: Contender
    foretold: int
    log_odds: float
    confidence: float
    tolerance: float

    @property
    def needed(self) -> float:
        """Natural logarithm of the evidence that decides."""
        return -math.log1p(-self.confidence)

    def contender(self, side: Side) -> Contender:
        return self.law if side is Side.LAW else self.rival

    def rejects(self, side: Side) -> bool:
        """Whether the other law's predictions reject this one."""
        one = self.contender(side)
        if one.against >= self.needed:
            return True
        favours_other = self.log_odds < 0 if side is Side.LAW else self.log_odds > 0
        return one.against_difference is not None and favours_other and one.against_difference >= self.needed

    @property
    def preferred(self) -> Side | None:
        """The law that is left when the other one alone is rejected."""
        rejected = [side for side in Side if self.rejects(side)]
        return rejected[0].other if len(rejected) == 1 else None

    @property
    def likelier(self) -> Side:
        """The law that foretold the trials better, decided or not."""
        return Side.LAW if self.log_odds >= 0 else Side.RIVAL

    @property
    def strongest(self) -> float:
        """Natural logarithm of the strongest evidence against either law."""
        found = [
            one.against if one.against_difference is None else one.against_difference for one in self.contenders
        ]
        return max(found)

    @property
    def contenders(self) -> tuple[Contender, Contender]:
        return self.law, self.rival


class Comparing:
    """The comparison of two laws of one variable, trial after trial."""

    def __init__(
        self, law: Law, rival: Law, variables: Mapping[str, Variable], confidence: float, tolerance: float
    ) -> None:
        self.variables = variables
        self.confidence = confidence
        self.tolerance = tolerance
        self._foretellers = (Foreteller(law, variables), Foreteller(rival, variables))
        self._begin = 0

    def verdict(
        self, trials: Sequence[StoredTrial], fits: tuple[Fit, Fit], placed: tuple[Placed, Placed]
    ) -> Verdict | None:
        """What trials say; ``None`` while they are too few to foretell any.

        Parameters
        ----------
        trials
            In the order of execution: those of the last call, and perhaps more.
        fits, placed
            Of the law and of the rival.
        """
        return self.weigh(self._common(trials), fits, placed)

    def weigh(
        self, data: tuple[FitData, FitData], fits: tuple[Fit, Fit], placed: tuple[Placed, Placed]
    ) -> Verdict | None:
        """As `verdict`, of trials that each law sees as its data."""
        begin = self._first_foretold(data[0], data[1])
        count = len(data[0].observed)
        if not 0 < begin < count:
            return None
        finest = finest_noise(data[0].observed[:begin])
        told = [
            float(one.densities(seen, begin, finest).sum())
            for one, seen in zip(self._foretellers, data, strict=True)
        ]
        later = tuple(seen.rows(np.arange(count) >= begin, ()) for seen in data)
        within = (contains(placed[0], placed[1]), contains(placed[1], placed[0]))
        contenders = []
        for index, side in enumerate(Side):
            law, seen = self._foretellers[index].law, later[index]
            other, own = placed[1 - index], placed[index]
            beyond = None
            if within[index] and not within[1 - index]:
                likely = likelihood_beyond(own, other, seen, self.variables, finest, self.tolerance)
                beyond = told[1 - index] - likely
            against = told[1 - index] - best_likelihood(law, seen, self.variables, finest)
            contenders.append(Contender(side, law.text, fits[index], against, beyond))
        return Verdict(
            contenders[0], contenders[1], count - begin, told[0] - told[1], self.confidence, self.tolerance
        )

    def _common(self, trials: Sequence[StoredTrial]) -> tuple[FitData, FitData]:
        """The trials that both laws can be fitted to."""
        found = [gather(one.law, trials, self.variables) for one in self._foretellers]
        common = set(found[0].numbers) & set(found[1].numbers)
        law, rival = (seen.rows(np.array([n in common for n in seen.numbers], dtype=bool), ()) for seen in found)
        return law, rival

    def _first_foretold(self, law: FitData, rival: FitData) -> int:
        """How many trials it takes to estimate both laws; beyond all there are, if those do not."""
        count = len(law.observed)
        if not self._begin:
            for trials in range(1, count):
                if all(
                    one.can_begin(seen, trials) for one, seen in zip(self._foretellers, (law, rival), strict=True)
                ):
                    self._begin = trials
                    break
        return self._begin
