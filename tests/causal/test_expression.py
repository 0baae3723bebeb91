"""Laws: what parses, where what does not is wrong, and what they evaluate to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import (
    MAX_LENGTH,
    Array,
    Call,
    Expression,
    Index,
    Is,
    LawError,
    Name,
    Negative,
    Power,
    Product,
    Sum,
    evaluate,
    names,
    parse,
    spell,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("16 / 4 / 2", 2),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^-1", 0.5),
        ("9^0.5", 3),
        ("2 * -3", -6),
        ("--3", 3),
        ("min(3, 1, 2) + max(1, 5)", 6),
        ("sqrt(16) + log(exp(2))", 6),
        ("1.5e3 + .5 + 2.", 1502.5),
        ("x / y", 0.5),
        ("x - y * 2", -3),
    ],
)
def test_evaluate(text: str, value: float) -> None:
    assert float(evaluate(parse(text), {"x": 1.0, "y": 2.0})) == pytest.approx(value, rel=1e-12)


def test_evaluate_over_arrays_broadcasts() -> None:
    values: dict[str, Array | float] = {"size": np.array([1.0, 2.0, 4.0]), "rate": 2.0}
    assert evaluate(parse("size / rate + 1"), values) == pytest.approx(np.array([1.5, 2.0, 3.0]))


def test_an_unlimited_rate_costs_nothing_and_nothing_warns() -> None:
    with np.errstate(all="raise"):
        assert float(evaluate(parse("size / rate"), {"size": 8.0, "rate": math.inf})) == 0.0
        assert math.isnan(float(evaluate(parse("rate / rate"), {"rate": math.inf})))


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "the law ends too early"),
        ("a +", 3, "the law ends too early"),
        ("(a", 2, "the law ends too early"),
        ("a)", 1, "unexpected ')'"),
        ("a b", 2, "unexpected 'b'"),
        ("10 MB", 3, "unexpected 'MB'"),
        ("a ** 2", 3, "unexpected '*'"),
        ("a^(b)", 2, "unexpected '('"),
        ("a^-b", 3, "unexpected 'b'"),
        ("a^log", 2, "'log' is a function"),
        ("a^2^3", 3, "unexpected '^'"),
        ("a^17", 2, "the exponent 17 is beyond 16"),
        ("a, b", 1, "unexpected ','"),
        ("a + $", 4, "unexpected '$'"),
        ("a.b", 1, "unexpected '.'"),
        ("a['b']", 2, "unexpected '''"),
        ("a[b", 3, "the law ends too early"),
        ("a[]", 2, "unexpected ']'"),
        ("a[1]", 2, "unexpected '1'"),
        ("(a)[b]", 3, "unexpected '['"),
        ("log[b]", 0, "'log' is a function"),
        ("is", 2, "the law ends too early"),
        ("is * a", 3, "unexpected '*'"),
        ("is(a)", 4, "unexpected ')'"),
        ("is(a, b, c)", 7, "unexpected ','"),
        ("a if b else c", 2, "unexpected 'if'"),
        ("1 + lg(a)", 4, "unknown function 'lg'"),
        ("__import__(os)", 0, "unknown function '__import__'"),
        ("log(a, b)", 0, "'log' takes one value, not 2"),
        ("min(a)", 0, "'min' takes two values or more, not 1"),
        ("a * log", 4, "'log' is a function"),
        ("1e999", 0, "1e999 is too large a number"),
        ("a----b", 4, "more than 3 minus signs in a row"),
        ("(" * 50, 40, "the law is nested more than 40 deep"),
        ("a" * (MAX_LENGTH + 1), 0, f"the law has more than {MAX_LENGTH} characters"),
    ],
)
def test_refuse(text: str, offset: int, message: str) -> None:
    with pytest.raises(LawError) as caught:
        parse(text)
    assert (caught.value.offset, caught.value.message) == (offset, message)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a ** 2", "powers are written with ^"),
        ("10 MB", "numbers have no units"),
        ("lg(a)", "did you mean 'log'?"),
        ("a^(b)", "an exponent is a number, such as 2 or 0.5, or a parameter"),
        ("a[1]", "brackets hold the names of variables that have categories"),
        ("is(a)", "is(variable, category)"),
    ],
)
def test_hint(text: str, hint: str) -> None:
    with pytest.raises(LawError) as caught:
        parse(text)
    assert hint in str(caught.value.hint)


def test_names_stand_where_they_say() -> None:
    text = "c + a * size / max(rate, 2 * rate)^2"
    found = list(names(parse(text)))
    assert [name.name for name in found] == ["c", "a", "size", "rate", "rate"]
    assert all(text[name.start : name.end] == name.name for name in found)


def test_words_of_categories_stand_in_the_question_for_one_only() -> None:
    question = parse("is(kind, c5.large-2)")
    assert isinstance(question, Is)
    assert (question.variable.name, question.category) == ("kind", "c5.large-2")
    assert [name.name for name in names(parse("island + is(is, is) * iss"))] == ["island", "is", "iss"]


ATOMS = st.sampled_from(["a", "b", "x1", "_y", "2", "0.25", "1e-3"])
LAWS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-({})".format),
        inner.map("({})^2".format),
        inner.map("sqrt({})".format),
        st.tuples(inner, inner).map(lambda pair: f"min({pair[0]}, {pair[1]})"),
    ),
    max_leaves=12,
)
VALUES = {"a": 1.25, "b": -0.5, "x1": 3.0, "_y": 7.5}


EXTENDED = st.recursive(
    st.sampled_from(["a", "2", "rate[kind]", "rate[kind, node]", "is(kind, ssd)", "is(node, worker-1)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(" ".join),
        inner.map("({})^gamma".format),
        inner.map("-({})^-0.5".format),
        st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
    ),
    max_leaves=12,
)


def without_offsets(node: Expression) -> Expression:
    """The tree alone, so that two texts of one meaning compare equal."""
    bare = replace(node, start=0, end=0)
    match bare:
        case Index(by=by):
            return replace(bare, by=tuple(replace(one, start=0, end=0) for one in by))
        case Is(variable=variable):
            return replace(bare, variable=replace(variable, start=0, end=0))
        case Negative(operand=operand):
            return replace(bare, operand=without_offsets(operand))
        case Sum(terms=terms):
            return replace(bare, terms=tuple(map(without_offsets, terms)), operators=())
        case Product(factors=factors):
            return replace(bare, factors=tuple(map(without_offsets, factors)))
        case Power(base=base, exponent=exponent):
            return replace(bare, base=without_offsets(base), exponent=replace(exponent, start=0, end=0))
        case Call(arguments=arguments):
            return replace(bare, arguments=tuple(map(without_offsets, arguments)))
        case _:
            return bare


@given(EXTENDED)
@settings(deadline=None)
def test_spelling_and_parsing_give_the_same_tree(text: str) -> None:
    tree = parse(text)
    assert without_offsets(parse(spell(tree))) == without_offsets(tree)


def test_a_parameter_for_each_category_is_chosen_by_its_number() -> None:
    tree = parse("rate[kind]")
    assert isinstance(tree, Index)
    choices = (Name("rate[ssd]"), Name("rate[hdd]"))
    index = replace(tree, categories=(("ssd", "hdd"),), choices=choices)
    kinds = np.array([0.0, 1.0, 2.0, 0.5, math.nan])
    values: dict[str, Array | float] = {"kind": kinds, "rate[ssd]": 10.0, "rate[hdd]": 20.0}
    np.testing.assert_array_equal(evaluate(index, values), [10.0, 20.0, math.nan, math.nan, math.nan])
    question = parse("is(kind, hdd)")
    assert isinstance(question, Is)
    asked = evaluate(replace(question, code=1, size=2), values)
    np.testing.assert_array_equal(asked, [0.0, 1.0, math.nan, math.nan, math.nan])


@given(LAWS)
@settings(deadline=None)
def test_spelling_keeps_the_meaning(text: str) -> None:
    tree = parse(text)
    again = parse(spell(tree))
    assert spell(again) == spell(tree)
    np.testing.assert_allclose(evaluate(again, VALUES), evaluate(tree, VALUES), rtol=1e-12)


@given(LAWS)
@settings(deadline=None)
def test_evaluation_agrees_with_arithmetic(text: str) -> None:
    functions = {"sqrt": math.sqrt, "min": min}
    try:
        expected = eval(text.replace("^", "**"), {"__builtins__": {}}, {**VALUES, **functions})
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        assume(False)
    assume(not isinstance(expected, complex))
    np.testing.assert_allclose(evaluate(parse(text), VALUES), expected, rtol=1e-9)


@given(st.text(alphabet="abs12.()[]+-*/^, \nlogmin$é\x00", max_size=60))
@settings(deadline=None)
def test_any_text_is_a_law_or_an_error_inside_it(text: str) -> None:
    try:
        tree = parse(text)
    except LawError as error:
        offset = error.offset
    else:
        offset = tree.start
    assert 0 <= offset <= len(text)


def test_the_longest_and_deepest_laws_do_not_exhaust_the_stack() -> None:
    wide = "+".join(["a"] * (MAX_LENGTH // 2))
    assert float(evaluate(parse(wide), {"a": 1.0})) == MAX_LENGTH // 2
    deep = "---(1+2*" * 40 + "a" + ")" * 40
    assert math.isfinite(float(evaluate(parse(deep), {"a": 1.0})))
    assert spell(parse(spell(parse(deep)))) == spell(parse(deep))
