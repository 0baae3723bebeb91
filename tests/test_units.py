"""Quantities: text to base units and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.units import (
    UnitError,
    dimension_of,
    format_quantity,
    parse_quantity,
    percent,
    percent_beside,
    spell_dimension,
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10 MB/s", "B/s", 1e7),
        ("1 MiB", "B", 1048576.0),
        ("8 Mb", "B", 1e6),
        ("3 min", "s", 180.0),
        ("0.5 core", "core", 0.5),
        ("80 %", "fraction", 0.8),
        ("2 core*s/GB", "core*s/B", 2e-9),
        (5, "MB", 5e6),
        (0.5, "core", 0.5),
        ("unlimited", "B/s", math.inf),
        ("1e3 B", "B", 1000.0),
        ("-1 s", "s", -1.0),
        ("500/s", "1/s", 500.0),
        ("500 /s", "1/s", 500.0),
        ("500 1/s", "1/s", 500.0),
        ("1 1/s", "1/s", 1.0),
        ("1/s", "1/s", 1.0),
        ("2.4 kHz", "1/s", 2400.0),
        ("120/min", "1/s", 2.0),
        (500, "1/s", 500.0),
        ("3/s", "Hz", 3.0),
    ],
)
def test_parse(text: str | float, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("10 MB", "B/s", "'10 MB' is B, not B/s"),
        ("10", "B", "has no unit; write it with one, such as B"),
        ("ten MB", "B", "not a quantity with a known unit"),
        ("10 parsec", "B", "not a quantity with a known unit"),
        ("9**9**9 B", "B", "not a quantity"),
        ("__import__('os')", "B", "not a quantity"),
        ("1e999 B", "B", "not a"),
        ("B" * 101, "B", "not a quantity"),
        (True, "B", "not a quantity"),
        (math.nan, "B", "not a finite quantity"),
        ("", "B", "not a quantity"),
        ("500", "1/s", "'500' has no unit; write it with one, such as 1/s"),
        ("500 2/s", "1/s", "not a quantity"),
        ("500 1 s", "s", "not a quantity"),
        ("500 1", "1/s", "not a quantity"),
    ],
)
def test_refuse(text: str | float, unit: str, message: str) -> None:
    with pytest.raises(UnitError, match=message.replace("*", r"\*")):
        parse_quantity(text, unit)


UNITS = ["B", "B/s", "bit/s", "b", "s", "core", "fraction", "%", "MB/s", "Mbit/s", "min", "1/s", "core*s/GB", "Hz"]


@given(st.floats(1e-6, 1e13), st.sampled_from(UNITS))
def test_a_formatted_quantity_reads_back(value: float, unit: str) -> None:
    text = format_quantity(value, unit, digits=12)
    again = parse_quantity(text, unit)
    assert again == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1e7, "B/s", "10 MB/s"),
        (1.25e6, "bit/s", "10 Mbit/s"),
        (1.25e8, "bit/s", "1 Gbit/s"),
        (1.25e6, "Mbit/s", "10 Mbit/s"),
        (1e7, "MB/s", "10 MB/s"),
        (0.05, "%", "5 %"),
        (0.05, "fraction", "5 %"),
        (0.0005, "fraction", "0.05 %"),
        (1.0, "fraction", "100 %"),
        (0.0123, "s", "12.3 ms"),
        (1200.0, "s", "1200 s"),
        (90.0, "min", "1.5 min"),
        (5000.0, "1/s", "5000/s"),
        (math.inf, "bit/s", "unlimited"),
        (0.0, "bit/s", "0 bit/s"),
    ],
)
def test_a_quantity_is_written_in_its_own_unit(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


def parsed_or_infinite(text: str) -> float:
    try:
        return parse_quantity(text, "B")
    except UnitError:
        return math.inf


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_unit_error(text: str) -> None:
    assert not math.isnan(parsed_or_infinite(text))


@pytest.mark.parametrize("unit", ["B", "B/s", "core*s/B", "1/s", "s^2/B", "core s/B"])
def test_a_spelled_dimension_reads_back(unit: str) -> None:
    dimension = dimension_of(unit)
    assert dimension_of(spell_dimension(dimension)) == dimension


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0213, "2.1 %"),
        (0.9996, "100 %"),
        (1.234, "123 %"),
        (12.3, "1230 %"),
        (-0.5, "-50 %"),
        (math.inf, "unknown"),
    ],
)
def test_shares_keep_every_digit_before_the_point(share: float, text: str) -> None:
    assert percent(share) == text


def test_shares_that_differ_are_written_differently() -> None:
    assert percent_beside(0.1001, 0.1) == "10.01 %"
    assert percent_beside(0.0997, 0.1) == "9.97 %"
    assert percent_beside(0.1, 0.1) == "10 %"
    assert percent_beside(0.0713, 0.1) == "7.1 %"
    assert percent_beside(math.inf, 0.1) == "unknown"
