"""A compiled expression gives what the evaluated one gives, whichever names are wide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.causal.compiled import Buffers, compile_expression
from insitu.orchestrator.causal.expression import (
    Call,
    Expression,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    evaluate,
    parse,
)

NAMES = ("a", "b", "x", "y")
SHAPE = (4, 3)


def expressions() -> st.SearchStrategy[Expression]:
    leaves: st.SearchStrategy[Expression] = st.one_of(
        st.floats(0.1, 10).map(Number), st.sampled_from(NAMES).map(Name)
    )

    def grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(parts, min_size=1, max_size=4).map(tuple)
        return st.one_of(
            parts.map(Negative),
            several.flatmap(
                lambda terms: st.tuples(*(st.sampled_from((1, -1)) for _ in terms)).map(
                    lambda signs: Sum(terms, signs)
                )
            ),
            several.flatmap(
                lambda factors: st.tuples(*(st.booleans() for _ in factors)).map(
                    lambda inverted: Product(factors, inverted)
                )
            ),
            st.tuples(parts, st.sampled_from((2.0, 0.5, -1.0, 3.0, -0.5))).map(
                lambda pair: Power(pair[0], Number(pair[1]))
            ),
            parts.map(lambda one: Power(one, Name("a"))),
            st.tuples(st.sampled_from(("log", "exp", "sqrt")), parts).map(lambda pair: Call(pair[0], (pair[1],))),
            st.tuples(st.sampled_from(("min", "max")), st.lists(parts, min_size=2, max_size=3)).map(
                lambda pair: Call(pair[0], tuple(pair[1]))
            ),
        )

    return st.recursive(leaves, grown, max_leaves=12)


@given(tree=expressions(), wide=st.sets(st.sampled_from(NAMES)), seed=st.integers(0, 9))
def test_compiled_is_evaluated(tree: Expression, wide: set[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {name: rng.uniform(0.2, 4.0, size=SHAPE if name in wide else SHAPE[1:]) for name in NAMES}
    kept = {name: value.copy() for name, value in values.items()}
    buffers = Buffers(SHAPE)
    found = compile_expression(tree, wide)(values, buffers)
    expected = np.broadcast_to(evaluate(tree, values), SHAPE)
    assert found.shape == SHAPE
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * _size(tree, values))
    for name, value in values.items():
        np.testing.assert_array_equal(value, kept[name])  # what was handed over is only read


def _size(tree: Expression, values: dict[str, np.ndarray]) -> float:
    """Largest number on the way: addends of another order cancel to its last bits only."""
    from insitu.orchestrator.causal.expression import walk

    sizes = [np.abs(evaluate(node, values)) for node in walk(tree)]
    return float(max(np.nanmax(np.where(np.isfinite(one), one, 0.0)) for one in sizes))


@pytest.mark.parametrize("wide", [{"x"}, {"x", "y"}, {"y"}, set()])
def test_buffers_are_reused_and_nothing_is_left_behind(wide: set[str]) -> None:
    values = {name: np.full(SHAPE if name in wide else SHAPE[1:], 2.0) for name in NAMES}
    law = compile_expression(parse("a + b * x / y - max(x * y, (x + a) * (y + b), a) + exp(-x) * y^2"), wide)
    buffers = Buffers(SHAPE)
    expected = 2 + 2 - max(4, 16, 2) + np.exp(-2) * 4
    first = law(values, buffers)
    np.testing.assert_allclose(first, expected)
    buffers.give(first)
    held = {id(one) for one in buffers._free}
    buffers.give(law(values, buffers))
    assert {id(one) for one in buffers._free} == held


def test_unlimited_divides_to_nothing() -> None:
    law = compile_expression(parse("a + x / y"), {"x"})
    found = law({"a": 1.0, "x": np.ones(SHAPE), "y": np.inf}, Buffers(SHAPE))
    np.testing.assert_array_equal(found, np.ones(SHAPE))
