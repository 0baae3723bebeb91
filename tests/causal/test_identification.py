"""Which answer, from which trials, and what must be set; numbers are in tests/statistics/test_do_engine.py."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal import interventions
from insitu.orchestrator.causal.answers import (
    Answer,
    FromData,
    Method,
    NeedsIntervention,
    NotIdentifiable,
    Obstacle,
    SharedCause,
)
from insitu.orchestrator.causal.estimand import spell
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.instruments import Instrument
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from insitu.orchestrator.errors import InputError
from tests.causal.graphs import drawn, mixed_graphs, subsets


def ask(
    text: str,
    settable: str = "",
    set_before: str = "",
    *,
    causes: str = "x",
    outcomes: str = "y",
    hidden: str = "",
    other_trials: tuple[str, ...] = (),
    linear: bool = False,
) -> Answer:
    graph = drawn(text)
    return identify(
        graph,
        causes,
        outcomes,
        measured=set(graph.vertices) - set(hidden),
        settable=settable,
        set_before=set_before,
        other_trials=other_trials,
        linear=linear,
    )


def told(answer: Answer) -> str:
    assert isinstance(answer, FromData)
    assert answer.estimand is not None
    return spell(answer.estimand)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("x -> m -> y", "P(y | x)"),
        ("x <- z -> y, x -> y", "sum_z P(y | x, z) P(z)"),
        ("x -> m -> y, x <-> y", "sum_m P(m | x) sum_x' P(y | x', m) P(x')"),
        ("y -> x", "P(y)"),
        (
            "w -> r -> x -> y, w <-> x, w <-> y",
            "[sum_w P(x, y | w, r) P(w)] / [sum_w P(w) P(x | w, r)]",
        ),
        ("x -> a -> b -> y, x <-> b, a <-> y", "sum_{a, b} P(a | x) P(y | x, a, b) sum_x' P(x') P(b | x', a)"),
    ],
)
def test_formulas(text: str, formula: str) -> None:
    found = told(ask(text))
    assert found == formula


def test_causes_that_were_set_need_nothing_else() -> None:
    answer = ask("z -> x -> y, x <-> y", set_before="x")
    assert isinstance(answer, FromData)
    assert answer.method is Method.TRIALS
    assert answer.trials == (("x",),)
    assert told(answer) == "P(y | do(x))"


def test_what_every_trial_set_is_given() -> None:
    """A parameter of the subject, say: the answer is for levels of it, and its hidden causes are gone."""
    answer = ask("s -> x -> y, s -> y, s <-> y", set_before="s")
    assert answer.question.beside == ("s",)
    assert told(answer) == "P(y | do(s), x)"
    assert isinstance(ask("s -> x -> y, s -> y, s <-> x, s <-> y"), NotIdentifiable)


def test_a_mediator_that_every_trial_set_hides_the_effect() -> None:
    answer = ask("x -> m -> y", settable="mx", set_before="m")
    assert isinstance(answer, NeedsIntervention)
    assert answer.question.beside == ()
    assert answer.blockage.obstacle is Obstacle.NEVER_LEFT_ALONE
    assert answer.blockage.variables == ("m",)
    assert answer.interventions == ()
    assert answer.afterwards.trials == ((),)
    assert isinstance(ask("x -> m -> y", set_before="m", other_trials=("",)), FromData)


def test_trials_of_two_kinds_together() -> None:
    """How the outcome follows, from trials that set m; how m is spread, from data without intervention."""
    text = "m -> y, x -> v -> y, y <-> x, x <-> m, m <-> v"
    assert isinstance(ask(text, causes="xv"), NotIdentifiable)
    answer = ask(text, causes="xv", other_trials=("m",))
    assert isinstance(answer, FromData)
    assert answer.method is Method.DISTRICTS
    assert set(answer.trials) == {(), ("m",)}
    assert answer.question.beside == ()
    given_m = ask(text, causes="xv", set_before="m")
    assert isinstance(given_m, FromData)
    assert given_m.question.beside == ("m",)
    wanted = ask(text, settable="m", causes="xv")
    assert isinstance(wanted, NeedsIntervention)
    assert wanted.interventions == ("m",)
    assert set(wanted.afterwards.trials) == {(), ("m",)}


def test_the_cause_itself_is_set_where_that_is_possible() -> None:
    answer = ask("x -> y, x <-> y, z -> x", settable="zx")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("x",)
    assert answer.proven_smallest
    assert answer.afterwards.method is Method.TRIALS
    assert answer.blockage.chain == (SharedCause("x", "y"),)
    assert answer.instrument is not None
    assert answer.instrument.variable == "z"


def test_another_variable_is_set_where_the_cause_cannot_be() -> None:
    answer = ask("w -> x -> y, w <-> x, w <-> y", settable="wy")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("w",)
    assert answer.blockage.chain == (SharedCause("x", "w"), SharedCause("w", "y"))
    assert answer.afterwards.method is Method.BACK_DOOR
    assert answer.afterwards.trials == (("w",),)


def test_one_variable_between_may_do_for_two_causes() -> None:
    """Of sets of the same size the causes are preferred; of smaller ones, the smaller."""
    text = "u -> y, v -> y, u <-> z, v <-> z, z -> u, z -> v, z <-> y"
    answer = ask(text, settable="uvz", causes="uv")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("z",)
    answer = ask("u -> y, v -> y, u <-> y, v <-> y", settable="uv", causes="uv")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("u", "v")


def test_a_cause_that_no_data_have_must_be_set() -> None:
    answer = ask("x -> y", settable="x", hidden="x")
    assert isinstance(answer, NeedsIntervention)
    assert answer.blockage.obstacle is Obstacle.CAUSE_NOT_KNOWN
    assert answer.interventions == ("x",)
    answer = ask("x -> y", hidden="x")
    assert isinstance(answer, NotIdentifiable)
    assert answer.blockage.obstacle is Obstacle.CAUSE_NOT_KNOWN
    assert answer.would_help == ("x",)


def test_nothing_helps() -> None:
    answer = ask("z -> x -> y, x <-> y", settable="z")
    assert isinstance(answer, NotIdentifiable)
    assert answer.blockage.chain == (SharedCause("x", "y"),)
    assert answer.would_help == ("x",)
    assert answer.instrument is not None


def test_only_the_causes_that_cannot_be_set_would_help() -> None:
    answer = ask("u -> y, v -> y, u <-> y, v <-> y", settable="u", causes="uv")
    assert isinstance(answer, NotIdentifiable)
    assert answer.would_help == ("v",)
    assert answer.blockage.chain == (SharedCause("v", "y"),)


def test_the_hidden_cause_has_a_name_if_the_model_has_it() -> None:
    answer = ask("h -> x -> y, h -> y", hidden="h")
    assert isinstance(answer, NotIdentifiable)
    assert answer.blockage.chain == (SharedCause("x", "y", "h"),)


def test_a_hidden_cause_that_can_be_set() -> None:
    """Not measured, but a trial that sets it knows it, and its variation no longer mixes with the effect."""
    answer = ask("h -> x -> y, h -> w, w <-> y, w -> x", settable="h", hidden="h")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("h",)
    assert told(answer.afterwards) == "sum_w P(y | do(h), x, w) P(w | do(h))"
    assert isinstance(ask("h -> x -> y, h -> y", settable="h", hidden="h"), NotIdentifiable)
    several = ask(
        "h -> x -> y, h -> v -> y, h -> w, w <-> y, w -> x, w -> v", settable="hxv", hidden="h", causes="xv"
    )
    assert isinstance(several, NeedsIntervention)
    assert several.interventions == ("h",)


def test_an_instrument_answers_only_where_laws_are_linear() -> None:
    answer = ask("z -> x -> y, x <-> y", linear=True)
    assert isinstance(answer, FromData)
    assert answer.method is Method.INSTRUMENT
    assert answer.estimand is None
    given_s = ask("s -> z -> x -> y, x <-> y, s -> y", set_before="s", linear=True)
    assert isinstance(given_s, FromData)
    assert given_s.instrument == Instrument("z", ())
    assert given_s.question.beside == ("s",)


def test_an_outcome_without_data() -> None:
    answer = ask("x -> y", settable="x", hidden="y")
    assert isinstance(answer, NotIdentifiable)
    assert answer.blockage.obstacle is Obstacle.OUTCOME_NOT_MEASURED


def test_no_effect_needs_no_data_of_the_cause() -> None:
    answer = ask("y -> x, x <-> y", hidden="x")
    assert isinstance(answer, FromData)
    assert answer.method is Method.NO_EFFECT


@pytest.mark.parametrize(
    ("causes", "outcomes", "message"),
    [
        ("x", "x", "'x' is both cause and outcome"),
        ("", "y", "has a cause and an outcome"),
        ("q", "y", "no variable 'q'"),
    ],
)
def test_questions_without_sense(causes: str, outcomes: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask("x -> y", causes=causes, outcomes=outcomes)


def enough(graph: MixedGraph, causes: Collection[str], measured: Collection[str], chosen: frozenset[str]) -> bool:
    """Whether trials that set any part of `chosen` tell the effect on the last variable."""
    kinds = [(), *subsets(chosen)]
    answer = identify(graph, causes, [max(graph.vertices)], measured=measured, other_trials=kinds)
    return isinstance(answer, FromData)


@given(mixed_graphs(4, 7), st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=200)
def test_the_set_of_interventions_is_the_smallest(graph: MixedGraph, many: int, data: st.DataObject) -> None:
    """Against every set, each with all the kinds of trials that it allows."""
    *others, outcome = sorted(graph.vertices)
    causes = others[:many]
    settable = data.draw(st.sets(st.sampled_from(others), max_size=4))
    hidden = data.draw(st.sets(st.sampled_from(others), max_size=2))
    measured = set(graph.vertices) - hidden
    answer = identify(graph, causes, [outcome], measured=measured, settable=settable)
    sizes = [len(chosen) for chosen in subsets(settable) if enough(graph, causes, measured, chosen)]
    if isinstance(answer, FromData):
        assert min(sizes) == 0
    elif isinstance(answer, NeedsIntervention):
        assert answer.proven_smallest
        assert len(answer.interventions) == min(sizes) > 0
        assert enough(graph, causes, measured, frozenset(answer.interventions))
    else:
        assert not sizes


def test_hedges_with_a_variable_in_common_count_once() -> None:
    """Three causes, each of which some hidden cause links to the outcome by way of z."""
    text = "a -> y, b -> y, c -> y, z -> a, z -> b, z -> c, y <-> z, z <-> a, z <-> b, z <-> c"
    answer = ask(text, settable="abcz", causes="abc")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("z",)
    answer = ask(text + ", a <-> y", settable="abcz", causes="abc")
    assert isinstance(answer, NeedsIntervention)
    assert answer.interventions == ("a", "z") or answer.interventions == ("z", "a")


def test_beyond_the_limit_it_is_said_that_a_smaller_set_may_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "u -> y, v -> y, u <-> z, v <-> z, z -> u, z -> v, z <-> y"
    monkeypatch.setattr(interventions, "MOST_SETS_TRIED", 1)
    answer = ask(text, settable="uvz", causes="uv")
    assert isinstance(answer, NeedsIntervention)
    assert not answer.proven_smallest
    assert set(answer.interventions) in ({"z"}, {"u", "v"})
    monkeypatch.undo()
    exact = ask(text, settable="uvz", causes="uv")
    assert isinstance(exact, NeedsIntervention)
    assert exact.proven_smallest


@given(mixed_graphs(4, 6), st.data())
@settings(deadline=None, max_examples=50)
def test_a_set_that_is_not_proven_smallest_suffices_and_none_can_be_left_out(
    graph: MixedGraph, data: st.DataObject
) -> None:
    settable = data.draw(st.sampled_from(list(subsets(sorted(graph.vertices)[:-1]))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interventions, "MOST_SETS_TRIED", 0)
        answer = identify(graph, ["a"], [max(graph.vertices)], measured=graph.vertices, settable=settable)
    if isinstance(answer, NeedsIntervention):
        chosen = frozenset(answer.interventions)
        assert enough(graph, ["a"], graph.vertices, chosen)
        assert not any(enough(graph, ["a"], graph.vertices, chosen - {one}) for one in chosen)
