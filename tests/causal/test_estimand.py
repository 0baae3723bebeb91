"""Estimands: how they simplify, how they read, and what they come to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.causal.discrete import DiscreteModel, Table, evaluate, random_model
from insitu.orchestrator.causal.estimand import (
    Estimand,
    Probability,
    Product,
    Quotient,
    Sum,
    joined,
    product,
    quotient,
    size,
    spell,
    summed,
)
from tests.causal.graphs import drawn

NOTHING: frozenset[str] = frozenset()


def p(of: str, given_: str = "", held: str = "") -> Probability:
    return Probability(tuple(of), tuple(given_), tuple(held))


def test_text() -> None:
    assert spell(summed("z", product([p("y", "xz"), p("z")]))) == "sum_z P(y | x, z) P(z)"
    assert spell(p("y", "z", "mx")) == "P(y | do(m, x), z)"
    assert spell(p("yz", held="x")) == "P(y, z | do(x))"
    assert spell(Product(())) == "1"
    long = Probability(("runtime",), ("cpu_cores", "input_size"))
    of = Probability(("input_size",))
    assert spell(summed(["input_size"], product([long, of]))) == (
        "sum_{input_size} P(runtime | cpu_cores, input_size) P(input_size)"
    )
    assert spell(Sum(("a", "b"), product([p("y", "ab"), p("a"), p("b", "z")]))) == (
        "sum_{a, b} P(y | a, b) P(a) P(b | z)"
    )


def test_what_a_sum_binds_is_primed_where_it_would_be_mistaken() -> None:
    front_door = summed("m", product([p("m", "x"), summed("x", product([p("y", "xm"), p("x")]))]))
    assert spell(front_door) == "sum_m P(m | x) sum_x' P(y | x', m) P(x')"
    twice = Sum(("x",), product([p("z", "x"), Sum(("x",), product([p("y", "x"), p("x", "w")]))]))
    assert spell(twice) == "sum_x P(z | x) sum_x' P(y | x') P(x' | w)"
    side_by_side = product([p("v", "z"), Sum(("z",), product([p("y", "z"), p("z", "w")]))])
    assert spell(side_by_side) == "P(v | z) sum_z' P(y | z') P(z' | w)"


def test_brackets() -> None:
    inner = Sum(("w",), product([p("y", "w"), p("w", "x")]))
    assert spell(quotient(inner, p("x"))) == "[sum_w P(y | w) P(w | x)] / P(x)"
    assert spell(product([inner, p("z")])) == "P(z) sum_w P(y | w) P(w | x)"
    assert spell(product([inner, inner])) == "[sum_w P(y | w) P(w | x)] sum_w P(y | w) P(w | x)"
    assert spell(product([Quotient(p("a"), p("b")), p("z")])) == "P(z) [P(a) / P(b)]"


def test_sums_of_probabilities_are_one() -> None:
    assert summed("y", p("yz", "x")) == p("z", "x")
    assert summed("yz", p("yz", "x")) == Product(())
    assert summed("mz", product([p("y", "x"), p("z", "ym"), p("m", "x")])) == p("y", "x")
    kept = summed("m", product([p("y", "mx"), p("m", "x"), p("w")]))
    assert kept == Product((p("w"), Sum(("m",), Product((p("y", "mx"), p("m", "x"))))))


def test_a_sum_over_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="does not depend on z"):
        summed("z", p("y", "x"))
    with pytest.raises(ValueError, match="does not depend on z"):
        summed("z", Sum(("z",), p("z", "y")))


def test_quotients_lose_what_both_have() -> None:
    assert quotient(product([p("a"), p("b", "a")]), p("a")) == p("b", "a")
    assert quotient(p("a"), p("a")) == Product(())
    assert quotient(product([p("a"), p("b")]), product([p("a"), p("c")])) == Quotient(p("b"), p("c"))


def test_conditionals_are_joined() -> None:
    assert joined(product([p("w", "x"), p("r", "wx"), p("y", "xwr")])) == p("wry", "x")
    assert joined(product([p("y", "x", held="z"), p("x")])) == product([p("y", "x", held="z"), p("x")])


def test_size_counts_what_is_written_out() -> None:
    node: Estimand = p("y", "x")
    for _ in range(50):
        node = Quotient(node, product([node, p("x")]))
    assert size(node) == 2**51 - 1
    assert size(Product(())) == 0


MODEL = random_model(drawn("a -> b -> c -> d, a -> c, b <-> d"), np.random.default_rng(8), {"b": 3, "c": 4})
JOINT = MODEL.distribution()


def value(node: Estimand) -> Table:
    return evaluate(node, {NOTHING: JOINT})


def test_a_probability_is_a_share_of_the_table() -> None:
    assert JOINT.names == ("a", "b", "c", "d")
    assert JOINT.values.shape == (2, 3, 4, 2)
    assert JOINT.values.sum() == pytest.approx(1)
    conditional = value(p("dc", "b")).ordered("cdb").values
    expected = JOINT.values.sum(axis=0).transpose(1, 2, 0) / JOINT.values.sum(axis=(0, 2, 3))
    assert conditional == pytest.approx(expected)


@given(st.permutations("abcd"), st.integers(1, 3), st.integers(1, 3))
def test_simplification_changes_no_value(order: list[str], cut: int, over: int) -> None:
    """The chain rule in any order, summed over any part, simplified or not."""
    factors = [p(name, "".join(order[:place])) for place, name in enumerate(order)]
    plain = value(Sum(tuple(order[-over:]), Product(tuple(factors))))
    simple = value(summed(order[-over:], product(factors)))
    both = value(joined(summed(order[-over:], product(factors))))
    expected = JOINT.summed(order[-over:])
    for one in (plain, simple, both):
        assert one.ordered(expected.names).values == pytest.approx(expected.values)
    above, below = product(factors), product(factors[:cut])
    ratio, same = value(Quotient(above, below)), value(quotient(above, below))
    assert ratio.ordered(same.names).values == pytest.approx(same.values)


def test_a_bound_variable_is_another_one() -> None:
    """The same name outside and inside of a sum."""
    node = product([p("c", "b"), Sum(("b",), product([p("d", "b"), p("b", "a")]))])
    found = value(node).ordered("abcd").values
    b, ab, cb, db = (JOINT.summed(set("abcd") - set(one)).values for one in ("b", "ab", "bc", "bd"))
    expected = np.einsum("bc,xd,ax->abcd", cb / b[:, None], db / b[:, None], ab / ab.sum(axis=1)[:, None])
    assert found == pytest.approx(expected)


def test_trials_of_each_kind_have_their_own_table() -> None:
    data = {NOTHING: JOINT, frozenset("b"): MODEL.distribution("b")}
    held = evaluate(p("d", held="b"), data).ordered("bd").values
    seen = evaluate(p("d", "b"), data).ordered("bd").values
    assert held.sum(axis=1) == pytest.approx(np.ones(3))
    assert np.abs(held - seen).max() > 1e-3
    with pytest.raises(KeyError):
        evaluate(p("d", held="c"), data)


def test_do_by_hand() -> None:
    """One confounder of two binary variables, in numbers."""
    z = Table(("z",), np.array([0.25, 0.75]))
    x = Table(("z", "x"), np.array([[0.9, 0.1], [0.2, 0.8]]))
    y = Table(("x", "z", "y"), np.array([[[0.5, 0.5], [0.4, 0.6]], [[0.3, 0.7], [0.1, 0.9]]]))
    model = DiscreteModel({"z": z, "x": x, "y": y}, frozenset("z"))
    seen, held = model.distribution(), model.distribution(["x"])
    assert seen.names == held.names == ("x", "y")
    assert held.at({"x": 1, "y": 1}).values == pytest.approx(0.25 * 0.7 + 0.75 * 0.9)
    assert seen.at({"x": 1, "y": 1}).values == pytest.approx(0.25 * 0.1 * 0.7 + 0.75 * 0.8 * 0.9)


def test_what_is_hidden_is_known_where_it_is_held() -> None:
    model = random_model(drawn("h -> x, h -> y"), np.random.default_rng(1), hidden="h")
    assert model.distribution().names == ("x", "y")
    assert model.distribution("h").names == ("h", "x", "y")


def test_a_table_needs_an_axis_for_each_name() -> None:
    with pytest.raises(ValueError, match="2 axes for a"):
        Table(("a",), np.ones((2, 2)))
    with pytest.raises(ValueError, match="2 axes for a, a"):
        Table(("a", "a"), np.ones((2, 2)))
