"""A worker's clock: when it works, whatever came of the work before.

Deadlines are absolute times of the monotonic clock. What was missed (asleep too long, or waiting for the
resource) is not made up for, but for 2 ms of a stretch: demand does not depend on the outcome. What the hypervisor
took from a stretch of processor work is, as far as half the pause after it goes: nobody else had that time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from insitu.injectors.anomalies.board import Board, Mark
from insitu.injectors.options import Window


class Work(Protocol):
    """What a worker does, in steps that are short against its cycle."""

    size: float
    """Bytes that a step moves; 0 where none are."""
    by_processor: bool
    """Whether a step is a processor's work alone: to ask for it is to run, or to wait for a processor."""

    def step(self) -> None:
        """Do a little."""
        ...


class Holding(Protocol):
    """What a worker holds instead of working."""

    def take(self) -> float:
        """Take it; gives how many bytes it is."""
        ...

    def give_back(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True)
class Cycle:
    """A duty cycle: at work for `duty` of each period, from `offset_s` after a window's begin on.

    The workers of a load have their offsets spread over the period, so that the load is as even as it can be.
    """

    duty: float
    period_s: float
    offset_s: float


@dataclass(frozen=True, slots=True)
class Beat:
    """One step every so often, the first `offset_s` after a window's begin."""

    every_s: float
    offset_s: float


Pace = Cycle | Beat
_WAKE_UP_S = 0.0005
"""By which a stretch may be moved, but not shortened, when the timer wakes its worker late."""
_FORGIVEN_S = 0.002
"""By which a stretch of processor work may end late whatever the reason."""
_TIE = 1e-6
"""Beats by which a step may end late for the next one: what adding times rounds off."""


def sleep_until(moment: float) -> float:
    """Sleep to a moment of the monotonic clock; gives the time then."""
    now = time.monotonic()
    if now < moment:
        time.sleep(moment - now)  # by the absolute clock: an interruption does not lengthen it
        now = time.monotonic()
    return now


def spans(windows: tuple[Window, ...] | None, board: Board) -> Iterator[tuple[float, float]]:
    """Begin and end of each window by the monotonic clock; the subject must have started, if there are any."""
    if windows is None:
        yield time.monotonic(), math.inf
        return
    for window in windows:
        yield board.start + window.begin_s, board.start + window.end_s


def keep_working(
    work: Work, mark: Mark, pace: Pace, begin: float, end: float, waited_s: Callable[[], float]
) -> None:
    """Work through one window.

    Parameters
    ----------
    waited_s
        Time that this process has waited for a processor, ever; not a number where that is unknown.
    """
    if sleep_until(begin) >= end:
        return
    if isinstance(pace, Beat):
        _step_by_step(work, mark, pace, begin, end, waited_s)
    elif pace.duty >= 1:
        _stretch(work, mark, _Stretch(begin, end, time.thread_time()), waited_s)
    else:
        _on_and_off(work, mark, pace, begin, end, waited_s)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """When to work: `on` to `off` by the clock.

    Attributes
    ----------
    ran_before
        Processor time of this thread at the end of the stretch before.
    room_s
        By which it may end late, to make up for interruptions.
    """

    on: float
    off: float
    ran_before: float
    room_s: float = 0.0


def _stretch(work: Work, mark: Mark, stretch: _Stretch, waited_s: Callable[[], float]) -> float:
    """Work without a pause; gives this thread's processor time then.

    Processor work ends when the thread has run for as long as it was to, waking up and going to sleep
    included, half a millisecond early at most. What an interruption or the hypervisor took is made up for;
    waiting for a processor is not, but for 2 ms.

    What counts is the time from `on` to `off`, and what the last step took beyond that: of a step that moves
    bytes all of it, else only the time on a processor. A worker that waits for one cannot see that its time is
    up, but it asks for no more than the clock says.
    """
    now = time.monotonic()
    on, off = stretch.on, stretch.off
    mark.begin(now, on, off)
    step, size = work.step, work.size
    early = _WAKE_UP_S if work.by_processor else 0.0
    waited_before = waited_s()
    while now < off - early or (work.by_processor and _is_short(stretch, now, waited_before, waited_s)):
        step()
        now = time.monotonic()
        mark.progress(size, now)
    ran = time.thread_time()
    mark.end(max(ran - stretch.ran_before, off - on) if work.by_processor else max(now, off) - on)
    return ran


def _is_short(stretch: _Stretch, now: float, waited_before: float, waited_s: Callable[[], float]) -> bool:
    """Whether a thread has run for less than it was to, for no fault of its own, and may go on."""
    missing_s = stretch.off - stretch.on - (time.thread_time() - stretch.ran_before)
    if missing_s <= 0:
        return False
    if now < stretch.off + _FORGIVEN_S:
        return True
    return now < stretch.off + stretch.room_s and missing_s > waited_s() - waited_before  # not if that is unknown


def _on_and_off(
    work: Work, mark: Mark, cycle: Cycle, begin: float, end: float, waited_s: Callable[[], float]
) -> None:
    """Be at work in the part of each period that is this worker's; late ones are not made up for."""
    number = -1  # the stretch that an endless cycle would be in when the window begins
    ran = time.thread_time()
    while True:
        on = begin + cycle.offset_s + number * cycle.period_s
        if on >= end:
            sleep_until(end)
            return
        off = min(on + cycle.duty * cycle.period_s, end)
        on = max(on, begin)
        if on < off:
            if (now := sleep_until(on)) < off:
                shift = min(now - on, _WAKE_UP_S)
                room_s = min((1 - cycle.duty) * cycle.period_s / 2, end - off)
                ran = _stretch(work, mark, _Stretch(on + shift, min(off + shift, end), ran, room_s), waited_s)
            else:  # asleep, or waiting for a processor: the kernel's counters tell which
                mark.end(off - on)
        number += 1


def _step_by_step(
    work: Work, mark: Mark, beat: Beat, begin: float, end: float, waited_s: Callable[[], float]
) -> None:
    """One step per beat. A beat that passes during a step was asked for, though there was no room for it.

    So was one that passes while the worker waits for a processor, and none that it sleeps through.
    """
    number = 0
    while True:
        due = begin + beat.offset_s + number * beat.every_s
        if due >= end:
            sleep_until(end)
            return
        waited_before = waited_s()
        now = sleep_until(due)
        late_s = now - due
        if late_s >= beat.every_s:
            waiting_s = waited_s() - waited_before
            waiting_s = 0.0 if math.isnan(waiting_s) else min(late_s, waiting_s)
            number += int((late_s - waiting_s) / beat.every_s)
            late = max(0, int((now - begin - beat.offset_s) / beat.every_s) - number)
            mark.offer(late * work.size)
            number += late
        mark.begin(now, now, end)  # no beat is due after it
        work.step()
        done = time.monotonic()
        mark.progress(work.size, done)
        beats = (min(done, end) - begin - beat.offset_s) / beat.every_s
        after = max(number + 1, math.ceil(beats - _TIE))
        mark.end(done - now)
        mark.offer((after - number) * work.size)
        number = after


def keep_holding(holding: Holding, mark: Mark, begin: float, end: float) -> None:
    """Hold something through one window, asleep."""
    if sleep_until(begin) >= end:
        return
    held = holding.take()
    now = time.monotonic()
    mark.begin(now, now, end)
    mark.hold(held)
    while now < end:  # wake up now and then, to say that it is still there
        now = sleep_until(min(end, now + 0.25))
        mark.progress(0.0, now)
    mark.hold(0.0)
    mark.end(end - begin)
    holding.give_back()
