"""The reasoning of identification in plain sentences, for somebody who reads a plan's check."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from insitu.orchestrator.causal.adjustment import on_causal_paths
from insitu.orchestrator.causal.answers import (
    Answer,
    FromData,
    Method,
    NeedsIntervention,
    NotIdentifiable,
    Obstacle,
    Question,
    SharedCause,
)
from insitu.orchestrator.causal.estimand import Estimand, size, spell
from insitu.orchestrator.causal.instruments import Instrument
from insitu.orchestrator.causal.mixed_graph import MixedGraph

_MOST_NAMES = 5
_MOST_LINKS = 3
_MOST_PROBABILITIES, _MOST_CHARACTERS = 12, 160
"""Of a formula that a reader still takes in."""


def explain(graph: MixedGraph, answer: Answer) -> tuple[str, ...]:
    """Say in a few short sentences what follows from what, what stands in the way, and what is to be set.

    Parameters
    ----------
    graph
        The one that was asked about.
    """
    lines = [*_effects(graph, answer.question)]
    match answer:
        case FromData():
            lines += _told(answer)
        case NeedsIntervention():
            lines += _needed(answer)
        case NotIdentifiable():
            lines += _impossible(answer)
    return tuple(lines)


def _effects(graph: MixedGraph, question: Question) -> Iterator[str]:
    """How each cause leads to the outcomes while the other causes are held."""
    outcomes = _listed(question.outcomes)
    follows = "follows" if len(question.outcomes) == 1 else "follow"
    for cause in question.causes:
        held = {*question.causes, *question.beside} - {cause}
        left = graph.do(held).without(held)
        direct = [name for name in question.outcomes if cause in graph.parents[name]]
        between = left.ordered(on_causal_paths(left, [cause], question.outcomes).difference(question.outcomes))
        ways = ["directly"] if direct else []
        ways += [f"through {_listed(between)}"] if between else []
        if ways:
            yield f"{outcomes} {follows} from {cause} {' and '.join(ways)}."
        else:
            does_not = "does not follow" if len(question.outcomes) == 1 else "do not follow"
            others = [name for name in question.causes if name != cause]
            yield f"{outcomes} {does_not} from {cause}{f' while {_listed(others)} stays set' if others else ''}."


def _told(answer: FromData) -> Iterator[str]:
    """By which data, how, and by which formula."""
    data = _data(answer.trials)
    causes, outcomes = _listed(answer.question.causes), _listed(answer.question.outcomes)
    match answer.method:
        case Method.NO_EFFECT:
            yield f"So {causes} cannot have an effect on {outcomes}."
            return
        case Method.TRIALS:
            yield _sentence(f"{data} answer this as they are: nothing else stands behind what was set")
        case Method.BACK_DOOR if answer.adjust_for:
            equal = _listed(answer.adjust_for)
            yield _sentence(
                f"{data} answer this, compared at equal {equal}: that closes every other way (back-door)"
            )
        case Method.BACK_DOOR:
            yield _sentence(f"{data} answer this as they are: nothing else links {causes} with {outcomes}")
        case Method.FRONT_DOOR:
            steps = f"from {causes} to {_listed(answer.mediators)}, and from there to {outcomes}"
            yield _sentence(f"{data} answer this in two steps, {steps} (front-door)")
        case Method.DISTRICTS:
            yield _sentence(f"{data} answer this, by a formula that is neither back-door nor front-door")
        case Method.INSTRUMENT if answer.instrument is not None:
            how = _moved_by(answer.instrument, answer.question)
            yield _sentence(f"{data} answer this, since laws are linear: {how}")
    yield from _beside(answer.question)
    if answer.estimand is not None and answer.method is not Method.TRIALS:
        yield _formula(answer.question, answer.estimand)


def _needed(answer: NeedsIntervention) -> Iterator[str]:
    """What stands in the way, and the smallest set that removes it."""
    chosen = _listed(answer.interventions)
    names = answer.blockage.variables
    match answer.blockage.obstacle:
        case Obstacle.HIDDEN_CAUSE:
            what = "it" if len(answer.blockage.chain) == 1 else "them"
            mixed = f"{_chain(answer.blockage.chain)}, so that data alone mix the effect with {what}"
            surely = " itself always" if answer.afterwards.method is Method.TRIALS else ""
            yield f"{mixed}; setting {chosen}{surely} removes that."
        case Obstacle.CAUSE_NOT_KNOWN:
            yield f"{_listed(names)} {_is(names)} not measured: only trials that set {_it(names)} show the effect."
        case _:
            left = f"leave {_it(names)} alone"
            yield f"Every earlier trial set {_listed(names)}: only trials that {left} show the effect."
    if not chosen:
        yield "No other intervention is needed."
    elif answer.proven_smallest:
        yield f"Smallest set of interventions: {chosen}."
    else:
        yield f"Interventions that suffice, not proven to be the smallest set: {chosen}."
    if answer.afterwards.method is Method.TRIALS:
        yield from _beside(answer.question)
    else:
        yield from _told(answer.afterwards)
    yield from _if_linear(answer.instrument, answer.question)


def _impossible(answer: NotIdentifiable) -> Iterator[str]:
    """Why no intervention at hand helps, and which one would."""
    names = answer.blockage.variables
    match answer.blockage.obstacle:
        case Obstacle.OUTCOME_NOT_MEASURED:
            yield f"{_listed(names)} {_is(names)} not measured, so that no trial shows the effect."
        case Obstacle.CAUSE_NOT_KNOWN:
            yield f"{_listed(names)} can neither be measured nor set, so that no trial shows the effect."
        case _:
            yield f"{_chain(answer.blockage.chain)}, and nothing that can be set removes that."
    if answer.would_help:
        yield f"It could be answered if {_listed(answer.would_help)} could be set."
    yield from _if_linear(answer.instrument, answer.question)


def _beside(question: Question) -> Iterator[str]:
    if question.beside:
        yield f"The answer is for given levels of {_listed(question.beside)}."


def _if_linear(instrument: Instrument | None, question: Question) -> Iterator[str]:
    if instrument is not None:
        yield f"Were every law linear, data would answer this without: {_moved_by(instrument, question)}."


def _moved_by(instrument: Instrument, question: Question) -> str:
    equal = f", compared at equal {_listed(instrument.given)}" if instrument.given else ""
    causes, outcomes = _listed(question.causes), _listed(question.outcomes)
    return f"{instrument.variable} is linked to {outcomes} through {causes} alone (an instrument){equal}"


def _chain(chain: Sequence[SharedCause]) -> str:
    """What links the two ends of a chain: each of its hidden causes, if they are few."""
    if len(chain) > _MOST_LINKS:
        between = _listed([link.second for link in chain[:-1]])
        return f"{len(chain)} hidden causes link {chain[0].first} to {chain[-1].second}, by way of {between}"
    parts = []
    for link in chain:
        pair = f"{link.first} and {link.second}"
        if link.source is not None:
            parts.append(f"{pair} both follow from {link.source}, which is not measured")
        else:
            parts.append(f"{pair} share a hidden cause")
    return ", and ".join(parts)


def _data(trials: Sequence[tuple[str, ...]]) -> str:
    kinds = [f"trials that set {_listed(held)}" if held else "data without intervention" for held in trials]
    return ", together with ".join(kinds)


def _formula(question: Question, estimand: Estimand) -> str:
    asked = f"P({', '.join(question.outcomes)} | do({', '.join((*question.causes, *question.beside))}))"
    terms = size(estimand)
    text = f"{asked} = {spell(estimand, question.causes)}" if terms <= _MOST_PROBABILITIES else ""
    return text if 0 < len(text) <= _MOST_CHARACTERS else f"The formula is made of {terms} probabilities."


def _listed(names: Collection[str]) -> str:
    """``"a, b and c"``; of many only the first."""
    shown = list(names)
    if len(shown) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 1], f"{len(shown) - _MOST_NAMES + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def _is(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _it(names: Collection[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
