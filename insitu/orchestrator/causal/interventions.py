"""The smallest set of variables that trials must set, so that an effect can be told from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.orchestrator.causal.district_factors import hull
from insitu.orchestrator.causal.observation import Observation, Piece

MOST_SETS_TRIED = 2**10
"""Where the search for the smallest set gives up being exact; never with up to 10 variables to choose from."""


@dataclass(frozen=True, slots=True)
class Interventions:
    """Variables to set.

    Attributes
    ----------
    proven_smallest
        Whether every smaller set was ruled out. If not, none of `variables` can be left out all the same.
    """

    variables: frozenset[str]
    proven_smallest: bool


def smallest_interventions(
    observation: Observation,
    pieces: Sequence[Piece],
    causes: frozenset[str],
    settable: Sequence[str],
    held: frozenset[str] = frozenset(),
) -> Interventions | None:
    """Find the fewest variables to set that let trials show every piece; ``None`` if all together do not.

    Parameters
    ----------
    causes
        Setting them all always suffices, and is preferred among sets of the same size.
    settable
        The order in which the rest is preferred.
    held
        What every trial sets anyway.

    Notes
    -----
    Exact by branching on hedges: of each that is left, some variable must be set. The smallest set is NP-hard to
    find: S. Akbari, J. Etesami, N. Kiyavash, Minimum cost intervention design for causal effect identification,
    ICML 2022. So at most `MOST_SETS_TRIED` sets are tried, in sizes rising; then a set is made by leaving out of
    all variables one after the other, as long as the rest suffices.
    """
    able = frozenset(settable)
    preferred = [
        *(name for name in settable if name in causes),
        *(name for name in settable if name not in causes),
    ]
    search = _Search(observation, pieces, preferred, held)
    sure = causes if causes <= able else able
    if not search.suffices(sure):
        return None
    for size in range(search.least_beside(frozenset(), len(sure)), len(sure)):
        found = search.of_size(size)
        if found is not None:
            return Interventions(found, proven_smallest=True)
        if search.given_up:
            return Interventions(min(search.reduced(sure), search.reduced(able), key=len), proven_smallest=False)
    return Interventions(sure, proven_smallest=True)


class _Search:
    """The search for one question."""

    def __init__(
        self, observation: Observation, pieces: Sequence[Piece], preferred: Sequence[str], held: frozenset[str]
    ) -> None:
        self.observation = observation
        self.pieces = pieces
        self.preferred = preferred
        self.held = held
        self.missing: dict[frozenset[str], frozenset[str]] = {}

    @property
    def given_up(self) -> bool:
        return len(self.missing) >= MOST_SETS_TRIED

    def suffices(self, chosen: frozenset[str]) -> bool:
        """Whether setting `chosen` shows every piece."""
        return all(
            piece.must_set <= (trial := piece.settable_part(self.held | chosen))
            and piece.hull(self.observation, trial) == piece.district
            for piece in self.pieces
        )

    def of_size(self, size: int) -> frozenset[str] | None:
        """A set of at most this size that suffices; ``None`` if there is none, or if the search gives up."""
        failed: set[frozenset[str]] = set()

        def grown(chosen: frozenset[str]) -> frozenset[str] | None:
            missing = self._missing(chosen)
            if not missing:
                return chosen
            if self.least_beside(chosen, size - len(chosen)) <= size - len(chosen):
                for name in self.preferred:
                    if name in missing and not self.given_up and chosen | {name} not in failed:
                        found = grown(chosen | {name})
                        if found is not None:
                            return found
            failed.add(chosen)
            return None

        return grown(frozenset())

    def least_beside(self, chosen: frozenset[str], enough: int) -> int:
        """How many more variables are needed at least; counted up to one more than `enough`.

        From hedges without a settable variable in common: each of them needs one of its own.
        """
        hit = chosen
        count = 0
        while count <= enough and not self.given_up and (missing := self._missing(hit)):
            hit |= missing
            count += 1
        return count

    def reduced(self, sufficient: frozenset[str]) -> frozenset[str]:
        """A sufficient set, less one after the other as long as the rest suffices; the least preferred first."""
        kept = sufficient
        for name in reversed(self.preferred):
            if name in kept and self.suffices(kept - {name}):
                kept -= {name}
        return kept

    def _missing(self, chosen: frozenset[str]) -> frozenset[str]:
        """Settable variables of which one must be set beside `chosen`; empty only if it suffices, since all do."""
        if chosen not in self.missing:
            self.missing[chosen] = self._find_missing(chosen) & frozenset(self.preferred)
        return self.missing[chosen]

    def _find_missing(self, chosen: frozenset[str]) -> frozenset[str]:
        for piece in self.pieces:
            trial = piece.settable_part(self.held | chosen)
            if lacking := piece.must_set - trial:
                return frozenset([min(lacking)])
            if hedge := piece.hull(self.observation, trial) - piece.district:
                hedge = self._shrunk(piece, trial, hedge)
                return hedge | piece.hidden_behind(self.observation, hedge) - trial
        return frozenset()

    def _shrunk(self, piece: Piece, trial: frozenset[str], hedge: frozenset[str]) -> frozenset[str]:
        """A part of a hedge that is a hedge and of which no vertex can be spared: there is less to choose from.

        Tried are first large parts of it, then small ones, so that a small hedge is found in few trials.
        """
        graph = self.observation.over(trial)
        width = len(hedge)
        while width := width // 2:
            order = graph.ordered(hedge)
            for start in range(0, len(order), width):
                spared = hedge.difference(order[start : start + width])
                smaller = hull(graph, piece.district, spared | piece.district) - piece.district
                hedge = smaller or hedge
        return hedge
