"""Rates over the time in which a cap bound, on counters whose rate is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from insitu.injectors.binding import Floats, Mask, pooled_slope, runs, waiting_rate

MASKS = st.lists(st.booleans(), max_size=40).map(lambda flags: np.array(flags, dtype=np.bool_))


def mask(text: str) -> Mask:
    return np.array([letter == "b" for letter in text], dtype=np.bool_)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("...", []),
        ("bbb", [(0, 3)]),
        ("b.b", [(0, 1), (2, 3)]),
        (".bb.b", [(1, 3), (4, 5)]),
    ],
)
def test_runs_are_given_by_their_first_and_last_sample(text: str, expected: list[tuple[int, int]]) -> None:
    assert list(runs(mask(text))) == expected


@given(MASKS)
def test_runs_cover_the_binding_intervals_and_no_others(binding: Mask) -> None:
    covered = np.zeros(len(binding), dtype=np.bool_)
    ends = [-1]
    for first, last in runs(binding):
        assert ends[-1] < first < last
        ends.append(last)
        covered[first:last] = True
    assert (covered == binding).all()


def test_the_slope_of_a_straight_counter_is_its_rate() -> None:
    time_s: Floats = np.linspace(0.0, 1.0, 11)
    slope = pooled_slope(time_s, 5 + 0.3 * time_s, mask("bbbbbbbbbb"))
    assert slope is not None
    assert slope.rate == pytest.approx(0.3)
    assert slope.time_s == pytest.approx(1.0)


def test_only_binding_intervals_count_and_what_happens_between_runs_does_not() -> None:
    time_s = np.arange(9.0)
    steps = np.array([2.0, 2, 2, 90, 0, 90, 2, 2])
    counter = np.concatenate(([0.0], np.cumsum(steps)))
    slope = pooled_slope(time_s, counter, mask("bbb...bb"))
    assert slope is not None
    assert slope.rate == pytest.approx(2.0)
    assert slope.time_s == pytest.approx(5.0)


def test_a_quantum_at_the_edge_moves_the_slope_less_than_the_quotient() -> None:
    time_s: Floats = np.linspace(0.0, 1.0, 41)
    smooth = 0.5 * time_s
    late = smooth.copy()
    late[-1] += 0.005  # the last sample was taken just after a quantum of 5 ms
    slope = pooled_slope(time_s, late, np.ones(40, dtype=np.bool_))
    assert slope is not None
    quotient = (late[-1] - late[0]) / time_s[-1]
    assert 0 < abs(slope.rate - 0.5) < abs(quotient - 0.5)
    assert pooled_slope(time_s, smooth, np.zeros(40, dtype=np.bool_)) is None


RATES = st.floats(1e-3, 1e9)
STEPS = st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=30)


@st.composite
def straight_counters(draw: st.DrawFn) -> tuple[Floats, Floats, Mask, float]:
    time_s = np.cumsum([0.0, *draw(STEPS)])
    rate = draw(RATES)
    flags = draw(st.lists(st.booleans(), min_size=len(time_s) - 1, max_size=len(time_s) - 1))
    return time_s, rate * time_s, np.array(flags, dtype=np.bool_), rate


@given(straight_counters(), st.floats(-1e3, 1e3), st.floats(-1e6, 1e6))
def test_the_slope_does_not_depend_on_where_time_and_counter_begin(
    case: tuple[Floats, Floats, Mask, float], later_s: float, offset: float
) -> None:
    time_s, counter, binding, rate = case
    assume(binding.any())
    slope = pooled_slope(time_s + later_s, counter + rate * offset, binding)
    assert slope is not None
    assert slope.rate == pytest.approx(rate, rel=1e-3)
    assert slope.time_s == pytest.approx(float(np.diff(time_s)[binding].sum()), abs=1e-9)


@given(straight_counters(), st.floats(0.01, 100))
def test_the_slope_scales_with_the_counter(case: tuple[Floats, Floats, Mask, float], factor: float) -> None:
    time_s, counter, binding, _ = case
    plain, scaled = pooled_slope(time_s, counter, binding), pooled_slope(time_s, factor * counter, binding)
    assert (plain is None) == (scaled is None) == (not binding.any())
    if plain is not None and scaled is not None:
        assert scaled.rate == pytest.approx(factor * plain.rate)


def test_waiting_dates_the_ends_of_a_run() -> None:
    # 10 MB at 10 MB/s from 0.05 s on; the first sample interval waited half, the last not at all after 0.05 s
    time_s = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    stall_s = np.array([0.0, 0.05, 0.15, 0.25, 0.30])
    done = np.array([0.0, 0.5e6, 1.5e6, 2.5e6, 3.0e6])
    rate = waiting_rate(time_s, done, stall_s, np.ones(4, dtype=np.bool_))
    assert rate is not None
    assert rate.time_s == pytest.approx(0.3)
    assert rate.rate == pytest.approx(10e6)


def test_a_run_of_one_interval_has_one_edge() -> None:
    rate = waiting_rate(np.array([0.0, 1.0]), np.array([0.0, 8.0]), np.array([0.0, 0.8]), mask("b"))
    assert rate is not None
    assert rate.rate == pytest.approx(10.0)


def test_no_waiting_gives_no_rate() -> None:
    time_s, counter = np.array([0.0, 1.0]), np.array([0.0, 8.0])
    assert waiting_rate(time_s, counter, np.zeros(2), mask("b")) is None
    assert waiting_rate(time_s, counter, time_s, mask(".")) is None


@given(straight_counters())
def test_waiting_all_the_time_gives_the_mean_rate_over_the_runs(
    case: tuple[Floats, Floats, Mask, float],
) -> None:
    time_s, counter, binding, rate = case
    assume(binding.any())
    waited = waiting_rate(time_s, counter, time_s, binding)
    assert waited is not None
    assert waited.rate == pytest.approx(rate, rel=1e-6)
    assert math.isclose(waited.time_s, float(np.diff(time_s)[binding].sum()), rel_tol=1e-6)


@given(straight_counters(), st.floats(0, 0.9))
def test_waiting_less_at_the_ends_never_lowers_the_rate(
    case: tuple[Floats, Floats, Mask, float], idle: float
) -> None:
    time_s, counter, binding, rate = case
    assume(binding.any())
    stall_s = np.concatenate(([0.0], np.cumsum(np.diff(time_s) * (1 - idle))))
    waited = waiting_rate(time_s, counter, stall_s, binding)
    assert waited is not None
    assert waited.rate >= rate * (1 - 1e-9)
