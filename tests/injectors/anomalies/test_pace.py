"""A worker's clock, against a simulated one: when it works, whatever the work and the machine do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.injectors.anomalies import pace
from insitu.injectors.anomalies.board import Board, Mark
from insitu.injectors.anomalies.pace import Beat, Cycle, keep_working

BEGIN = 1000.0


@dataclass
class Machine:
    """A clock that moves by sleeping and working, with delays that the test chooses.

    Attributes
    ----------
    sleep_delays, step_delays
        By which the n-th sleep wakes late, and the n-th step takes longer.
    """

    step_s: float
    sleep_delays: dict[int, float] = field(default_factory=dict)
    step_delays: dict[int, float] = field(default_factory=dict)
    now: float = BEGIN
    worked: list[tuple[float, float]] = field(default_factory=list)
    ran: float = 0.0
    sleeps: int = 0
    size: float = 10.0
    by_processor: bool = False
    watch: Callable[[float], None] = lambda _: None
    """Called in the middle of each step, with the time then."""

    # the module `time`

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.ran

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds + self.sleep_delays.get(self.sleeps, 0.0)
        self.sleeps += 1

    # the kernel's counter

    waits: bool = False
    others: bool = False

    def waited_s(self) -> float:
        """Delays of all sleeps or steps so far, if they were those of a worker that waited for a processor."""
        asleep = sum(delay for number, delay in self.sleep_delays.items() if number < self.sleeps)
        at_work = sum(delay for number, delay in self.step_delays.items() if number < len(self.worked))
        return asleep * self.waits + at_work * self.others

    # the work

    def step(self) -> None:
        begun = self.now
        self.now += self.step_s + self.step_delays.get(len(self.worked), 0.0)
        self.ran += self.step_s
        self.watch((begun + self.now) / 2)
        self.worked.append((begun, self.now))


def new_mark() -> Mark:
    descriptor = Board.make(1, 1)
    board = Board(descriptor, 1, 1)
    os.close(descriptor)
    (mark,) = board.marks
    mark.enter(0)
    return mark


def work(machine: Machine, how: pace.Pace, length_s: float, mark: Mark | None = None) -> Mark:
    """Have a worker work through one window of `length_s`; gives what it wrote down."""
    mark = mark or new_mark()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "time", machine)
        keep_working(machine, mark, how, BEGIN, BEGIN + length_s, machine.waited_s)
    return mark


duties = st.integers(1, 20).map(lambda twentieths: twentieths / 20)
delays = st.dictionaries(st.integers(0, 60), st.floats(0, 0.4), max_size=6)


@settings(deadline=None)
@given(duty=duties, offset=st.floats(0, 0.999), periods=st.integers(1, 30), step_s=st.floats(0.0001, 0.002))
def test_on_an_undisturbed_machine_the_duty_is_kept_from_the_first_period_on(
    duty: float, offset: float, periods: int, step_s: float
) -> None:
    machine = Machine(step_s)
    mark = work(machine, Cycle(duty, 0.1, 0.1 * offset), 0.1 * periods)
    stretches = periods + 1
    assert mark.busy_s(machine.now) == pytest.approx(duty * 0.1 * periods, abs=stretches * step_s + 1e-6)
    assert machine.now == pytest.approx(BEGIN + 0.1 * periods, abs=step_s + 1e-6)
    assert mark.done == 10.0 * len(machine.worked)


@settings(deadline=None)
@given(duty=duties, offset=st.floats(0, 0.999), sleep_delays=delays, step_delays=delays)
def test_work_is_begun_only_when_the_clock_says_and_what_was_missed_is_not_made_up_for(
    duty: float, offset: float, sleep_delays: dict[int, float], step_delays: dict[int, float]
) -> None:
    machine = Machine(0.004, sleep_delays, step_delays)
    offset_s = 0.1 * offset
    mark = work(machine, Cycle(duty, 0.1, offset_s), 2.0)
    for begun, _ in machine.worked:
        phase = ((begun - BEGIN - offset_s) / 0.1) % 1
        assert phase < duty + 0.005 + 1e-6 or phase > 1 - 1e-6  # moved by half a millisecond at most
        assert begun < BEGIN + 2.0
    planned = (math.ceil(duty * 0.1 / 0.004) + 1) * 21
    assert len(machine.worked) <= planned
    seen = mark.presence(0)
    assert (seen.first, seen.last) == (machine.worked[0][0], machine.worked[-1][1]) if machine.worked else (0, 0)


@settings(deadline=None)
@given(duty=duties.filter(lambda duty: duty < 1), step_delays=delays)
def test_a_worker_that_waits_for_a_processor_asks_for_no_more_than_its_duty(
    duty: float, step_delays: dict[int, float]
) -> None:
    machine = Machine(0.001, step_delays=step_delays, by_processor=True)
    mark = work(machine, Cycle(duty, 0.1, 0.0), 2.0)
    asked_s = mark.busy_s(machine.now)
    assert asked_s == pytest.approx(duty * 2.0, abs=20 * 0.001 + 1e-6)
    assert asked_s >= machine.ran - 1e-6


@settings(deadline=None)
@given(twentieths=st.integers(1, 19), share=st.floats(0, 1), stretch=st.integers(1, 18))
def test_what_the_hypervisor_takes_is_made_up_for_and_what_others_take_is_not(
    twentieths: int, share: float, stretch: int
) -> None:
    """It takes up to half a pause, in one piece, from the middle of a stretch."""
    duty = twentieths / 20
    steps = round(duty * 0.1 / 0.0005)
    taken_s = share * ((1 - duty) * 0.1 / 2 - 0.0005)
    taken = {stretch * steps + steps // 2: taken_s}
    lost_s = min(max(0.0, taken_s - 0.002), duty * 0.1 / 2)
    undisturbed, machine, others = (
        Machine(0.0005, step_delays=delays, by_processor=True, others=is_others)
        for delays, is_others in (({}, False), (taken, False), (taken, True))
    )
    for one in (undisturbed, machine, others):
        work(one, Cycle(duty, 0.1, 0.0), 2.0)
    unsure = 0.002 + 1e-6  # this stretch and the next end at a step each
    assert machine.ran == pytest.approx(undisturbed.ran, abs=unsure)
    assert others.ran == pytest.approx(undisturbed.ran - lost_s, abs=unsure)


@settings(deadline=None)
@given(every_s=st.floats(0.005, 0.2), share=st.floats(0, 0.999), step_s=st.floats(0.0001, 0.004))
def test_an_undisturbed_rate_is_kept(every_s: float, share: float, step_s: float) -> None:
    machine = Machine(step_s)
    mark = work(machine, Beat(every_s, share * every_s), 2.0)
    due = math.ceil((2.0 - share * every_s) / every_s - 1e-9)
    assert len(machine.worked) == due
    assert mark.offered == mark.done == 10.0 * due
    for begun, after in pairwise(begun for begun, _ in machine.worked):
        assert after - begun == pytest.approx(every_s)


@settings(deadline=None)
@given(step_s=st.floats(0.0001, 0.5))
def test_a_rate_that_the_resource_cannot_give_is_asked_for_all_the_same(step_s: float) -> None:
    machine = Machine(step_s)
    mark = work(machine, Beat(0.02, 0.0), 2.0)
    assert mark.offered == 10.0 * 100
    served = math.ceil(2.0 / (0.02 * math.ceil(step_s / 0.02 - 1e-9)) - 1e-9)
    assert mark.done == pytest.approx(10.0 * served, abs=10.0 * served * 0.02 + 10.0)


@settings(deadline=None)
@given(step_s=st.floats(0.0001, 3.0))
def test_in_the_middle_of_a_step_it_is_known_how_long_the_beats_have_been_waiting_for_it(step_s: float) -> None:
    mark, seen = new_mark(), []

    def look(now: float) -> None:
        due_until = min(now, BEGIN + 2.0)
        seen.append((mark.offered + mark.at_hand_s(now) * 10.0 / 0.02, 10.0 * (due_until - BEGIN) / 0.02))

    work(Machine(step_s, watch=look), Beat(0.02, 0.0), 2.0, mark)
    for asked, due in seen:
        assert asked == pytest.approx(due, abs=10.0 + 1e-6)  # one beat
    assert mark.at_hand_s(BEGIN + 10.0) == 0


@settings(deadline=None)
@given(sleep_delays=delays, step_delays=delays)
def test_beats_that_were_slept_through_were_not_asked_for(
    sleep_delays: dict[int, float], step_delays: dict[int, float]
) -> None:
    machine = Machine(0.001, sleep_delays, step_delays)
    mark = work(machine, Beat(0.02, 0.0), 2.0)
    assert mark.done <= mark.offered <= 10.0 * 100
    lost_s = sum(delay for number, delay in sleep_delays.items() if number < machine.sleeps)
    assert mark.offered >= 10.0 * (100 - lost_s / 0.02) - 1e-6
    for begun, after in pairwise(begun for begun, _ in machine.worked):
        assert after > begun


@settings(deadline=None)
@given(sleep_delays=delays, step_delays=delays)
def test_beats_that_passed_while_waiting_for_a_processor_were_asked_for(
    sleep_delays: dict[int, float], step_delays: dict[int, float]
) -> None:
    machine = Machine(0.001, sleep_delays, step_delays, waits=True)
    mark = work(machine, Beat(0.02, 0.0), 2.0)
    overrun = max(0.0, machine.now - BEGIN - 2.0) / 0.02
    assert 10.0 * 99 <= mark.offered <= 10.0 * (101 + overrun)
    assert mark.done <= mark.offered


def test_a_window_that_is_over_is_not_begun() -> None:
    machine = Machine(0.001, now=BEGIN + 5.0)
    mark = work(machine, Cycle(1.0, 0.1, 0.0), 2.0)
    assert machine.worked == []
    assert mark.presence(0).first == 0
