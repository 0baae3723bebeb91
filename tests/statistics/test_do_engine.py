"""The do-engine against exact answers: enumeration of discrete models, closed form of linear Gaussian ones.

Of each graph a model is made with random tables; its hidden causes are summed out exactly, so that the estimand
sees what data would show, without sampling error; the truth is the same model with its mechanisms cut by do().
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pytest

from insitu.orchestrator.causal.answers import FromData, Method, NeedsIntervention, NotIdentifiable, Question
from insitu.orchestrator.causal.discrete import DiscreteModel, Table, evaluate, random_model
from insitu.orchestrator.causal.identification import identify
from insitu.orchestrator.causal.mixed_graph import MixedGraph
from tests.causal.graphs import drawn, random_graph
from tests.causal.rivals import rival_models

EXACT = 1e-9


@dataclass(frozen=True)
class Case:
    """A graph and a question. `method` is ``None`` where data without intervention cannot answer."""

    name: str
    graph: str
    method: Method | None
    equal: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    causes: tuple[str, ...] = ("x",)
    outcomes: tuple[str, ...] = ("y",)
    unmeasured: tuple[str, ...] = ()
    levels: dict[str, int] = field(default_factory=dict)


BACK, FRONT, DISTRICTS = Method.BACK_DOOR, Method.FRONT_DOOR, Method.DISTRICTS

CASES = [
    Case("chain", "x -> m -> y", BACK),
    Case("fork", "x <- z -> y, x -> y", BACK, equal=("z",), levels={"z": 3}),
    Case("collider", "x -> c <- y, x -> y", BACK),
    Case("back door through a chain", "z -> w -> x -> y, z -> y", BACK, equal=("z",)),
    Case("back door, hidden at one end", "x <- z <-> y, x -> y", BACK, equal=("z",)),
    Case("back door, hidden at the other end", "x <-> z -> y, x -> y", BACK, equal=("z",), levels={"x": 3}),
    Case("confounder of the mediator", "x -> m -> y, z -> x, z -> m", BACK, equal=("z",)),
    Case("M-bias", "x <-> m <-> y, x -> y", BACK),
    Case("M-bias with an edge", "x <-> m <-> y, x -> y, m -> x, m -> y", None),
    Case("butterfly bias", "a -> x, a -> m, b -> m, b -> y, m -> x, m -> y, x -> y", BACK, equal=("b", "m")),
    Case("front door", "x -> m -> y, x <-> y", FRONT, through=("m",), levels={"m": 3}),
    Case("front door of two mediators", "x -> m -> y, x -> n -> y, x <-> y", FRONT, through=("m", "n")),
    Case("front door of a chain", "x -> m -> n -> y, x <-> y", FRONT, through=("m",)),
    Case("front door with a covariate", "x -> m -> y, x <-> y, w -> m, w -> y", FRONT, through=("m", "w")),
    Case("conditional front door", "x -> m -> y, x <-> y, w -> x, w -> m, w -> y", DISTRICTS),
    Case("napkin", "w -> r -> x -> y, w <-> x, w <-> y", DISTRICTS, levels={"r": 3}),
    Case("Verma, the last edge", "a -> b -> c -> d, b <-> d", BACK, ("b",), causes=("c",), outcomes=("d",)),
    Case("Verma, the middle", "a -> b -> c -> d, b <-> d", FRONT, (), ("c",), causes=("b",), outcomes=("d",)),
    Case("Verma, both", "a -> b -> c -> d, b <-> d", BACK, causes=("a", "c"), outcomes=("d",), equal=("b",)),
    Case("bow arc", "x -> y, x <-> y", None),
    Case("instrument", "z -> x -> y, x <-> y", None),
    Case("instrument and a confounded mediator", "z -> x -> m -> y, x <-> y, m <-> y", None),
    Case("instrument and a front door", "z -> x -> m -> y, x <-> y, z -> y", FRONT, through=("m",)),
    Case("cause and mediator confounded", "x -> m -> y, x <-> m", None),
    Case("mediator and outcome confounded", "x -> m -> y, m <-> y", BACK),
    Case("all confounded in a chain", "x -> m -> y, x <-> m <-> y", None),
    Case("two districts", "x -> a -> b -> y, x <-> b, a <-> y", DISTRICTS),
    Case("no path to a child", "x -> a -> y, x <-> y, x <-> b, b -> a, b -> y, b <-> y", DISTRICTS),
    Case(
        "two outcomes", "w -> x -> y, v -> z, w <-> y, w <-> v, v <-> x, w <-> z", DISTRICTS, outcomes=("y", "z")
    ),
    Case("outcomes in a chain", "z -> x -> a -> b, z -> b", BACK, equal=("z",), outcomes=("a", "b")),
    Case("two causes", "u -> v -> y, u -> y, z -> v, z -> y", BACK, equal=("z",), causes=("u", "v")),
    Case("two causes, one between", "u -> z -> v -> y, u -> y, z <-> y", DISTRICTS, causes=("u", "v")),
    Case("two causes, one of no use", "u -> v -> y, u <-> v", BACK, causes=("u", "v")),
    Case("hidden chain", "p -> q, p -> x, q -> y, x -> m -> y", FRONT, through=("m",), unmeasured=("p", "q")),
    Case("hidden mediator", "x -> h -> y, z -> x, z -> h", BACK, equal=("z",), unmeasured=("h",)),
    Case("hidden fork", "h -> x -> y, h -> y", None, unmeasured=("h",)),
]


def model_of(case: Case) -> DiscreteModel:
    graph = drawn(case.graph)
    rng = np.random.default_rng([*case.name.encode()])
    return random_model(graph, rng, case.levels, hidden=case.unmeasured)


def asked(case: Case) -> FromData | NeedsIntervention | NotIdentifiable:
    graph = drawn(case.graph)
    measured = set(graph.vertices).difference(case.unmeasured)
    return identify(graph, case.causes, case.outcomes, measured=measured)


def far(model: DiscreteModel, answer: FromData, causes: Collection[str], outcomes: Collection[str]) -> float:
    """How far the estimand is from the truth, at worst over all levels."""
    assert answer.estimand is not None
    data = {frozenset(held): model.distribution(held) for held in answer.trials}
    found = evaluate(answer.estimand, data)
    fixed = {*causes, *answer.question.beside}
    truth = model.distribution(fixed)
    truth = truth.summed([name for name in truth.names if name not in fixed.union(outcomes)])
    names = tuple(dict.fromkeys([*truth.names, *found.names]))
    ones = Table(names, np.ones([model.levels(name) for name in names]))
    difference = found.times(ones).ordered(names).values - truth.times(ones).ordered(names).values
    return float(np.abs(difference).max())


@pytest.mark.parametrize("case", [case for case in CASES if case.method], ids=lambda case: case.name)
def test_what_is_identified_equals_enumeration(case: Case) -> None:
    answer = asked(case)
    assert isinstance(answer, FromData)
    assert answer.method is case.method
    assert set(answer.adjust_for) == set(case.equal)
    assert set(answer.mediators) == set(case.through)
    model = model_of(case)
    assert far(model, answer, case.causes, case.outcomes) < EXACT
    # and the data alone, without the formula, would not do where the formula is not the plain conditional
    if answer.method is not BACK or case.equal:
        plain = model.distribution().summed(set(model.distribution().names) - {*case.causes, *case.outcomes})
        plain = plain.divided_by(plain.summed(case.outcomes))
        truth = model.distribution(case.causes)
        truth = truth.summed(set(truth.names) - set(plain.names)).ordered(plain.names)
        assert np.abs(plain.values - truth.values).max() > 1e-3


@pytest.mark.parametrize("case", [case for case in CASES if not case.method], ids=lambda case: case.name)
def test_what_is_not_identified_has_two_answers(case: Case) -> None:
    assert isinstance(asked(case), NotIdentifiable)
    if not case.unmeasured:
        check_rivals(drawn(case.graph), case.causes, case.outcomes)


def check_rivals(graph: MixedGraph, causes: Collection[str], outcomes: Collection[str]) -> None:
    """Two models with this graph that no data without intervention tell apart, with two effects."""
    first, second = rival_models(graph, outcomes, causes)
    joint, same = first.distribution(), second.distribution()
    assert np.abs(joint.values - same.ordered(joint.names).values).max() < 1e-12
    assert joint.values.min() > 0
    one, other = (model.distribution(causes) for model in (first, second))
    rest = [name for name in one.names if name not in {*causes, *outcomes}]
    assert np.abs(one.summed(rest).values - other.summed(rest).values).max() > 1e-3


def test_the_bow_arc_in_numbers() -> None:
    """Written out: x is a hidden coin, and y is whether x and the coin differ, or nothing at all."""
    coin = Table(("u",), np.array([0.5, 0.5]))
    same = Table(("u", "x"), np.eye(2))
    differ = np.zeros((2, 2, 2))  # axes u, x, y
    for u in range(2):
        for x in range(2):
            differ[u, x, (u + x) % 2] = 1
    never = np.zeros((2, 2, 2))
    never[:, :, 0] = 1
    models = [
        DiscreteModel({"u": coin, "x": same, "y": Table(("u", "x", "y"), y)}, frozenset("u"))
        for y in (differ, never)
    ]
    assert np.array_equal(models[0].distribution().values, models[1].distribution().values)
    assert models[0].distribution(["x"]).at({"x": 1}).values == pytest.approx([0.5, 0.5])
    assert models[1].distribution(["x"]).at({"x": 1}).values == pytest.approx([1.0, 0.0])


def test_at_least_twenty_graphs_are_compared() -> None:
    assert len({case.graph for case in CASES if case.method}) >= 20


def test_every_answer_on_random_graphs_is_right() -> None:
    """Told by data: equal to enumeration. Not told: two models agree on the data and not on the effect."""
    rng = np.random.default_rng(1)
    seen: Counter[str] = Counter()
    for _ in range(1000):
        graph = random_graph(rng, int(rng.integers(4, 6)))
        asking = random_question(graph, rng)
        answer = identify(graph, asking.causes, asking.outcomes, measured=graph.vertices)
        if isinstance(answer, FromData):
            seen[answer.method] += 1
            assert far(random_model(graph, rng), answer, asking.causes, asking.outcomes) < EXACT
        else:
            assert isinstance(answer, NotIdentifiable)
            seen["not"] += 1
            check_rivals(graph, asking.causes, asking.outcomes)
    assert min(seen[kind] for kind in (BACK, FRONT, DISTRICTS, "not")) > 3, seen


def test_every_intervention_on_random_graphs_gives_the_answer() -> None:
    """With some variables hidden, settable or set before: what is told then equals enumeration."""
    rng = np.random.default_rng(2)
    seen: Counter[str] = Counter()
    for _ in range(1500):
        graph = random_graph(rng, int(rng.integers(4, 7)))
        asking = random_question(graph, rng)
        others = [name for name in graph.vertices if name not in {*asking.causes, *asking.outcomes}]
        measured = [*asking.causes, *asking.outcomes, *(name for name in others if rng.random() < 0.7)]
        answer = identify(
            graph,
            asking.causes,
            asking.outcomes,
            measured=measured,
            settable=[name for name in graph.vertices if rng.random() < (0.8 if name in others else 0.3)],
            set_before=[name for name in others if rng.random() < 0.2],
            other_trials=[()] if rng.random() < 0.5 else [],
        )
        told = answer.afterwards if isinstance(answer, NeedsIntervention) else answer
        if isinstance(told, FromData) and told.estimand is not None:
            seen[f"{told.method}, {type(answer).__name__}"] += 1
            model = random_model(graph, rng, hidden=set(graph.vertices).difference(measured))
            assert far(model, told, asking.causes, asking.outcomes) < EXACT
    afterwards = [
        seen[f"{kind}, {NeedsIntervention.__name__}"] for kind in (Method.TRIALS, BACK, FRONT, DISTRICTS)
    ]
    assert min(afterwards) > 0, seen
    assert sum(afterwards) > 100, seen


@pytest.mark.parametrize(
    ("graph", "causes", "unmeasured", "settable", "wanted", "method"),
    [
        ("x -> y, x <-> y, z -> x", "x", "", "zx", {"x"}, Method.TRIALS),
        ("w -> x -> y, w <-> x, w <-> y", "x", "", "w", {"w"}, BACK),
        ("h -> x -> y, h -> w, w <-> y, w -> x", "x", "h", "h", {"h"}, BACK),
        ("w -> x -> m -> y, w <-> x, w <-> m, x <-> y", "x", "", "w", {"w"}, FRONT),
        ("m -> y, x -> v -> y, y <-> x, x <-> m, m <-> v", "xv", "", "m", {"m"}, DISTRICTS),
    ],
)
def test_interventions_on_named_graphs(
    graph: str, causes: str, unmeasured: str, settable: str, wanted: set[str], method: Method
) -> None:
    """The last needs two kinds of trials: those that set m, and data on how m is spread by itself."""
    known = drawn(graph)
    measured = set(known.vertices).difference(unmeasured)
    answer = identify(known, causes, ["y"], measured=measured, settable=settable)
    assert isinstance(answer, NeedsIntervention)
    assert set(answer.interventions) == wanted
    assert answer.afterwards.method is method
    model = random_model(known, np.random.default_rng(4), hidden=unmeasured)
    assert far(model, answer.afterwards, causes, ["y"]) < EXACT


def random_question(graph: MixedGraph, rng: np.random.Generator) -> Question:
    """One or two causes and one or two outcomes, mostly downstream."""
    names = [str(name) for name in (graph.vertices if rng.random() < 0.9 else rng.permutation(graph.vertices))]
    some = 2 if len(names) > 3 and rng.random() < 0.3 else 1
    return Question(tuple(names[: int(rng.integers(1, 3))]), tuple(names[-some:]))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.method is BACK and len(case.causes) == 1], ids=lambda case: case.name
)
def test_linear_gaussian_effects_by_adjustment_equal_the_product_of_paths(case: Case) -> None:
    """The coefficient of the cause in the regression on it and the adjustment set, from the exact covariance."""
    answer = asked(case)
    assert isinstance(answer, FromData)
    graph = drawn(case.graph)
    linear = Linear.random(graph, np.random.default_rng([*case.name.encode()]))
    for outcome in case.outcomes:
        (cause,) = case.causes
        found = linear.coefficient(outcome, cause, answer.adjust_for)
        assert found == pytest.approx(linear.along_paths(graph, cause, outcome), abs=EXACT)


def test_linear_gaussian_effects_by_instruments() -> None:
    cases = {"z -> x -> y, x <-> y": ("z", ()), "z -> x -> y, x <-> y, w -> z, w -> y": ("z", ("w",))}
    for text, (variable, equal) in cases.items():
        graph = drawn(text)
        answer = identify(graph, ["x"], ["y"], measured=graph.vertices, linear=True)
        assert isinstance(answer, FromData)
        assert answer.instrument is not None
        assert (answer.instrument.variable, answer.instrument.given) == (variable, equal)
        linear = Linear.random(graph, np.random.default_rng(3))
        ratio = linear.coefficient("y", variable, equal) / linear.coefficient("x", variable, equal)
        assert ratio == pytest.approx(linear.along_paths(graph, "x", "y"), abs=EXACT)


@dataclass(frozen=True)
class Linear:
    """A linear Gaussian model: coefficients of the edges, and the exact covariance of the variables."""

    names: tuple[str, ...]
    coefficients: np.ndarray
    """Row: effect; column: cause."""
    covariance: np.ndarray

    @classmethod
    def random(cls, graph: MixedGraph, rng: np.random.Generator) -> Linear:
        names = graph.vertices
        effects = np.array(
            [[rng.normal() if one in graph.parents[name] else 0.0 for one in names] for name in names]
        )
        noise = np.diag(rng.uniform(0.5, 2.0, len(names)))
        for first in names:
            for second in graph.siblings[first]:
                if first < second:
                    loading = np.array([rng.normal() if name in (first, second) else 0.0 for name in names])
                    noise += np.outer(loading, loading)
        total = np.linalg.inv(np.eye(len(names)) - effects)
        return cls(names, effects, total @ noise @ total.T)

    def along_paths(self, graph: MixedGraph, cause: str, outcome: str) -> float:
        """The total effect: over all directed paths, the product of their coefficients."""
        if cause == outcome:
            return 1.0
        at = self.names.index
        return sum(
            float(self.coefficients[at(child), at(cause)]) * self.along_paths(graph, child, outcome)
            for child in graph.children[cause]
        )

    def coefficient(self, outcome: str, regressor: str, others: Collection[str]) -> float:
        """Of `regressor`, where `outcome` is regressed on it and `others`."""
        rows = [self.names.index(name) for name in (regressor, *others)]
        between = self.covariance[np.ix_(rows, rows)]
        return float(np.linalg.solve(between, self.covariance[rows, self.names.index(outcome)])[0])
