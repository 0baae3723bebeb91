"""The guard's clock: it ends a silent holder in time, and never blames a holder for its own lateness."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.guard import ENDURE, LEASE_S, LIMIT, RENEW, UNLIMIT, End, Term

LATENESS = st.floats(0, 10) | st.just(0.0)


def simulate(beats: list[float], lateness: list[float], until: float) -> tuple[End | None, float]:
    """A guard that wakes for every beat and every end, each time late by so much; gives why and when it ended."""
    term, now = Term(LEASE_S, 0.0), 0.0
    heard = 0
    for delay in lateness:
        waiting = beats[heard:]
        planned = term.end
        now = max(now, min(planned, waiting[0] if waiting else math.inf)) + delay
        if now > until:
            break
        arrived = sum(beat <= now for beat in waiting)
        heard += arrived
        term.hear([RENEW] * arrived, now)
        if (end := term.over(now, woke_late=now > planned + 0.25)) is not None:
            return end, now
    return None, now


@given(st.lists(st.floats(0.01, LEASE_S * 0.9), min_size=1, max_size=40), st.lists(LATENESS, max_size=60))
def test_a_holder_that_renews_is_never_ended_however_late_the_guard_is(
    gaps: list[float], lateness: list[float]
) -> None:
    beats = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    assert simulate(beats, lateness, until=beats[-1])[0] is None


@given(st.lists(st.floats(0.01, LEASE_S * 0.9), max_size=10))
def test_a_silent_holder_is_ended_after_one_period_by_a_guard_that_is_on_time(gaps: list[float]) -> None:
    beats = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    last = beats[-1] if beats else 0.0
    end, when = simulate(beats, [0.0] * 60, until=math.inf)
    assert end is End.SILENCE
    assert when == pytest.approx(last + LEASE_S)


@given(st.floats(0.3, 100))
def test_a_late_guard_grants_one_more_period_once(delay: float) -> None:
    end, when = simulate([], [delay, 0.0, 0.0], until=math.inf)
    assert end is End.SILENCE
    assert when == pytest.approx(LEASE_S + delay + LEASE_S)
    assert simulate([], [delay, delay, 0.0], until=math.inf)[1] == pytest.approx(2 * (LEASE_S + delay))


def test_a_limit_ends_a_holder_that_renews_unless_it_is_taken_back() -> None:
    term = Term(LEASE_S, 0.0)
    term.hear([f"{LIMIT} 5.0"], 0.5)
    for now in (1.0, 2.0, 3.0, 4.0, 4.9):
        term.hear([RENEW], now)
        assert term.over(now, woke_late=False) is None
    assert term.end == 5.0
    assert term.over(5.0, woke_late=False) is End.DEADLINE
    term.hear([UNLIMIT], 5.0)
    assert term.over(5.0, woke_late=False) is None


def test_a_late_guard_gives_a_holder_the_time_to_take_its_limit_back() -> None:
    term = Term(LEASE_S, 0.0)
    term.hear([f"{LIMIT} 1.0"], 0.0)
    assert term.over(50.0, woke_late=True) is None
    assert term.end == 50.0 + LEASE_S
    term.hear([RENEW], 50.5)
    assert term.over(50.0 + LEASE_S, woke_late=False) is End.DEADLINE


def test_silence_means_nothing_with_an_endless_period() -> None:
    term = Term(math.inf, 0.0)
    assert math.isinf(term.end)
    assert term.over(1e9, woke_late=False) is None


def test_silence_means_nothing_once_a_holder_has_asked_for_that_but_its_limit_does() -> None:
    term = Term(LEASE_S, 0.0)
    term.hear([RENEW, ENDURE], 1.0)
    assert term.over(1e9, woke_late=False) is None
    term.hear([f"{LIMIT} 2e9"], 1e9)
    assert term.over(2e9, woke_late=False) is End.DEADLINE
