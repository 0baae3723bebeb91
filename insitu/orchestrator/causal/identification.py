"""Whether an effect can be told from data, from which, and what must be set if it cannot."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from insitu.orchestrator.causal.adjustment import adjustment_set
from insitu.orchestrator.causal.answers import (
    Answer,
    Blockage,
    FromData,
    Method,
    NeedsIntervention,
    NotIdentifiable,
    Obstacle,
    Question,
    SharedCause,
)
from insitu.orchestrator.causal.district_factors import factor
from insitu.orchestrator.causal.estimand import Estimand, Probability, joined, product, size, summed
from insitu.orchestrator.causal.front_door import front_door_set
from insitu.orchestrator.causal.instruments import Instrument, find_instrument
from insitu.orchestrator.causal.interventions import smallest_interventions
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.causal.observation import Observation, Piece, pieces_of
from insitu.orchestrator.causal.projection import common_source
from insitu.orchestrator.errors import InputError

_WORTH_TIDYING = 200
"""Probabilities in an estimand that somebody may read."""
_Held = frozenset[str]
"""What a kind of trial sets; nothing, for data without intervention."""


def identify(
    graph: MixedGraph,
    causes: Collection[str],
    outcomes: Collection[str],
    *,
    measured: Collection[str],
    settable: Collection[str] = (),
    set_before: Collection[str] = (),
    other_trials: Collection[Collection[str]] = (),
    linear: bool = False,
) -> Answer:
    """Decide how the distribution of the outcomes under do(causes) can be told.

    Tried in this order: whether there is an effect at all, trials that set the causes, back-door, front-door, the
    complete algorithm, an instrument if laws are linear. If none of them tells the effect, the smallest set of
    variables that trials must set so that it is told.

    Parameters
    ----------
    measured
        Variables with data in every trial. What a trial sets is known in that trial, too.
    settable
        Variables that new trials can set.
    set_before
        What the earlier trials set, all of it in each, at levels that vary; empty for data without intervention,
        which are taken to exist then. What every trial set and no cause acts on stays set: the question is asked
        for given levels of it.
    other_trials
        What further kinds of earlier trials set, one entry for each kind.
    linear
        Whether every law is linear in its variables, so that an instrument may tell the effect.

    Raises
    ------
    InputError
        If a name is unknown, a variable is both cause and outcome, or there is no cause or no outcome.

    Notes
    -----
    Everything takes time polynomial in the graph, except the proof that a set of interventions is the smallest:
    `insitu.orchestrator.causal.interventions.MOST_SETS_TRIED` bounds it. Distributions are taken to be positive:
    every combination of levels that the formula conditions on occurs. "No" means that two models with this graph
    agree on all such trials and not on the effect; what laws say beyond the graph is used only for instruments.
    """
    trials = [frozenset(held) for held in (set_before, *other_trials)]
    graph.check([*causes, *outcomes, *measured, *settable, *frozenset().union(*trials)])
    if not causes or not outcomes:
        raise InputError("an effect has a cause and an outcome", hint="name at least one of each")
    if both := [name for name in causes if name in outcomes]:
        raise InputError(
            f"'{both[0]}' is both cause and outcome", hint="ask for the effect of one variable on another"
        )
    return _Identification(graph, causes, outcomes, measured, list(dict.fromkeys(trials)), linear).answer(settable)


class _Identification:
    """One question about one graph.

    `causes` are those that act on an outcome while the others are held, `fixed` is all that the question holds,
    and `upstream` the outcomes and what acts on them then.
    """

    def __init__(
        self,
        graph: MixedGraph,
        causes: Collection[str],
        outcomes: Collection[str],
        measured: Collection[str],
        trials: Sequence[_Held],
        linear: bool,
    ) -> None:
        always = frozenset.intersection(*trials)
        self.beside = always - graph.descendants(causes) - frozenset(outcomes)
        self.graph = graph
        self.question = Question(tuple(causes), tuple(outcomes), graph.ordered(self.beside))
        self.outcomes = graph.ordered(outcomes)
        self.observation = Observation(graph, measured)
        self.trials = trials
        self.linear = linear
        self.causes = frozenset(causes) & graph.do(self.beside.union(causes)).ancestors(outcomes)
        self.fixed = self.causes | self.beside
        self.upstream = graph.do(self.fixed).ancestors(outcomes) - self.fixed
        self.pieces = pieces_of(self.observation, self.fixed, self.outcomes)

    def answer(self, settable: Collection[str]) -> Answer:
        unmeasured = self.graph.ordered(frozenset(self.outcomes) - self.observation.measured)
        if unmeasured:
            return NotIdentifiable(self.question, Blockage(Obstacle.OUTCOME_NOT_MEASURED, unmeasured))
        told = self._told_by(self.trials)
        if told is not None:
            return told
        by_instrument = self._by_instrument()
        if self.linear and by_instrument is not None:
            return by_instrument
        return self._by_interventions(settable, by_instrument.instrument if by_instrument else None)

    def _told_by(self, trials: Sequence[_Held]) -> FromData | None:
        """What data of these kinds of trials tell; the simplest way first."""
        direct = [held for held in trials if self._answers_directly(held)]
        if not self.causes:
            return self._without_effect(direct)
        for method in (self._by_trials, self._by_back_door, self._by_front_door):
            for held in direct:
                told = method(held)
                if told is not None:
                    return told
        return self._by_districts(trials)

    def _answers_directly(self, held: _Held) -> bool:
        """Whether nothing that these trials set changes the question, and its causes are known in them."""
        harmless = (held - self.fixed).isdisjoint(self.upstream)
        return harmless and self.causes <= self.observation.measured | held

    def _without_effect(self, direct: Sequence[_Held]) -> FromData:
        told = tuple(self.graph.ordered(held) for held in direct[:1])
        estimand = Probability(self.outcomes, held=told[0]) if told else None
        return FromData(self.question, Method.NO_EFFECT, told, estimand)

    def _by_trials(self, held: _Held) -> FromData | None:
        if not self.causes <= held:
            return None
        shown = self.graph.ordered(held)
        return FromData(self.question, Method.TRIALS, (shown,), Probability(self.outcomes, held=shown))

    def _by_back_door(self, held: _Held) -> FromData | None:
        left_alone = self.observation.left_alone(held)
        causes, shown = self.graph.ordered(self.causes - held), self.graph.ordered(held)
        found = adjustment_set(left_alone, causes, self.outcomes)
        if found is None:
            return None
        equal = self.graph.ordered(found)
        factors = [Probability(self.outcomes, causes + equal, shown)]
        factors += [Probability(equal, (), shown)] if equal else []
        estimand = summed(equal, product(factors))
        return FromData(self.question, Method.BACK_DOOR, (shown,), estimand, adjust_for=equal)

    def _by_front_door(self, held: _Held) -> FromData | None:
        left_alone = self.observation.left_alone(held)
        causes, shown = self.graph.ordered(self.causes - held), self.graph.ordered(held)
        found = front_door_set(left_alone, causes, self.outcomes)
        if found is None:
            return None
        mediators = self.graph.ordered(found)
        outcome = Probability(self.outcomes, causes + mediators, shown)
        averaged = summed(causes, product([outcome, Probability(causes, (), shown)]))
        estimand = summed(mediators, product([Probability(mediators, causes, shown), averaged]))
        return FromData(self.question, Method.FRONT_DOOR, (shown,), estimand, mediators=mediators)

    def _by_districts(self, trials: Sequence[_Held]) -> FromData | None:
        factors: list[Estimand] = []
        used: dict[tuple[str, ...], None] = {}
        for piece in self.pieces:
            held = next((one for one in trials if piece.shown_by(self.observation, one)), None)
            if held is None:
                return None
            shown = self.graph.ordered(held)
            derived = factor(self.observation.left_alone(held), piece.district, shown)
            if derived is None:
                return None
            factors.append(derived)
            used[shown] = None
        over = frozenset().union(*(piece.district for piece in self.pieces)).difference(self.outcomes)
        estimand = summed(self.graph.ordered(over), product(factors))
        if size(estimand) <= _WORTH_TIDYING:
            estimand = joined(estimand)
        return FromData(self.question, Method.DISTRICTS, tuple(used), estimand)

    def _by_instrument(self) -> FromData | None:
        for held in self.trials:
            causes = self.graph.ordered(self.causes - held)
            if self._answers_directly(held) and len(causes) == len(self.outcomes) == 1:
                found = find_instrument(self.observation.left_alone(held), causes[0], self.outcomes[0])
                if found is not None:
                    shown = self.graph.ordered(held)
                    return FromData(self.question, Method.INSTRUMENT, (shown,), instrument=found)
        return None

    def _by_interventions(self, settable: Collection[str], instrument: Instrument | None) -> Answer:
        unknown = [
            one for one in self.pieces if not any(one.shown_by(self.observation, held) for held in self.trials)
        ]
        able = self.graph.ordered(settable)
        found = smallest_interventions(self.observation, unknown, self.causes, able, self.beside)
        if found is None:
            most = self.beside.union(able)
            left = next(one for one in unknown if not one.shown_by(self.observation, one.settable_part(most)))
            blockage = self._blockage(left, [left.settable_part(most)])
            would_help = self.graph.ordered(self.causes.difference(able))
            return NotIdentifiable(self.question, blockage, would_help, instrument)
        held = self.beside | found.variables
        new_trials = dict.fromkeys([held, *(piece.settable_part(held) for piece in unknown)])
        afterwards = self._told_by([*new_trials, *self.trials])
        assert afterwards is not None  # each piece is shown by one of the new trials
        return NeedsIntervention(
            self.question,
            self.graph.ordered(found.variables),
            found.proven_smallest,
            self._blockage(unknown[0], self.trials),
            afterwards,
            instrument,
        )

    def _blockage(self, piece: Piece, trials: Sequence[_Held]) -> Blockage:
        """Why these trials do not show the piece: the reason that comes nearest to showing it."""
        untouched = [held for held in trials if held.isdisjoint(piece.district | piece.must_not_set)]
        if not untouched:
            touched = trials[0] & (piece.district | piece.must_not_set)
            return Blockage(Obstacle.NEVER_LEFT_ALONE, self.graph.ordered(touched))
        knowing = [held for held in untouched if piece.must_set <= held]
        if not knowing:
            return Blockage(Obstacle.CAUSE_NOT_KNOWN, self.graph.ordered(piece.must_set - untouched[0]))
        held = min(knowing, key=lambda one: len(piece.hull(self.observation, one)))
        return Blockage(Obstacle.HIDDEN_CAUSE, chain=self._chain(piece, held))

    def _chain(self, piece: Piece, held: _Held) -> tuple[SharedCause, ...]:
        """A shortest chain of hidden causes from a cause, or else anything outside, to the piece."""
        graph = self.observation.left_alone(held)
        hedge = piece.hull(self.observation, held)
        ends = (hedge & self.causes) or (hedge - piece.district)
        came_from: dict[str, str] = {}
        waiting = list(graph.ordered(piece.district))
        for one in waiting:  # grows while it is walked
            if one in ends:
                break
            for other in graph.ordered((graph.siblings[one] & hedge) - piece.district - came_from.keys()):
                came_from[other] = one
                waiting.append(other)
        hidden = frozenset(self.graph.vertices) - self.observation.measured - held
        chain = []
        while one in came_from:
            following = came_from[one]
            chain.append(SharedCause(one, following, common_source(self.graph, hidden, one, following)))
            one = following
        return tuple(chain)
