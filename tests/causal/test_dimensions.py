"""Dimensions of parameters: what follows from a law, what contradicts itself, and what stays open."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.dimensions import Outcome, infer
from insitu.orchestrator.causal.expression import (
    Call,
    Expression,
    LawError,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    names,
    parse,
)
from insitu.orchestrator.causal.linear import split
from insitu.orchestrator.causal.unification import Equations, Form
from insitu.orchestrator.plan.types import Given, LawText, ParameterText
from insitu.orchestrator.units import dimension_of
from tests.causal.models import faults_of, law_of, model_of


@pytest.mark.parametrize(
    ("law", "units"),
    [
        ("max(a * size / rate, b * size / cores)", {"a": "", "b": "core s/B"}),
        ("size / (a + b * cores)", {"a": "B/s", "b": "B/core/s"}),
        ("c + max(0, cpu - knot)", {"c": "s", "knot": "s"}),
        ("c * max(0, size - knot)", {"c": "s/B", "knot": "B"}),
        ("a * exp(-k * size)", {"a": "s", "k": "1/B"}),
        ("a * (size / block)^gamma", {"a": "s", "gamma": ""}),
        ("a * (size / scale)^gamma", {"a": "s", "scale": "B", "gamma": ""}),
        ("most * size / (half + size)", {"most": "s", "half": "B"}),
        ("sqrt(a^2 + (b * size)^2)", {"a": "s", "b": "s/B"}),
        ("a^2 * size", {"a": "s^0.5/B^0.5"}),
        ("size / speed[kind] + c[kind]", {"speed[ssd]": "B/s", "c[hdd]": "s"}),
        ("min(c[kind], size / rate)", {"c[nvme]": "s"}),
        ("0 + max(0, a * log(size / block))", {"a": "s"}),
    ],
)
def test_units_follow_from_the_law(law: str, units: dict[str, str]) -> None:
    assert units.items() <= law_of(law).parameter_units.items()


@pytest.mark.parametrize(
    ("laws", "expected"),
    [
        (["runtime: exp(-k * size)"], ["1:10 the term exp(-k * size) is a plain number, but runtime is s"]),
        (["runtime: max(a, a * size)"], ["1:17 max compares [a] with [a] B (a * size)"]),
        (["runtime: a / (size + cores)"], ["1:20 adds core (cores) to B"]),
        (["runtime: exp(k * size) * (c + size)"], ["1:10 'c' would be B in an earlier term and s here"]),
        (["runtime: exp(a) * c + a"], ["1:23 'a' would be a plain number in an earlier term and s here"]),
        (["runtime: exp(a + a * size) * c"], ["1:16 adds [a] B (a * size) to [a]"]),
        (["runtime: a * size^gamma"], ["1:14 size is B, so its power needs a number"]),
        (["runtime: gamma * (size / block)^gamma"], ["1:10 'gamma' would be a plain number"]),
        (["runtime: a * (size / block)^rate"], ["1:29 'rate' is a variable; an exponent is a number or a para"]),
        (["runtime: log(size / a) * c + size / c"], ["1:30 'c' would be s in an earlier term and B/s here"]),
        (["runtime: c[kind] + c[kind] * size"], ["1:20 'c' would be s in an earlier term and s/B here"]),
        (["runtime: a * b"], ["1:14 the unit of 'b' does not follow from the law"]),
        (["runtime: a[kind] * b * c"], ["1:20 the unit of 'b'", "1:24 the unit of 'c'"]),
        (["runtime: c + 0 * a"], ["1:18 the unit of 'a' does not follow from the law"]),
        (["runtime: size * sqrt(0 / a)"], ["1:26 the unit of 'a' does not follow from the law"]),
    ],
)
def test_faults(laws: list[str], expected: list[str]) -> None:
    found = faults_of(model_of(*laws))
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        assert one.startswith(wanted), found


def declared(name: str, unit: str) -> ParameterText:
    return ParameterText(name, unit, 9, 3)


def test_a_declared_unit_settles_what_the_law_leaves_open() -> None:
    law = law_of("a * b * size", (declared("b", "s/GB"),))
    assert law.parameter_units == {"a": "", "b": "s/GB"}
    assert law.parameter_scales == {"a": 1.0, "b": 1e9}
    assert law_of("c + 0 * a", (declared("a", "ms"),)).parameter_units["a"] == "ms"
    speeds = law_of("a * speed[kind]", (declared("speed", "MB/s"),))
    assert speeds.parameter_units == {"a": "s^2/B", **dict.fromkeys(speeds.parameters[1:], "MB/s")}


@pytest.mark.parametrize(
    ("law", "units", "expected"),
    [
        ("size / (a + b * cores)", {"a": "B"}, "9:3 'a' is B/s in its law, but its unit here is B"),
        ("a * b * size", {"a": "s", "b": "s"}, "9:3 'b' is 1/B in its law, but its unit here is s"),
        ("c + speed[kind] * size", {"speed": "B/s"}, "9:3 'speed' is s/B in its law, but its unit here is B/s"),
    ],
)
def test_a_declared_unit_must_fit(law: str, units: dict[str, str], expected: str) -> None:
    parameters = tuple(declared(name, unit) for name, unit in units.items())
    assert faults_of(model_of(f"runtime: {law}", parameters=parameters)) == [expected]


def test_a_zero_has_any_unit_and_another_number_has_none() -> None:
    assert law_of("max(0, a * size)").parameter_units == {"a": "s/B"}
    assert law_of("0").parameters == ()
    assert faults_of(model_of("runtime: max(5, a * size)")) == [
        "1:10 the term max(5, a * size) is a plain number, but runtime is s"
    ]


def test_the_logarithm_of_an_outcome_is_a_plain_number() -> None:
    from insitu.orchestrator.plan.law_kinds import Link

    law = LawText("runtime", "c + size / rate", 1, 10, link=Link.LOG)
    assert faults_of(model_of(law)) == [
        "1:14 the term size / rate is s, but the logarithm of runtime is a plain number"
    ]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (
            ParameterText("a", "s", 9, 3, low=Given("3", 9, 4), high=Given("1", 9, 5)),
            "9:5 'a' cannot be at least 3",
        ),
        (
            ParameterText("a", "s", 9, 3, low=Given("1 s", 9, 4), high=Given("1000 ms", 9, 5)),
            "9:5 'a' can only be",
        ),
        (ParameterText("a", "s", 9, 3, low=Given("0 B", 9, 4)), "9:4 '0 B' is B, not s"),
        (ParameterText("a", None, 9, 3, low=Given("5 core", 9, 4)), "9:4 '5 core' is core, not s"),
        (ParameterText("a", "s", 9, 3, high=Given("1", 9, 4), start=Given("2 s", 9, 5)), "9:5 the search for 'a'"),
        (ParameterText("a", "s", 9, 3, low=Given("many", 9, 4)), "9:4 'many' is not a quantity"),
        (ParameterText("a", "s", 9, 3, low=Given("unlimited", 9, 4)), "9:4 'a' cannot be unlimited"),
        (ParameterText("a", "s", 9, 3, start=Given("unlimited", 9, 4)), "9:4 the search for 'a' cannot start at"),
    ],
)
def test_bounds_that_cannot_be(parameter: ParameterText, expected: str) -> None:
    (found,) = faults_of(model_of("runtime: a + b * size", parameters=(parameter,)))
    assert found.startswith(expected)


def test_a_bare_bound_is_in_base_units_where_no_unit_is_declared() -> None:
    law = law_of(
        "a^2 + b * size", (ParameterText("a", None, 1, 1, low=Given("-.5", 1, 1), start=Given("1e3", 1, 1)),)
    )
    assert law.parameter_units["a"] == "s^0.5"
    assert (law.bounds["a"].low, law.starts["a"]) == (-0.5, 1000.0)


def test_equations_are_solved_as_they_come() -> None:
    equations, a, b = Equations(), Form.unknown("a"), Form.unknown("b")
    byte, second = Form.of(dimension_of("B")), Form.of(dimension_of("s"))
    assert equations.equate(a.times(b, 2), byte)
    assert equations.resolve(a).dimension is None
    assert equations.equate(a, b.times(second))
    assert equations.resolve(b).dimension == (("B", 0.333333333), ("s", -0.333333333))
    assert equations.resolve(b).units == {"B": Fraction(1, 3), "s": Fraction(-1, 3)}
    assert not equations.equate(a, byte)
    assert equations.resolve(a).units == {"B": Fraction(1, 3), "s": Fraction(2, 3)}


# ---- against brute force: every assignment of exponents is tried

_KNOWN = {"x": (1, 0), "r": (1, -1), "t": (0, 1)}
"""Exponents of B and s."""
_GRID = [Fraction(number, 2) for number in range(-4, 5)]
_WIDE = [Fraction(number) for number in range(-40, 41)]
"""Where several solutions are, if there are several: on the grid near the origin only one may lie."""

LAWS = st.recursive(
    st.sampled_from(["a", "b", "x", "r", "t", "2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "*", "/"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        inner.map("({})^2".format),
        inner.map("sqrt({})".format),
        inner.map("exp({})".format),
        st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
    ),
    max_leaves=7,
)


class _MisfitError(Exception):
    pass


def exponent_of(node: Expression, exponents: dict[str, Fraction]) -> Fraction:
    """The exponent of one base unit, by the rules of the trade; raises where they are broken."""
    match node:
        case Number():
            return Fraction(0)
        case Name(name=name):
            return exponents[name]
        case Negative(operand=operand):
            return exponent_of(operand, exponents)
        case Product(factors=factors, inverted=inverted):
            parts = [exponent_of(factor, exponents) for factor in factors]
            return sum((-p if below else p for p, below in zip(parts, inverted, strict=True)), Fraction(0))
        case Power(base=base, exponent=Number(value=power)):
            return exponent_of(base, exponents) * Fraction(power)
        case Call(function="sqrt", arguments=(inside,)):
            return exponent_of(inside, exponents) / 2
        case Call(function="exp", arguments=(inside,)):
            alike = [exponent_of(inside, exponents), Fraction(0)]
        case Sum(terms=parts_) | Call(arguments=parts_):
            alike = [exponent_of(part, exponents) for part in parts_]
        case _:
            raise AssertionError(node)
    if len(set(alike)) > 1:
        raise _MisfitError
    return Fraction(0) if isinstance(node, Call) and node.function == "exp" else alike[0]


def fits(tree: Expression, wanted: Fraction, exponents: dict[str, Fraction]) -> bool:
    try:
        return exponent_of(tree, exponents) == wanted
    except _MisfitError:
        return False


@given(LAWS)
@example("sqrt(sqrt((a * b)))")
@settings(deadline=None, max_examples=150)
def test_inference_finds_what_trying_every_exponent_finds(text: str) -> None:
    tree = parse(text)
    parameters: list[str] = [one for one in ("a", "b") if one in {name.name for name in names(tree)}]
    errors: list[LawError] = []
    found = infer(
        tree,
        split(tree, parameters),
        {name: name for name in parameters},
        Outcome("y", (("s", 1.0),)),
        {"x": (("B", 1.0),), "r": (("B", 1.0), ("s", -1.0)), "t": (("s", 1.0),)},
        {},
        errors.append,
    )
    assert (found is None) == bool(errors)
    solutions = {}
    for index, unit in enumerate(("B", "s")):
        known = {name: Fraction(exponents[index]) for name, exponents in _KNOWN.items()}
        grid = _GRID if found is not None else _WIDE
        tried = [dict(zip(parameters, values, strict=True)) for values in product(grid, repeat=len(parameters))]
        solutions[unit] = [one for one in tried if fits(tree, Fraction(index), {**known, **one})]
    if found is not None:
        for unit, solved in solutions.items():
            answer = {
                name: Fraction(dict(found[name]).get(unit, 0.0)).limit_denominator(64) for name in parameters
            }
            inside = all(value in _GRID for value in answer.values())
            assert solved == ([answer] if inside else [])
    elif all("does not follow" in error.message for error in errors):
        assert all(len(solved) != 1 for solved in solutions.values())
    else:
        assert not (solutions["B"] and solutions["s"])
