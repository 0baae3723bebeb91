"""How fast the processors are, by made-up pieces of work: what a neighbour does to a core, no test can ask for."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from insitu.injectors import processors
from insitu.orchestrator.execution.pace import Look, Pace, piece_s

HERE = tuple(sorted(os.sched_getaffinity(0)))


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that does not show which processors share a core."""
    monkeypatch.setattr(processors, "siblings", lambda cpu, root=None: frozenset((cpu,)))


def pieces(times_s: Iterable[float]) -> Callable[[], float]:
    """One after the other, the last for ever."""
    found = list(times_s)
    each = itertools.chain(found, itertools.repeat(found[-1]))
    return lambda: next(each)


class Speed:
    """A piece of work that takes as long as it is told to."""

    def __init__(self) -> None:
        self.piece_s = 1.0

    def __call__(self) -> float:
        return self.piece_s


def looked(pace: Pace, count: int) -> list[Look]:
    with pace.watched() as watch:
        deadline = time.monotonic() + 20
        while len(watch.looks) < count and time.monotonic() < deadline:
            time.sleep(0.01)
    return watch.looks


def test_processors_that_were_faster_before_are_slower_now() -> None:
    speed = Speed()
    pace = Pace(HERE[:1], speed)
    assert pace.slower_share(looked(pace, 8)) == 0.0
    speed.piece_s = 1.5
    assert pace.slower_share(looked(pace, 8)) == pytest.approx(0.5)


def test_of_a_look_the_fastest_piece_counts() -> None:
    pace = Pace(HERE[:1], itertools.cycle([9.0, 1.0, 7.0]).__next__)
    assert {one.piece_s for one in looked(pace, 3)} == {1.0}


def test_a_single_look_that_was_faster_is_not_what_a_processor_can_do() -> None:
    pace = Pace(HERE[:1], pieces([0.6] * 3 + [1.0]))
    looks = looked(pace, 21)
    assert looks[0].piece_s == 0.6
    assert pace.slower_share(looks[1:]) == pytest.approx(0.0)


def test_each_processor_is_compared_with_itself_and_the_mean_counts() -> None:
    pace = Pace((0, 1), pieces([1.0]))
    pace._known[0].extend([1.0] * 9)
    pace._known[1].extend([2.0] * 9)
    assert pace.slower_share([Look(0, 1.4), Look(1, 2.0)]) == pytest.approx(0.2)
    assert pace.slower_share([Look(0, 1.4)]) == pytest.approx(0.4)
    assert math.isnan(pace.slower_share([]))


def test_a_slow_processor_on_which_nobody_works_is_no_harm() -> None:
    pace = Pace((0, 1), pieces([1.0]))
    for known in pace._known.values():
        known.extend([1.0] * 9)
    looks = [Look(0, 1.5), Look(1, 1.0)]
    assert pace.slower_share(looks, {0: 0.0, 1: 5.0}) < 0.01
    assert pace.slower_share(looks, {0: 5.0, 1: 0.0}) == pytest.approx(0.5, abs=0.01)
    assert pace.slower_share(looks, {0: 1.0, 1: 3.0}) == pytest.approx(0.125, abs=0.01)


def test_where_the_machine_worked_is_known_at_the_end() -> None:
    with Pace(HERE).watched() as watch:
        burnt_until = time.process_time() + 0.3
        while time.process_time() < burnt_until:
            pass
        assert watch.busy_s == {}
    assert sum(watch.busy_s[one] for one in HERE) >= 0.25


def test_a_trial_waits_until_the_processors_are_as_fast_as_before() -> None:
    speed = Speed()
    pace = Pace(HERE[:1], speed)
    pace.wait_until_fast(0.15, within_s=20.0)
    assert len(pace._known[HERE[0]]) >= 40
    speed.piece_s = 1.6
    neighbour = threading.Timer(0.5, setattr, (speed, "piece_s", 1.0))
    began = time.monotonic()
    neighbour.start()
    pace.wait_until_fast(0.15, within_s=20.0)
    assert 0.5 <= time.monotonic() - began < 20
    assert speed.piece_s == 1.0


def test_it_does_not_wait_for_ever_nor_where_nothing_is_asked() -> None:
    speed = Speed()
    slow = Pace(HERE[:1], speed)
    looked(slow, 40)
    speed.piece_s = 2.0
    began = time.monotonic()
    slow.wait_until_fast(0.15, within_s=0.3)
    assert time.monotonic() - began >= 0.3
    assert slow.slower_share([Look(HERE[0], slow._known[HERE[0]][-1])]) == pytest.approx(1.0)
    before = len(slow._known[HERE[0]])
    slow.wait_until_fast(math.inf, within_s=20.0)
    assert len(slow._known[HERE[0]]) == before


def test_where_threads_of_a_core_are_shown_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "siblings", lambda cpu, root=None: frozenset((cpu, cpu ^ 1)))
    pace = Pace(HERE)
    with pace.watched() as watch:
        time.sleep(0.1)
    assert watch.looks == []
    assert math.isnan(pace.slower_share(watch.looks))
    pace.wait_until_fast(0.15, within_s=0.0)


def test_of_many_processors_some_are_looked_at() -> None:
    assert Pace(range(64)).processors == (0, 8, 16, 24, 32, 40, 48, 56)
    assert Pace(()).processors == ()


def test_a_processor_that_was_taken_away_is_passed_over() -> None:
    pace = Pace((4095, HERE[0]), pieces([1.0]))
    assert {one.processor for one in looked(pace, 2)} == {HERE[0]}


def test_whoever_asks_stays_on_its_processors() -> None:
    looked(Pace(HERE), len(HERE))
    assert tuple(sorted(os.sched_getaffinity(0))) == HERE


def test_a_piece_is_short_and_takes_processor_time() -> None:
    assert 1e-6 < min(piece_s() for _ in range(20)) < 5e-3
