"""Derivatives of laws: exact where differences agree, right at knots and at infinity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import Array, evaluate, parse, walk
from insitu.orchestrator.causal.gradient import differentiate

INF = math.inf


@pytest.mark.parametrize(
    ("text", "values", "value", "slopes"),
    [
        ("a * x + b", {"x": 3.0}, 7.0, (3.0, 1.0)),
        ("-(a - b) * x", {"x": 3.0}, -3.0, (-3.0, 3.0)),
        ("x / (a + b)", {"x": 9.0}, 3.0, (-1.0, -1.0)),
        ("a^3 / b", {}, 8.0, (12.0, -8.0)),
        ("sqrt(a + b + 1)", {}, 2.0, (0.25, 0.25)),
        ("x^b + x^a", {"x": math.e}, math.e + math.e**2, (math.e**2, math.e)),
        ("exp(-b * x) * a", {"x": 2.0}, 2 * math.exp(-2), (math.exp(-2), -4 * math.exp(-2))),
        ("log(a * x)", {"x": 2.0}, math.log(4), (0.5, 0.0)),
        ("max(a * x, b * y)", {"x": 2.0, "y": 3.0}, 4.0, (2.0, 0.0)),
        ("min(a * x, b * y, 9)", {"x": 2.0, "y": 3.0}, 3.0, (0.0, 3.0)),
        ("max(0, x - a)", {"x": 1.0}, 0.0, (0.0, 0.0)),
        # at a knot: the slope on one side, that of the first argument
        ("max(a, 2 * b)", {}, 2.0, (1.0, 0.0)),
        ("min(2 * b, a)", {}, 2.0, (0.0, 2.0)),
        # at infinity, which is unlimited: what no longer matters has no slope
        ("a * x / y + b", {"x": 8.0, "y": INF}, 1.0, (0.0, 1.0)),
        ("x / (a + b * y)", {"x": 8.0, "y": INF}, 0.0, (0.0, 0.0)),
        ("max(a * x / y, b * x)", {"x": 8.0, "y": INF}, 8.0, (0.0, 8.0)),
        ("a + b * exp(-a * y)", {"y": INF}, 2.0, (1.0, 0.0)),
        ("a + (b * y)^-2", {"y": INF}, 2.0, (1.0, 0.0)),
        ("min(a, y)", {"y": INF}, 2.0, (1.0, 0.0)),
        # at zero
        ("a * x^b", {"x": 0.0}, 0.0, (0.0, 0.0)),
        ("sqrt(x * a)", {"x": 0.0}, 0.0, (0.0, 0.0)),
    ],
)
def test_known_derivatives(text: str, values: dict[str, float], value: float, slopes: tuple[float, float]) -> None:
    with np.errstate(all="raise"):
        found = differentiate(parse(text), ["a", "b"], {"a": 2.0, "b": 1.0, **values})
    assert found.value == pytest.approx([value], rel=1e-14)
    assert found.slopes.shape == (1, 2)
    assert found.slopes[0] == pytest.approx(slopes, rel=1e-14)


def test_what_is_undefined_has_no_slope_either() -> None:
    found = differentiate(
        parse("a * x / y"), ["a"], {"a": 2.0, "x": np.array([1.0, INF]), "y": np.array([1.0, INF])}
    )
    np.testing.assert_array_equal(found.slopes, [[1.0], [math.nan]])
    assert math.isnan(differentiate(parse("log(a)"), ["a"], {"a": -1.0}).slopes[0, 0])


def test_columns_are_in_the_order_asked_for_and_rows_in_that_of_the_points() -> None:
    values: dict[str, Array | float] = {"a": 1.0, "b": 2.0, "x": np.array([1.0, 2.0, 4.0])}
    found = differentiate(parse("a * x"), ["unused", "b", "a"], values)
    np.testing.assert_array_equal(found.slopes, [[0, 0, 1], [0, 0, 2], [0, 0, 4]])
    np.testing.assert_array_equal(found.value, [1, 2, 4])


def test_a_law_without_levels_has_as_many_rows_as_are_asked_for() -> None:
    assert differentiate(parse("a + b"), ["a"], {"a": 1.0, "b": 1.0}, points=3).slopes.shape == (3, 1)


LAWS = st.recursive(
    st.sampled_from(["a", "b", "g", "x", "y", "2", "0.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map("-({})".format),
        st.tuples(inner, st.sampled_from(["2", "-1", "0.5", "g"])).map(lambda p: f"({p[0]})^{p[1]}"),
        st.tuples(st.sampled_from(["sqrt", "exp", "log"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
    ),
    max_leaves=10,
)
_PARAMETERS = ("a", "b", "g")
_STEP = 1e-5


@given(LAWS, st.lists(st.floats(0.3, 3.0), min_size=5, max_size=5))
@settings(deadline=None, max_examples=300)
def test_the_gradient_is_what_central_differences_say(text: str, drawn: list[float]) -> None:
    """At a knot the slope on one side lies between the differences to both; elsewhere these agree."""
    tree, values = parse(text), dict(zip((*_PARAMETERS, "x", "y"), drawn, strict=True))
    found = differentiate(tree, _PARAMETERS, values)
    assert found.value == pytest.approx(evaluate(tree, values).reshape(1), nan_ok=True)
    largest = max(abs(float(evaluate(part, values))) for part in walk(tree))
    assume(largest < 1e6)  # nan is not
    for column, name in enumerate(_PARAMETERS):
        below, here, above = (
            float(evaluate(tree, {**values, name: values[name] + step})) for step in (-_STEP, 0.0, _STEP)
        )
        sides = ((here - below) / _STEP, (above - here) / _STEP)
        apart = abs(sides[0] - sides[1])
        assume(math.isfinite(apart))
        tolerance = 1e-5 * max(1.0, largest, abs(sides[0])) + apart
        assert abs(found.slopes[0, column] - sum(sides) / 2) <= tolerance
