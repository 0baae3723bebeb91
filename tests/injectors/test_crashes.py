"""Every interleaving of crashes: of the writer, of recoveries, of both, with torn lines and failing power.

After a recovery that reports clean, nothing marked is left, and what belongs to others is untouched. At no moment
is there an effect of an intent without its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from insitu.injectors.recovery import Fate
from insitu.injectors.undo import UndoKind
from tests.injectors.stepped import Stepped
from tests.injectors.world import NOBODY, Pop, Push, Step, World

PUSHES = st.builds(
    Push,
    st.sampled_from([UndoKind.FOLDER, UndoKind.VALUE, UndoKind.VALUE, UndoKind.PROCESS]),
    st.integers(0, 1),
    st.integers(1, 9),
)
PROGRAMS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(PUSHES, PUSHES, st.just(Pop())), min_size=4, max_size=8
)
FIXED: tuple[Step, ...] = (
    Push(UndoKind.FOLDER),
    Push(UndoKind.VALUE, length=9),
    Push(UndoKind.VALUE, length=1),
    Pop(),
    Push(UndoKind.PROCESS),
)
"""Nested changes of one value, to a longer and to a shorter text; what is left is undone in order at the end."""


@contextmanager
def world() -> Iterator[World]:
    one = World()
    try:
        yield one
    finally:
        one.close()


def recover_to_the_end(one: World) -> list[str]:
    result = one.recoverer().finish()
    assert isinstance(result, list)
    return result


def crash_at(stepped: Stepped, call: int, one: World | None = None) -> bool:
    """Let it make so many calls, and kill it; whether it got that far."""
    for _ in range(call):
        if not stepped.alive:
            return False
        name = stepped.waits_for
        stepped.go()
        if one is not None:
            one.saw(name)
            one.assert_journalled()
    if not stepped.alive:
        return False
    if stepped.waits_for == "write":
        stepped.tear(7)
    else:
        stepped.kill()
    return True


def calls_of_the_writer() -> int:
    with world() as one:
        writer, calls = one.writer(FIXED), 0
        while writer.alive:
            writer.go()
            calls += 1
        assert writer.result == "done"
        one.assert_clean()
        assert one.journal_path() is None
        return calls


def test_every_crash_of_the_writer_with_every_crash_of_the_recovery_after_it() -> None:
    crashes_of_recovery = 0
    for moment in range(calls_of_the_writer()):
        for crash in count():
            with world() as one:
                assert crash_at(one.writer(FIXED), moment, one)
                one.assert_journalled()
                crashed = crash_at(one.recoverer(), crash)
                one.assert_journalled()
                assert set(recover_to_the_end(one)) <= {Fate.CLEAN}
                one.assert_clean()
                one.assert_others_untouched()
            if not crashed:
                break
            crashes_of_recovery += 1
    assert crashes_of_recovery > 200


@pytest.mark.parametrize("values_reset", [True, False])
def test_every_power_failure(values_reset: bool) -> None:
    for moment in range(calls_of_the_writer()):
        with world() as one:
            assert crash_at(one.writer(FIXED), moment, one)
            one.power_failure(lambda durable, _: durable, values_reset=values_reset)
            assert set(recover_to_the_end(one)) <= {Fate.CLEAN}
            one.assert_clean()
            one.assert_others_untouched()


@pytest.mark.parametrize("meanwhile", [0, 15])
def test_a_recovery_ends_a_writer_that_has_outlived_its_owner_wherever_it_stands(meanwhile: int) -> None:
    for moment in range(calls_of_the_writer()):
        with world() as one:
            writer = one.writer(FIXED, NOBODY)
            for _ in range(moment):
                writer.go()
            path = one.journal_path()
            held = path is not None and path.stat().st_size > 0
            recoverer = one.recoverer()
            assert recoverer.waits_for == ("kill" if held else "")
            for _ in range(meanwhile):  # what the writer does until the kill arrives must be undone as well
                if writer.alive:
                    writer.go()
            fates = recoverer.finish()
            writer.notice()
            assert fates == ([Fate.CLEAN] if held else [Fate.IN_USE] if path else [])
            if held:
                assert not writer.alive
                one.assert_clean()
            writer.kill()
            recover_to_the_end(one)
            one.assert_clean()


class Play:
    """A writer, up to two recoverers at a time, somebody else, and what befalls them."""

    def __init__(self, one: World, writer: Stepped) -> None:
        self.world = one
        self.writer = writer
        self.recoverers: list[Stepped] = []
        self.rebooted = False

    def living(self) -> list[Stepped]:
        for actor in (self.writer, *self.recoverers):
            actor.notice()
        return [actor for actor in (self.writer, *self.recoverers) if actor.alive]

    def go(self, which: int, calls: int) -> None:
        living = self.living()
        for _ in range(calls if living else 0):
            actor = living[which % len(living)]
            if actor.alive:
                self._step(actor)
                self.check()

    def recover(self) -> None:
        if sum(actor.alive for actor in self.recoverers) < 2:
            self.recoverers.append(self.world.recoverer())
            self._hear(self.recoverers[-1])

    def recover_to_the_end(self) -> None:
        """Nothing happens meanwhile; what others are at goes on afterwards."""
        self.recover()
        while self.recoverers and self.recoverers[-1].alive:
            self._step(self.recoverers[-1])

    def kill(self, which: int) -> None:
        if living := self.living():
            living[which % len(living)].kill()

    def tear(self, which: int, size: int) -> None:
        writing = [actor for actor in self.living() if actor.waits_for == "write"]
        if writing:
            writing[which % len(writing)].tear(size)

    def fail_power(self, part: float, values_reset: bool) -> None:
        if self.rebooted:
            return
        for actor in self.living():
            actor.kill()
        self.world.power_failure(lambda low, high: low + round(part * (high - low)), values_reset=values_reset)
        self.rebooted = True

    def somebody_changes_a_value(self, number: int) -> None:
        if not self.living():  # reading a file and writing it is not one step
            self.world.change_by_somebody_else(number)

    def check(self) -> None:
        self.living()
        if not self.world.foreign_changes:
            self.world.assert_journalled()
        self.world.assert_others_untouched()

    def end(self) -> None:
        """Whatever has happened, one recovery that nobody disturbs makes it good, or says what it cannot."""
        for actor in self.living():
            actor.kill()
        disputed = not self.rebooted and self.world.disputed_values()
        fates = recover_to_the_end(self.world)
        self.world.assert_others_untouched()
        if disputed:
            assert fates == [Fate.DIRTY]
            assert self.world.disputed_values() == disputed, "what could not be undone stays on record"
            assert self.world.marked_folders() == []
            assert self.world.marked_processes() == []
            assert self.world.changed_values() == []
        else:
            assert set(fates) <= {Fate.CLEAN}
            self.world.assert_clean()

    def _step(self, actor: Stepped) -> None:
        call = actor.waits_for
        actor.go()
        if actor is self.writer:
            self.world.saw(call)
        else:
            self._hear(actor)

    def _hear(self, recoverer: Stepped) -> None:
        if isinstance(recoverer.result, list):
            event(f"a recovery reported {' '.join(recoverer.result) or 'nothing'}")
            if set(recoverer.result) <= {Fate.CLEAN} and not self.living():
                self.world.assert_clean()


def moves(name: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.tuples(st.just(name), *arguments)


WHICH = st.integers(0, 5)
GO = moves("go", WHICH, st.integers(2, 12))
STEP = moves("go", WHICH, st.just(1))
RECOVER = st.one_of(moves("recover"), moves("recover_to_the_end"))
HARM = st.one_of(
    moves("kill", WHICH),
    moves("tear", WHICH, st.integers(0, 60)),
    moves("fail_power", st.floats(0, 1), st.booleans()),
    moves("somebody_changes_a_value", st.integers(0, 1)),
)
SCHEDULES = st.lists(st.one_of(GO, STEP, STEP, RECOVER, RECOVER, HARM), min_size=12, max_size=40)


@given(PROGRAMS, st.booleans(), st.integers(0, 30), SCHEDULES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_interleaving(
    steps: list[Step], orphaned: bool, ahead: int, schedule: list[tuple[str, object]]
) -> None:
    with world() as one:
        play = Play(one, one.writer(steps, NOBODY if orphaned else None))
        play.go(0, ahead)
        for name, *arguments in schedule:
            getattr(play, name)(*arguments)
            play.check()
        play.end()
