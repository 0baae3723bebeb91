"""Laws that trials cannot tell, since a hidden cause moves both what they give and what they give it from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from insitu.orchestrator.causal.explanation import explain
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.mixed_graph import MixedGraph, mixed_graph
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.questions.model import FittedLaw, FittedModel
from insitu.orchestrator.plan.types import Role


def refuse_confounded(
    model: FittedModel, outcome: str, causes: Collection[str], through: Sequence[FittedLaw]
) -> None:
    """Refuse a question to a law whose fit mixes an effect with a hidden cause.

    What trials set is another matter: it stood as it did because they set it, and no hidden cause moved both.

    Parameters
    ----------
    causes
        What the question sets.
    through
        The laws that would answer it.

    Raises
    ------
    NotIdentified
        With what identification says of the question, whichever way it is answered.

    Notes
    -----
    A law is fitted by the association of its variable with all its parents at once. That is their effect, unless a
    chain of hidden causes leads from the variable to one of them through what is held equal or leads to it (Pearl,
    *Causality*, 2nd edition, definition 1.2.3).
    """
    blueprint = model.blueprint
    if not blueprint.confounded:
        return
    graph = mixed_graph(blueprint.variables, blueprint.edges(), blueprint.confounded)
    set_by_trials = [name for name, one in blueprint.variables.items() if one.role in (Role.PARAMETER, Role.SET)]
    left = graph.do(set_by_trials)
    for one in through:
        within = left.ancestors([*one.whole.parents, one.variable])
        mixed = graph.ordered(left.district([one.variable], within) & frozenset(one.whole.parents))
        if mixed:
            names = " and ".join(mixed)
            raise NotIdentified(
                f"{names} and {one.variable} have a cause in common that is not in the model, so the fitted law "
                f"of {one.variable} does not tell what {names} does to it",
                hint=_what_would_tell(model, graph, outcome, causes or set_by_trials, set_by_trials),
            )


def _what_would_tell(
    model: FittedModel, graph: MixedGraph, outcome: str, causes: Collection[str], set_by_trials: Sequence[str]
) -> str:
    """What the graph alone says of the question; and a law that would answer it, where trials do."""
    variables = model.blueprint.variables
    asked = [name for name in causes if name != outcome and name in graph.ancestors([outcome])]
    answer = identify(
        graph,
        asked,
        [outcome],
        measured=[name for name, one in variables.items() if one.role is Role.MEASURED],
        settable=set_by_trials,
        set_before=set_by_trials,
    )
    told = " ".join(explain(graph, answer))
    return f"{told} To have it answered, give {outcome} a law in what the trials set."
